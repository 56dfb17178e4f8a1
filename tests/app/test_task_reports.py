"""A report of a real run: nothing empty, nothing overlapping, numbers equal to the logs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.artifacts.report import report_run
from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.report.panels import panel_chart
from longhaul.report.run_data import gather
from longhaul.report.style import laid_out
from longhaul.report.summary import duration, figure
from longhaul.runs.directory import RunDirectory
from tests.tasks.mario.cartridges import game_or_skip
from tests.web.browser import Browser, missing, opened

SHORT = ("total_timesteps=16000", "evaluate.every_iterations=5", "evaluate.final_episodes=4")
TASKS: dict[str, tuple[str, ...]] = {
    "gym:CartPole-v1": (),
    "fish": (),
    "mario": SHORT,
    "nethack": (*SHORT, "options.eval_episodes=4"),
}
"""Each task with its default preset, and what ends after a minute the runs that take hours."""
MARKS = {"mario": pytest.mark.emulator, "nethack": pytest.mark.nethack}

OVERLAPS = """
const found = [];
for (const svg of document.querySelectorAll('figure.plot svg')) {
  const title = svg.closest('figure').getAttribute('aria-label');
  const frame = svg.getBoundingClientRect();
  if (frame.width < 100 || frame.height < 50) found.push(title + ': nothing to see');
  const texts = [...svg.querySelectorAll('text')].filter(one => one.textContent.trim());
  const boxes = texts.map(one => [one.textContent.trim(), one.getBoundingClientRect()]);
  boxes.forEach(([text, box], place) => {
    if (box.left < frame.left - 2 || box.right > frame.right + 2 ||
        box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
      found.push(title + ': outside: ' + text);
    for (const [other, next] of boxes.slice(place + 1)) {
      const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      const tall = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
      if (wide > 2 && tall > 3)
        found.push(title + ': overlapping: ' + text + ' and ' + other);
    }
  });
}
for (const section of document.querySelectorAll('section'))
  if (section.querySelectorAll('p,li,td,pre,figure,.tile').length === 0)
    found.push('empty: ' + section.id);
for (const tile of document.querySelectorAll('.tile b'))
  if (!tile.textContent.trim()) found.push('an empty tile');
if (document.documentElement.scrollWidth > window.innerWidth) found.push('wider than the window');
return found;
"""

OVER_CURVES = ("target ", "final evaluation", "_border")

pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[pytest.param(task, marks=MARKS.get(task, ())) for task in TASKS]
)
def reported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RunDirectory:
    """Return a run of a task with its report."""
    task = str(request.param)
    if task == "mario":
        game_or_skip()
    root = tmp_path_factory.mktemp("runs")
    config = resolve(ConfigSources(task, overrides=(*TASKS[task], "report.at_end=false")))
    run = begin_run(config, root).directory
    assert run_session(run, config, SessionOptions(quiet=True)).exit_code == 0
    report_run(run.path)
    return run


def logged(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the metrics as they stand in the log, without our own reader."""
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def tiles(run: RunDirectory) -> dict[str, str]:
    page = run.report.read_text()
    return dict(re.findall(r'<div class="tile[\w ]*"><span>(.*?)</span><b>(.*?)</b>', page))


def test_the_tiles_have_the_figures_of_the_logs(reported: RunDirectory) -> None:
    rows, shown = logged(reported), tiles(reported)
    timings = [json.loads(line) for line in reported.timings.read_text().splitlines()]
    score = json.loads(reported.panels.read_text())["score"]
    evaluated = [row[score] for row in rows if score in row]
    best = [value for name, value in shown.items() if name.startswith("best evaluation")]
    spent = math.fsum(row["time/iteration_seconds"] for row in timings)
    assert shown["steps"] == f"{rows[-1]['env_steps']:,}"
    assert shown["training time"] == duration(spent)
    assert best == ([figure(max(evaluated))] if evaluated else [])
    if "rollout/ep_rew_mean" in rows[-1]:
        assert shown["return in training"] == figure(rows[-1]["rollout/ep_rew_mean"])


def test_every_line_of_a_task_s_panels_is_a_column_of_the_log(reported: RunDirectory) -> None:
    run = gather(reported.path)
    rows = run.rows  # settings are added to the rows of the log
    for raw, row in zip(logged(reported), rows, strict=True):
        assert raw.items() <= row.items()
    for panel in (panel for panel in run.panels if panel.kind == "lines"):
        chart = panel_chart(run, panel)
        if chart is None:
            continue
        with laid_out(chart) as drawn:
            drawn_lines = [line for axes in drawn.axes for line in axes.get_lines()]
        # The target and the final evaluation are drawn over the score's curve.
        marks = (*OVER_CURVES, *(name for name, _ in panel.levels))
        lines = [one for one in drawn_lines if not str(one.get_label()).startswith(marks)]
        names = [n for n in (*panel.metrics, *panel.right) if any(n in row for row in rows)]
        assert len(lines) == len(names), panel.title
        for name, line in zip(names, lines, strict=True):
            expected = [(row["env_steps"], row[name]) for row in rows if name in row]
            shown = list(zip(line.get_xdata(), line.get_ydata(), strict=True))
            assert shown == expected, (panel.title, name)


def test_evaluations_are_told_with_the_figures_of_their_files(reported: RunDirectory) -> None:
    page = reported.report.read_text()
    kept = sorted(reported.evaluations.glob("step-*.json"))
    assert kept
    for file in kept:
        found = json.loads(file.read_bytes())
        for suite in found.get("suites", []):
            for one in suite.get("columns", []):
                if one["metric"] in suite["metrics"]:
                    assert f"<td>{suite['metrics'][one['metric']]:{one['form']}}</td>" in page
        if "suites" not in found:
            assert f"<td>{figure(found['metrics']['eval/mean_reward'])}</td>" in page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return one window for all pages."""
    if reason := missing():
        pytest.skip(reason)
    with opened(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.browser
def test_nothing_in_a_report_is_empty_or_overlaps(reported: RunDirectory, browser: Browser) -> None:
    browser.open(Path(reported.report).resolve().as_uri())
    assert browser.run(OVERLAPS) == []
    assert browser.complaints() == []

"""Comparing runs, or the arms of an experiment after training them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from longhaul.app.artifacts.records import opening_settings, run_log
from longhaul.app.build.sources import differences, to_values
from longhaul.app.build.text import columns
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.evaluate import played_cases, reference_scores
from longhaul.app.evaluation.load import Run
from longhaul.app.experiments.arms import Experiment, train_arms
from longhaul.core.config import value_words
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import RunLog, TrainingSummary
from longhaul.core.task import Task
from longhaul.report.comparison import Comparison, Entry, compare_entries, comparison_charts
from longhaul.report.comparison_sheet import sheet_charts
from longhaul.report.page import make_comparison
from longhaul.report.run_data import gather
from longhaul.report.style import Drawn, PlotError, draw
from longhaul.runs.directory import RunDirectory, slug
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import Clocks

MAY_DIFFER = ("name", "seed", "report", "checkpoint", "threads", "env.processes")
"""Keys in which runs of one arm may differ."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison and its page."""

    comparison: Comparison
    differences: dict[str, dict[str, Any]]
    """The config keys in which each arm differs from the first."""
    page: Path

    def as_text(self) -> str:
        """Return a table, notes, and the differences of the arms."""
        header, rows = self.comparison.as_rows()
        lines = [columns(rows, header=header), "", *self.comparison.notes()]
        for arm, changed in self.differences.items():
            words = ", ".join(f"{key} = {value_words(value)}" for key, value in changed.items())
            lines.append(f"{arm}: {words or 'nothing differs'}")
        return "\n".join([*lines, f"page      {self.page}"])

    def as_json(self) -> str:
        """Return everything for programs."""
        values = {**self.comparison.as_values(), "differences": self.differences}
        return json.dumps(values, allow_nan=False)


@dataclass(frozen=True, slots=True)
class ComparedTraining:
    """The training of runs beside that of logs which other programs wrote."""

    rows: dict[str, TrainingSummary]
    """By the name of the run or the path of the log."""

    def as_text(self) -> str:
        """Return a table and what a reader should know."""
        titles = dict.fromkeys(title for row in self.rows.values() for title in row.cells)
        lines = [
            (name, *(row.cells.get(title, "-") for title in titles))
            for name, row in self.rows.items()
        ]
        notes = dict.fromkeys(note for row in self.rows.values() for note in row.notes)
        return "\n".join([columns(lines, header=("training", *titles)), "", *notes])

    def as_json(self) -> str:
        """Return everything for programs."""
        return json.dumps({name: asdict(row) for name, row in self.rows.items()})


def compare_training(runs: Sequence[Path], logs: Sequence[Path]) -> ComparedTraining:
    """Compare the training of runs with that in logs of other programs, which the task reads."""
    if not runs:
        raise ConfigError(f"{logs[0]} is not a run of longhaul; name one to compare it with")
    rows: dict[str, TrainingSummary] = {}
    for path in runs:
        run = Run(path)
        log = run_log(run.directory, opening_settings(run.config, run.task), Clocks())
        rows[path.resolve().name] = _summary(run.task, path, log)
    task = Run(runs[0]).task
    for path in logs:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        rows[str(path)] = _summary(task, path, text)
    return ComparedTraining(rows)


def _summary(task: Task, path: Path, training: RunLog | str) -> TrainingSummary:
    if task.summarize_training is None:
        raise ConfigError(f"task {task.name!r} reads no logs of other programs")
    try:
        return task.summarize_training(training)
    except ConfigError as error:
        raise ConfigError(f"{path} is {error}") from None


def compare_runs(
    paths: Sequence[Path], *, anyway: bool = False, out: Path | None = None
) -> Compared:
    """Compare finished or unfinished runs by the final evaluation of their checkpoints."""
    if len(paths) < 2:
        raise ConfigError("a comparison needs at least two runs")
    configs = {path: _comparable(Run(path)) for path in paths}
    arms = name_arms(configs)
    # References are played for the first run only: all runs play the same cases.
    entries = [measure(path, arms[path], references=path == paths[0]) for path in paths]
    comparison = compare_entries(entries, anyway=anyway)
    changed = arm_differences(configs, arms)
    page = write_page(comparison, changed, out or _default_folder(paths, arms))
    return Compared(comparison, changed, page)


def _comparable(run: Run) -> dict[str, Any]:
    """Return a run's config; the address of a cluster does not count, only its use."""
    values = to_values(run.config)
    address = "a cluster" if values["cluster"]["address"] else ""
    return {**values, "cluster": {**values["cluster"], "address": address}}


def name_arms(configs: dict[Path, dict[str, Any]]) -> dict[Path, str]:
    """Return each run's arm; runs that differ only in `MAY_DIFFER` share one."""
    names: list[tuple[dict[str, Any], str]] = []
    found: dict[Path, str] = {}
    for path, config in configs.items():
        for known, name in names:
            if not differences(known, config, ignore=MAY_DIFFER):
                found[path] = name
                break
        else:
            taken = {name for _, name in names}
            name = str(config["name"])
            while name in taken:
                name += "'"
            names.append((config, name))
            found[path] = name
    return found


def arm_differences(
    configs: dict[Path, dict[str, Any]], arms: dict[Path, str]
) -> dict[str, dict[str, Any]]:
    """Return the config keys in which each arm differs from the first."""
    firsts: dict[str, dict[str, Any]] = {}
    for path, arm in arms.items():
        firsts.setdefault(arm, configs[path])
    base = next(iter(firsts.values()))
    return {
        arm: {k: new for k, (_, new) in differences(base, config, ignore=MAY_DIFFER).items()}
        for arm, config in firsts.items()
        if config is not base
    }


def measure(path: Path, arm: str, *, references: bool) -> Entry:
    """Return a run with the scores of its checkpoint, which is evaluated if needed.

    With `references`, the scores of the task's reference policies are included.
    """
    run = Run(path)
    agent = run.agent(measured_checkpoint(run.directory))
    cases = played_cases(run, agent, references=references)
    suite = suite_words(agent)
    return Entry(
        gather(path),
        arm,
        suite or f"{len(cases)} episodes of seed {agent.config.evaluate.seed}",
        agent.config.evaluate.greedy,
        {case.episode.seed: case.score for case in cases},
        reference_scores(run, agent),
    )


def suite_words(agent: Agent) -> str:
    """Return the suite a run is evaluated on, with its conditions."""
    name = agent.config.evaluate.suite or next(iter(agent.task.evaluation.final), "")
    find = agent.task.evaluation.suite
    if find is None or not name:
        return name
    conditions = find(name).conditions
    return f"{name}, {conditions}" if conditions else name


def measured_checkpoint(run: RunDirectory) -> str:
    """Return the checkpoint of the last evaluation, or the latest checkpoint."""
    kept = sorted(run.evaluations.glob("step-*.json"), key=lambda file: file.stat().st_mtime)
    for file in reversed(kept):
        name = file.name[: len("step-") + 12]
        if (run.checkpoints / name).is_dir():
            return name
    return "latest"


def write_page(comparison: Comparison, changed: dict[str, dict[str, Any]], folder: Path) -> Path:
    """Write the comparison as one page, with curves if plots can be drawn."""
    try:
        charts = (*comparison_charts(comparison), *sheet_charts(comparison))
        drawn: list[Drawn] = [draw(chart) for chart in charts]
    except PlotError:
        drawn = []
    page = folder / "comparison.html"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(page, make_comparison(comparison, changed, drawn).encode())
        for one in drawn:
            replace_file(folder / f"{one.chart.name}.png", one.png, durable=False)
    return page


def _default_folder(paths: Sequence[Path], arms: dict[Path, str]) -> Path:
    names = "-vs-".join(dict.fromkeys(arms[path] for path in paths))
    return paths[0].resolve().parent / "comparisons" / slug(names.replace("'", "x")[:80])


def compare_arms(
    experiment: Experiment, notify: Callable[[str], None], *, out: Path | None = None
) -> Compared:
    """Train every arm with every seed, then compare them in the order of the arms."""
    names = [experiment.run_name(arm) for arm in experiment.arms]

    def place(path: Path) -> int:
        return names.index(RunDirectory(path).read_record().name)

    return compare_runs(sorted(train_arms(experiment, notify), key=place), out=out)

"""Arms side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Panel
from longhaul.report.comparison import Entry, compare_entries, comparison_charts, unequal
from longhaul.report.comparison_sheet import sheet_charts
from longhaul.report.page import make_comparison
from longhaul.report.run_data import gather
from longhaul.report.style import draw, laid_out
from tests.report.made import made_run

MakeEntry = Callable[..., Entry]


@pytest.fixture
def entry(tmp_path: Path) -> MakeEntry:
    def make(
        arm: str,
        *scores: float,
        seed: int = 1,
        task: str = "gym:CartPole-v1",
        suite: str = "fresh",
        steps: int = 4000,
        greedy: bool = True,
    ) -> Entry:
        run = made_run(tmp_path / f"{arm}-{seed}", task=task, name=arm, seed=seed)
        if steps != 4000:
            rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
            rows[-1]["env_steps"] = steps
            run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        cases = {1000 + number: score for number, score in enumerate(scores)}
        return Entry(gather(run.path), arm, suite, greedy, cases)

    return make


def test_arms_with_several_runs_are_compared_over_their_runs(entry: MakeEntry) -> None:
    entries = [entry("old", 1.0 + s, 2.0 + s, seed=s) for s in (1, 2, 3)]
    entries += [entry("new", 11.0 + s, 12.0 + s, seed=s) for s in (1, 2, 3)]
    found = compare_entries(entries)
    assert found.over_runs
    assert [(arm.arm, arm.runs) for arm in found.arms] == [("old", 3), ("new", 3)]
    assert found.arms[0].mean.value == pytest.approx(3.5)
    assert found.arms[0].better is None
    better, difference = found.arms[1].better, found.arms[1].difference
    assert better is not None
    assert better.value == 1.0
    assert difference is not None
    assert difference.value == pytest.approx(10.0)
    assert difference.low == pytest.approx(difference.high) == pytest.approx(10.0)


def test_few_runs_have_a_range_and_no_interval(entry: MakeEntry) -> None:
    entries = [entry("old", 1.0 + s, 2.0 + s, seed=s) for s in (1, 2)]
    entries += [entry("new", 11.0 + s, 12.0 + s, seed=s) for s in (1, 2)]
    found = compare_entries(entries)
    _, (old, new) = found.as_rows()
    assert old[2:4] == ("3 (2.5 to 3.5)", "3 (2.5 to 3.5)")
    assert new[4] == "1.00"
    notes = " ".join(found.notes())
    assert "range of 2 runs, lowest to highest" in notes
    assert "95 %" not in notes
    assert found.line_words == "range of 2 runs"


def test_five_runs_have_an_interval(entry: MakeEntry) -> None:
    seeds = range(1, 6)
    entries = [entry("old", 1.0 + s, 2.0 + s, seed=s) for s in seeds]
    entries += [entry("new", 11.0 + s, 12.0 + s, seed=s) for s in seeds]
    found = compare_entries(entries)
    assert "95 % interval over the runs of an arm" in found.notes()[0]
    assert "range" not in found.notes()[0]
    assert found.line_words == "95 % interval over runs"


def test_single_runs_are_compared_over_their_episodes_and_say_so(entry: MakeEntry) -> None:
    found = compare_entries([entry("old", 1.0, 2.0, 3.0), entry("new", 1.5, 2.5, 3.5)])
    assert not found.over_runs
    assert any("does not show the variation between seeds" in note for note in found.notes())
    header, rows = found.as_rows()
    assert len(header) == len(rows[0]) == 6


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "gym:Acrobot-v1"}, "is a run of 'gym:Acrobot-v1'"),
        ({"suite": "v38"}, "was evaluated on v38 with most likely actions"),
        ({"greedy": False}, "drawn actions"),
        ({"steps": 9000}, "was trained for 9,000 steps, not 4,000"),
    ],
)
def test_unequal_conditions_are_refused_with_the_reason(
    entry: MakeEntry, changes: dict[str, object], reason: str
) -> None:
    entries = [entry("old", 1.0, 2.0), entry("new", 1.0, 3.0, **changes)]
    with pytest.raises(ConfigError, match="cannot be compared") as refused:
        compare_entries(entries)
    assert reason in str(refused.value)
    assert any(reason in warning for warning in compare_entries(entries, anyway=True).warnings)


def test_other_episodes_are_other_conditions(entry: MakeEntry) -> None:
    (reason,) = unequal([entry("old", 1.0, 2.0), entry("new", 1.0, 2.0, 3.0)])
    assert "other episodes" in reason


def test_policies_that_learned_nothing_are_shown_beside_the_arms(entry: MakeEntry) -> None:
    first = replace(entry("old", 1.0, 3.0), references={"random": (0.5, 1.5)})
    found = compare_entries([first, entry("new", 2.0, 4.0)])
    assert [(anchor.name, anchor.mean.value) for anchor in found.anchors] == [("random", 1.0)]
    _, rows = found.as_rows()
    assert [row[0] for row in rows] == ["old", "new", "random"]
    assert "random" in found.notes()[-1]
    assert json.loads(json.dumps(found.as_values()))["anchors"][0]["mean"]["value"] == 1.0


def test_runs_of_one_arm_alone_are_no_comparison(entry: MakeEntry) -> None:
    with pytest.raises(ConfigError, match="at least two arms"):
        compare_entries([entry("old", 1.0, seed=1), entry("old", 2.0, seed=2)])


def test_a_comparison_is_drawn_and_has_a_page(entry: MakeEntry) -> None:
    hostile = "<script>alert(1)</script>"
    found = compare_entries([entry("old", 1.0, 2.0), entry("new", 2.0, 3.0)])
    charts = comparison_charts(found)
    assert [chart.name for chart in charts] == [
        "compare-rollout-ep_rew_mean",
        "compare-eval-mean_reward",
        "compare-scores",
    ]
    page = make_comparison(found, {"new": {hostile: hostile}}, [draw(charts[-1])])
    assert "<script" not in page
    assert "1.5 (1 to 2)" in page
    assert "range of 2 episodes" in page
    assert json.dumps(found.as_values(), allow_nan=False)


COMPARED = (
    Panel("Survival", ("env/survival",), is_compared=True),
    Panel("Stack", ("reward/alive_share", "reward/death_share"), "area", is_compared=True),
    Panel("Apart", ("env/survival",)),
)


def test_the_sheet_shows_all_scores_and_the_task_s_panels_of_all_arms(entry: MakeEntry) -> None:
    scores = {"old": (1.0, 2.0, 3.0, 4.0), "new": (2.0, 3.0, 9.0, 9.0), "third": (0.0, 1.0, 1.0)}
    entries = [entry(arm, *values) for arm, values in scores.items()]
    entries = [replace(one, run=replace(one.run, panels=COMPARED)) for one in entries]
    entries[0] = replace(entries[0], references={"random": (0.5, 0.7)})
    charts = sheet_charts(compare_entries(entries, anyway=True))
    assert [chart.name for chart in charts] == [
        "compare-sheet",
        "compare-bars",
        "compare-env-survival",
        "compare-stack",
    ]
    with laid_out(charts[0]) as figure:
        gain, length, cumulative, histogram, boxes, above = figure.axes
        assert len(gain.get_lines()) == 3
        assert len(length.get_lines()) == 3
        for line, values in zip(cumulative.get_lines(), scores.values(), strict=True):
            assert line.get_xdata().tolist() == sorted(values)
        assert [tick.get_text() for tick in boxes.get_xticklabels()] == [
            "old\n4",
            "new\n4",
            "third\n3",
        ]
        levels = [float(tick.get_text()) for tick in above.get_xticklabels()]
        heights = [bar.get_height() for bar in above.patches]
        expected = [
            sum(v > level for v in own) / len(own) for own in scores.values() for level in levels
        ]
        assert heights == pytest.approx(expected)
        assert histogram.patches
    with laid_out(charts[1]) as figure:
        bars = figure.axes[0].patches
        assert [bar.get_width() for bar in bars] == pytest.approx([2.5, 5.75, 2 / 3, 0.6])
    for chart in charts:
        assert draw(chart).png

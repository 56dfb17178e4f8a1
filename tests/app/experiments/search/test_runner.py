"""The search itself, over trials that learn by a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.experiments.jobs import TrialPlace
from longhaul.app.experiments.search.runner import MOST_FAILURES, NEAR_VALUES, OWN_VALUES
from longhaul.app.experiments.search.study import TrialRecord
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import Status
from tests.app.experiments.search.world import ROWS, World


class Stop:
    """Asks a search to stop at its so-many-th look."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self) -> str | None:
        self.left -= 1
        return "stopped by SIGINT" if self.left < 0 else None


def bare(records: tuple[TrialRecord, ...]) -> list[tuple[object, ...]]:
    """Return what must not depend on interruptions."""
    return [(r.number, r.state, r.params, r.value, r.stages, r.failure, r.words) for r in records]


def test_as_many_trials_are_made_as_were_asked_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    findings = world.search(trials=5)
    assert [record.number for record in findings.records] == list(range(5))
    assert {record.state for record in findings.records} <= {"complete", "pruned"}
    assert (findings.reason, findings.exit_code) == ("", 0)
    assert len(list((tmp_path / "probe-chase").glob("*-search-0*"))) == 5


def test_the_best_trial_is_the_complete_one_with_the_best_value(tmp_path: Path) -> None:
    up = World(tmp_path / "up").search(pruner="none")
    values = {r.number: r.value for r in up.records}
    assert up.best is not None
    assert up.best.value == max(v for v in values.values() if v is not None)
    down = World(tmp_path / "down").search(pruner="none", direction="minimize")
    assert down.best is not None
    assert down.best.value == min(r.value for r in down.records if r.value is not None)


def test_the_first_trial_has_the_values_without_a_search(tmp_path: Path) -> None:
    (record, *_) = World(tmp_path).search(trials=2).records
    assert record.notes["note"] == OWN_VALUES
    assert record.params == {"learn.learning_rate": 1e-3, "learn.n_epochs": 4}


def test_a_value_outside_the_space_is_told_to_be_only_the_nearest(tmp_path: Path) -> None:
    world = World(tmp_path)
    (record, *_) = world.search(trials=1, space=("learn.n_epochs=int:6..9",)).records
    assert record.notes["note"] == NEAR_VALUES
    assert record.params == {"learn.n_epochs": 6}


def test_the_same_call_again_changes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.search(trials=4)
    started = list(world.started)
    assert bare(world.search(trials=4).records) == bare(first.records)
    assert world.started == started


def test_more_trials_go_on_with_the_same_search(tmp_path: Path) -> None:
    world = World(tmp_path / "a")
    world.search(trials=3)
    grown = world.search(trials=7)
    assert world.started == list(range(7))
    assert bare(grown.records) == bare(World(tmp_path / "b").search(trials=7).records)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_search_that_is_stopped_again_and_again_ends_like_one_that_is_not(
    tmp_path: Path, jobs: int
) -> None:
    whole = World(tmp_path / "whole", {2: "4"}).search(trials=6, pruner="none")
    cut = World(tmp_path / "cut", {2: "4"})
    for looks in (3, 4, 6, 5):
        runner = cut.runner(trials=6, place=TrialPlace(jobs=jobs), pruner="none")
        assert runner.run(Stop(looks)) == "stopped by SIGINT"
    findings = cut.search(trials=6, place=TrialPlace(jobs=jobs), pruner="none")
    assert [r.number for r in findings.records] == list(range(6))
    assert all(r.state in ("complete", "failed") for r in findings.records)
    if jobs == 1:  # what is asked for beside running trials depends on what they have told
        assert bare(findings.records) == bare(whole.records)
    assert len(list((tmp_path / "cut" / "probe-chase").glob("*-search-0*"))) == 6


def test_pruning_does_not_depend_on_interruptions(tmp_path: Path) -> None:
    whole = World(tmp_path / "whole").search(trials=11)
    assert "pruned" in {record.state for record in whole.records}
    cut = World(tmp_path / "cut")
    while (runner := cut.runner(trials=11)).run(Stop(9)):
        pass
    assert bare(runner.findings().records) == bare(whole.records)


def test_a_pruned_trial_is_asked_to_stop_and_its_run_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    findings = world.search(trials=11)
    pruned = next(record for record in findings.records if record.state == "pruned")
    assert len(pruned.stages) < ROWS
    assert pruned.value == pruned.stages[max(pruned.stages)]
    name = f"search-{pruned.number:04d}"
    (run,) = (tmp_path / "probe-chase").glob(f"*-{name}-*")
    assert f'"{Status.STOPPED.value}"' in (run / "run.json").read_text()


@pytest.mark.parametrize(
    ("code", "kind"), [("1", "crashed"), ("-9", "crashed"), ("2", "config"), ("4", "numbers")]
)
def test_a_failed_trial_is_typed_and_the_search_goes_on(
    tmp_path: Path, code: str, kind: str
) -> None:
    world = World(tmp_path, {1: code})
    failed = world.search(trials=4).records[1]
    assert (failed.state, failed.failure) == ("failed", kind)
    assert f"fate {code}" in failed.words
    assert world.started == [0, 1, 2, 3]


def test_values_no_config_takes_fail_without_a_process(tmp_path: Path) -> None:
    world = World(tmp_path)
    findings = world.search(
        trials=6,
        space=("collect.chunk=choice:24,32", "collect.num_steps=choice:32,48"),
        pruner="none",
    )
    failed = [record for record in findings.records if record.state == "failed"]
    assert failed
    assert all(record.failure == "config" for record in failed)
    assert "must divide collect.num_steps" in failed[0].words
    assert not {record.number for record in failed} & set(world.started)


def test_a_trial_that_takes_too_long_has_timed_out(tmp_path: Path) -> None:
    findings = World(tmp_path).search(trials=1, trial_seconds=4.0)
    assert findings.records[0].failure == "timeout"
    assert "--trial-timeout" in findings.records[0].words


def test_the_budget_counts_earlier_calls(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.search(trials=50, budget_seconds=40.0)
    assert "budget" in first.reason
    made = len(world.started)
    again = world.search(trials=50, budget_seconds=40.0)
    assert "budget" in again.reason
    assert len(world.started) == made
    assert [r.state for r in again.records].count("running") == 1
    more = world.search(trials=50, budget_seconds=80.0)
    assert len(more.records) > len(again.records)


def test_a_search_in_which_everything_fails_ends(tmp_path: Path) -> None:
    world = World(tmp_path, dict.fromkeys(range(99), "3"))
    runner = world.runner(trials=50)
    reason = runner.run(lambda: None)
    assert f"{MOST_FAILURES} trials in a row failed" in reason
    assert "environment: fate 3" in reason
    assert runner.is_hopeless
    assert len(world.started) == MOST_FAILURES


def test_trials_are_trained_side_by_side(tmp_path: Path) -> None:
    world = World(tmp_path)
    runner = world.runner(trials=6, place=TrialPlace(jobs=3))
    runner.run(Stop(1))
    assert world.started == [0, 1, 2]
    assert [r.state for r in runner.findings().records] == ["running"] * 3


def test_a_run_that_finished_unnoticed_is_not_trained_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.runner(trials=1).run(Stop(1))  # begun, then the search is gone
    (run,) = (tmp_path / "probe-chase").glob("*-search-0000-s1")
    actor = world.launch(
        ["train", "probe:chase", "--name", "search-0000", "--seed", "1", "--config",
         str(tmp_path / "probe-chase" / "search.search" / "trials" / "0000.toml")],
        tmp_path / "log",
    )  # fmt: skip
    while actor.poll() is None:
        pass
    started = list(world.started)
    findings = world.search(trials=1)
    assert findings.records[0].state == "complete"
    assert world.started == started
    assert findings.records[0].notes["run"] == str(run)


@pytest.mark.parametrize(
    "changed",
    [{"space": ("learn.n_epochs=int:1..5",)}, {"seed": 2}, {"timesteps": 999}, {"take": "last"}],
)
def test_other_terms_are_another_search(tmp_path: Path, changed: dict[str, object]) -> None:
    world = World(tmp_path)
    world.search(trials=1)
    with pytest.raises(ConfigError, match="use another --name"):
        world.search(trials=2, **changed)


def test_runs_of_a_search_whose_memory_is_gone_are_not_mixed_in(tmp_path: Path) -> None:
    world = World(tmp_path)
    folder = world.search(trials=1).plan.request.folder
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="an earlier search"):
        world.search(trials=1)


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    folder = world.search(trials=1).plan.request.folder
    (folder / "search.json").write_text("{")
    with pytest.raises(ConfigError, match=r"search\.json cannot be read"):
        world.search(trials=1)

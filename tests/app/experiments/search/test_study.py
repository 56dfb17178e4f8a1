"""The memory of a search: nothing is lost, nothing is there twice, and the seed decides."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longhaul.app.experiments.search.plan import Pruner
from longhaul.app.experiments.search.space import Dimension, Value, parse_dimension
from longhaul.app.experiments.search.study import MISSING, SearchStudy, TrialRecord
from longhaul.core.errors import ConfigError

SPACE: dict[str, Dimension] = {
    one.key: one
    for one in map(
        parse_dimension, ("a.rate=log:1e-5..1e-2", "b=int:1..9/2", "c=choice:x,[1,2],true")
    )
}


def study(path: Path, *, seed: int = 1, pruner: Pruner = "median") -> SearchStudy:
    return SearchStudy(
        path / "journal.jsonl", SPACE, name="s", direction="maximize", pruner=pruner, seed=seed
    )


def value_of(record: TrialRecord) -> float:
    return -abs(float(record.params["a.rate"]) - 1e-3) - 0.01 * float(record.params["b"])


def make(found: SearchStudy, count: int) -> list[dict[str, Value]]:
    """Make trials; return their values."""
    asked = []
    for _ in range(count):
        record = found.ask()
        found.finish(record.number, value_of(record))
        asked.append(dict(record.params))
    return asked


def test_values_are_within_the_space(tmp_path: Path) -> None:
    for params in make(study(tmp_path), 12):
        assert 1e-5 <= float(params["a.rate"]) <= 1e-2
        assert params["b"] in (1, 3, 5, 7, 9)
        assert params["c"] in ("x", "[1,2]", "true")


def test_an_interrupted_search_asks_for_what_an_uninterrupted_one_does(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    whole = make(study(tmp_path / "a"), 14)
    pieces = [params for _ in range(7) for params in make(study(tmp_path / "b"), 2)]
    assert pieces == whole


def test_another_seed_asks_for_something_else(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    assert make(study(tmp_path / "a", seed=1), 2) != make(study(tmp_path / "b", seed=2), 2)


def test_a_running_trial_is_there_after_a_restart_with_its_values(tmp_path: Path) -> None:
    before = study(tmp_path)
    make(before, 1)
    running = before.ask()
    before.report(running.number, 1, 0.5)
    after = study(tmp_path)
    assert [record.state for record in after.records()] == ["complete", "running"]
    again = after.complete(1)
    assert again.params == running.params
    assert again.stages == {1: 0.5}
    after.finish(1, 2.0)
    assert after.ask().number == 2


def test_a_trial_whose_values_were_not_all_drawn_gets_the_rest(tmp_path: Path) -> None:
    study(tmp_path).ask()
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # killed before the last value
    after = study(tmp_path)
    half = after.records()[0]
    assert len(half.params) == len(SPACE) - 1
    whole = after.complete(0)
    assert whole.params.keys() == SPACE.keys()
    assert half.params.items() <= whole.params.items()


def test_half_a_line_and_a_dead_owner_s_lock_are_taken_away(tmp_path: Path) -> None:
    make(study(tmp_path), 2)
    journal = tmp_path / "journal.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"op_code": 5, "wor')
    (tmp_path / "journal.jsonl.lock").symlink_to(journal)
    after = study(tmp_path)
    make(after, 1)
    assert [record.number for record in study(tmp_path).records()] == [0, 1, 2]


def test_the_first_trial_has_the_values_it_was_given_once(tmp_path: Path) -> None:
    first = study(tmp_path)
    first.begin_with({"a.rate": 1e-3, "b": 3}, note="own")
    again = study(tmp_path)
    again.begin_with({"a.rate": 1e-3, "b": 3}, note="own")
    assert len(again.records()) == 1
    record = again.ask()
    assert (record.number, record.params["a.rate"], record.params["b"]) == (0, 1e-3, 3)
    assert record.notes == {"note": "own"}
    assert record.params["c"] in ("x", "[1,2]", "true")


def test_a_trial_below_the_median_is_pruned_after_the_first_stages(tmp_path: Path) -> None:
    found = study(tmp_path)
    for _ in range(5):
        number = found.ask().number
        assert not any(found.report(number, stage, 10.0) for stage in range(1, 11))
        found.finish(number, 10.0)
    poor = found.ask().number
    pruned = [found.report(poor, stage, 1.0) for stage in range(1, 5)]
    assert pruned == [False, False, True, True]
    found.prune(poor)
    assert found.records()[poor].state == "pruned"
    assert found.records()[poor].value == 1.0


@pytest.mark.parametrize("pruner", ["hyperband", "none"])
def test_every_pruner_takes_a_whole_search(tmp_path: Path, pruner: Pruner) -> None:
    found = study(tmp_path, pruner=pruner)
    states = set()
    for _ in range(20):
        record = found.ask()
        quality = value_of(record)
        stopped = any(found.report(record.number, stage, quality) for stage in range(1, 11))
        states.add(stopped)
        if stopped:
            found.prune(record.number)
        else:
            found.finish(record.number, quality)
    assert states == ({True, False} if pruner == "hyperband" else {False})


def test_a_failure_keeps_its_kind_and_words(tmp_path: Path) -> None:
    found = study(tmp_path)
    found.note(found.ask().number, run="here")
    found.fail(0, "numbers", "the loss is nan")
    (record,) = study(tmp_path).records()
    assert (record.state, record.failure, record.words) == ("failed", "numbers", "the loss is nan")
    assert record.notes == {"run": "here"}
    assert study(tmp_path).ask().number == 1


def test_the_key_that_decides_is_the_most_important(tmp_path: Path) -> None:
    found = study(tmp_path)
    assert found.importances() == {}
    for _ in range(30):
        record = found.ask()
        found.finish(record.number, float(record.params["b"]))
    shares = found.importances()
    assert next(iter(shares)) == "b"
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares == study(tmp_path).importances()


def test_equal_trials_say_nothing_of_importance(tmp_path: Path) -> None:
    found = study(tmp_path)
    for _ in range(6):
        found.finish(found.ask().number, 1.0)
    assert found.importances() == {}


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError) as caught:
        study(tmp_path)
    assert str(caught.value) == MISSING

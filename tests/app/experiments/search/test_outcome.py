"""What a trial came to, from its logs alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.app.experiments.search.plan import STAGES
from longhaul.app.experiments.search.trial import (
    TrialPoint,
    curve,
    failure,
    score,
    stages,
    unmeasured,
)
from tests.app.small import small_config

shares = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=12).map(sorted)
curves = shares.flatmap(
    lambda listed: st.tuples(
        *(st.builds(TrialPoint, st.just(one), st.none() | st.floats(-9, 9)) for one in listed)
    )
)


@given(curves)
def test_a_stage_that_was_told_never_changes(points: tuple[TrialPoint, ...]) -> None:
    known: dict[int, float] = {}
    for count in range(len(points) + 1):
        found = stages(points[:count])
        assert known.items() <= found.items()
        known = found


@given(curves)
def test_stages_are_those_the_run_has_passed(points: tuple[TrialPoint, ...]) -> None:
    found = stages(points)
    assert all(stage <= points[-1].share * STAGES + 1e-9 for stage in found)
    if points[0].value is not None:
        assert list(found) == list(range(1, int(points[-1].share * STAGES + 1e-9) + 1))


def test_a_stage_has_the_last_value_of_its_end() -> None:
    points = [
        TrialPoint(0.05, 1.0),
        TrialPoint(0.12, 2.0),
        TrialPoint(0.19, 3.0),
        TrialPoint(0.32, None),
    ]
    assert stages(points) == {1: 2.0, 2: 3.0, 3: 3.0}


def test_rows_without_the_metric_still_tell_how_far_the_run_is() -> None:
    config = small_config("probe:chase", "total_timesteps=100")
    rows: list[dict[str, Any]] = [
        {"iteration": 1, "env_steps": 25, "a/b": 3.0},
        {"iteration": 2, "env_steps": 110},
    ]
    assert curve(rows, "a/b", config) == [TrialPoint(0.25, 3.0), TrialPoint(1.0, None)]


def test_progress_is_counted_in_iterations_where_the_run_is() -> None:
    config = small_config("probe:chase", "total_iterations=8")
    assert curve([{"iteration": 2, "env_steps": 999}], "a/b", config) == [TrialPoint(0.25, None)]


def test_each_way_to_take_the_metric() -> None:
    points = [
        TrialPoint(0.2, 1.0),
        TrialPoint(0.5, 9.0),
        TrialPoint(0.8, 4.0),
        TrialPoint(1.0, 6.0),
    ]
    assert score(points, "last", "maximize") == 6.0
    assert score(points, "best", "maximize") == 9.0
    assert score(points, "best", "minimize") == 1.0
    assert score(points, "mean", "maximize") == 5.0
    assert score(points, "tail", "maximize") == 5.0
    assert score([TrialPoint(0.4, 2.0), TrialPoint(1.0, None)], "tail", "maximize") == 2.0
    assert score([TrialPoint(1.0, None)], "tail", "maximize") is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (2, "config"),
        (3, "environment"),
        (4, "numbers"),
        (6, "resources"),
        (7, "locked"),
        (1, "crashed"),
        (-9, "crashed"),
        (-11, "crashed"),
        (143, "stopped"),
        (-15, "stopped"),
    ],
)
def test_a_failure_has_a_kind_and_the_run_s_own_words(code: int, kind: str) -> None:
    found = failure(code, "noise\nlonghaul: the loss is nan\nmore noise\n")
    assert found.kind == kind
    assert "the loss is nan" in found.message


def test_a_crash_without_words_tells_what_there_is() -> None:
    assert failure(-9, "").message == "killed by SIGKILL"
    assert failure(1, "Traceback\n  x\nKeyError: 'y'\n").message == "KeyError: 'y'"
    assert failure(1, "").message == "exit code 1"


def test_an_objective_that_was_never_measured_is_a_failure_with_a_suggestion() -> None:
    found = unmeasured("eval/score", [{"iteration": 1, "eval/scores": 2.0}])
    assert found.kind == "unmeasured"
    assert "did you mean 'eval/scores'" in found.message

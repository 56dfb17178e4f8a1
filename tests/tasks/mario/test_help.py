"""Who asks for the script, and in what order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.mario.game.options import SCRIPT_SHARE
from longhaul.tasks.mario.options import HelpOptions
from longhaul.tasks.mario.stage_schedule import (
    BEGINNING,
    BOOTSTRAP,
    FARTHEST,
    HELPING,
    NONE,
    PLATEAU,
    PROGRESS,
    Help,
    HelpState,
)


def sources(options: HelpOptions, farthest: list[float | None]) -> list[int]:
    """Return who asks for the script after each iteration."""
    help_, told = Help(options), []
    state, now = help_.initial(), Settings([SCRIPT_SHARE], {SCRIPT_SHARE.name: 0.0})
    for iteration, reached in enumerate(farthest, start=1):
        metrics = {} if reached is None else {PROGRESS: reached / 2, FARTHEST: reached}
        decision = help_.decide(state, View(Progress(iteration), metrics, now))
        state, now = decision.state, now.with_(decision.assignments)
        told.append(int(decision.metrics[HELPING]))
        assert (now[SCRIPT_SHARE] > 0) == (told[-1] != NONE)
    return told


def test_the_bootstrap_fires_once_when_no_ground_was_won() -> None:
    options = HelpOptions(bootstrap_after=3, iterations=2)
    assert sources(options, [0.0] * 8) == [0, 0, BOOTSTRAP, BOOTSTRAP, 0, 0, 0, 0]


def test_the_bootstrap_never_fires_once_ground_was_won() -> None:
    assert set(sources(HelpOptions(bootstrap_after=3), [0.0, 5.0, *[0.0] * 8])) == {NONE}


def test_patience_counts_iterations_in_a_row() -> None:
    options = HelpOptions(patience=3, iterations=1)
    assert sources(options, [0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]) == [0, 0, 0, 0, 0, BOOTSTRAP, 0]


def test_a_plateau_does_not_fire_while_the_farthest_progress_grows() -> None:
    options = HelpOptions(plateau_after=2, plateau_window=3, iterations=1)
    assert set(sources(options, [float(10 * n) for n in range(1, 30)])) == {NONE}


def test_a_plateau_fires_after_a_whole_window_and_then_rests() -> None:
    options = HelpOptions(plateau_after=1, plateau_window=3, plateau_rest=4, iterations=1)
    told = sources(options, [50.0] * 14)
    assert told[:3] == [NONE] * 3
    assert told[3] == PLATEAU
    assert told[4:8] == [NONE] * 4
    assert PLATEAU in told[8:]


def test_the_beginning_yields_to_the_bootstrap_and_that_to_the_plateau() -> None:
    options = HelpOptions(
        first_iterations=20, bootstrap_after=3, plateau_after=5, plateau_window=4, iterations=3
    )
    told = sources(options, [0.0] * 9)
    assert told[:2] == [BEGINNING] * 2
    assert told[2] == BOOTSTRAP
    assert PLATEAU in told[4:]


def test_an_iteration_without_an_ended_episode_changes_no_count() -> None:
    options = HelpOptions(patience=2, iterations=1)
    assert sources(options, [0.0, None, None, 0.0]) == [0, 0, 0, BOOTSTRAP]


@given(st.lists(st.floats(0, 3000), max_size=60), st.data())
def test_a_restart_changes_no_decision(farthest: list[float], data: st.DataObject) -> None:
    help_ = Help(HelpOptions(first_iterations=4, patience=3, plateau_after=5, plateau_window=6))
    cut = data.draw(st.integers(0, len(farthest)))
    state, now = help_.initial(), Settings([SCRIPT_SHARE])
    for iteration, reached in enumerate(farthest, start=1):
        if iteration == cut:
            kept = {name: getattr(state, name) for name in HelpState.__dataclass_fields__}
            assert HelpState(**kept) == state
        metrics = {PROGRESS: reached, FARTHEST: reached}
        decision = help_.decide(state, View(Progress(iteration), metrics, now))
        assert decision == help_.decide(state, View(Progress(iteration), metrics, now))
        state, now = decision.state, now.with_(decision.assignments)
        assert now[SCRIPT_SHARE] in (0.0, 1.0)


def test_numbers_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"options.schedule.help.share"):
        HelpOptions(share=0.0)
    with pytest.raises(ConfigError, match=r"options.schedule.help.iterations"):
        HelpOptions(iterations=0)

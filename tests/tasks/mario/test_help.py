"""Who asks for the script, and in what order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.schedule import Schedule
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


def decisions(farthest: list[float], *, restart_at: int = 0) -> list[object]:
    """Return every decision; before one iteration the schedule is made anew from what is saved."""

    def begin() -> Schedule:
        options = HelpOptions(first_iterations=4, patience=3, plateau_after=5, plateau_window=6)
        return Schedule([Help(options)], Settings([SCRIPT_SHARE]))

    schedule, now, found = begin(), Settings([SCRIPT_SHARE]), list[object]()
    for iteration, reached in enumerate(farthest, start=1):
        if iteration == restart_at:
            saved = json.loads(json.dumps(schedule.state_dict()))
            schedule = begin()
            schedule.load_state_dict(saved)
        metrics = {PROGRESS: reached, FARTHEST: reached}
        now, changes = schedule.step(View(Progress(iteration), metrics, now))
        found += [(iteration, now[SCRIPT_SHARE], changes), schedule.state_dict()]
    return found


@given(st.lists(st.sampled_from([0.0, 40.0, 80.0]), max_size=40), st.data())
def test_a_restart_changes_no_decision(farthest: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, max(1, len(farthest))))
    assert decisions(farthest, restart_at=cut) == decisions(farthest)


def test_what_is_restarted_has_something_to_remember() -> None:
    story = [0.0] * 9 + [40.0] * 12
    assert len({str(one) for one in decisions(story)[1::2]}) > 6
    forgetful = [*decisions(story[:8]), *decisions(story[8:])]
    assert forgetful[1::2] != decisions(story)[1::2]


def test_numbers_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"options.schedule.help.share"):
        HelpOptions(share=0.0)
    with pytest.raises(ConfigError, match=r"options.schedule.help.iterations"):
        HelpOptions(iterations=0)

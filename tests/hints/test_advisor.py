"""What an advisor says depends on what it was shown and on nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.control import Progress
from longhaul.core.hint import Finding, Hint, Recent
from longhaul.hints.advisor import Advisor, Hints, replay

METRIC = "rollout/value"


@dataclass(frozen=True)
class Above:
    """Speaks when the mean of its window is above zero."""

    name: str = "above"
    window: int = 3
    cooldown: int = 4
    timed: bool = False
    reads: tuple[str, ...] = ("rollout/*",)

    def judge(self, recent: Recent) -> Finding | None:
        values = recent.values(METRIC, self.window)
        if not values or sum(values) <= 0:
            return None
        return Finding(f"Mean {sum(values)!r}, opening {list(recent.opening(METRIC))!r}.", "", "")


values = st.one_of(st.none(), st.floats(-10, 10))
histories = st.lists(values, min_size=1, max_size=40)


def shown(value: float | None) -> Mapping[str, float]:
    return {"other/metric": 1.0} | ({} if value is None else {METRIC: value})


def run(advisor: Advisor, history: list[float | None], begin: int = 0) -> list[Hint]:
    return [
        hint
        for number, value in enumerate(history, begin + 1)
        for hint in advisor.take(Progress(number), shown(value))
    ]


@given(histories, st.integers(0, 40))
def test_a_restart_changes_nothing_that_is_said(history: list[float | None], cut: int) -> None:
    whole = run(Advisor([Above()], {}), history)
    first, second = Advisor([Above()], {}), Advisor([Above()], {})
    said = run(first, history[:cut])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert said + run(second, history[cut:], min(cut, len(history))) == whole
    assert second.state_dict() == run_state(history)


def run_state(history: list[float | None]) -> dict[str, Any]:
    advisor = Advisor([Above()], {})
    run(advisor, history)
    return advisor.state_dict()


@given(histories)
@settings(max_examples=50)
def test_the_records_of_a_run_make_it_say_the_same_again(history: list[float | None]) -> None:
    live = Hints([Above(), Above("timed", timed=True)], {})
    said: list[tuple[int, str]] = []
    rows: list[dict[str, Any]] = []
    for number, value in enumerate(history, 1):
        metrics, timings = shown(value), {"time/session_seconds": float(number % 17)}
        progress = Progress(number, 10 * number, number)
        both = (*live.take(progress, metrics), *live.take_timed(progress, {**metrics, **timings}))
        said += [(number, hint.text) for hint in both]
        rows.append({"iteration": number, "env_steps": 10 * number, **metrics, **timings})
    again = replay(
        Hints([Above(), Above("timed", timed=True)], {}), rows, lambda name: name.startswith("time")
    )
    assert [(progress.iteration, hint.text) for progress, hint in again] == said


def test_trouble_that_stays_is_told_again_after_ever_longer_rests() -> None:
    advisor = Advisor([Above()], {})
    said = [number for number in range(1, 62) if advisor.take(Progress(number), {METRIC: 1.0})]
    assert said == [1, 5, 13, 29, 61]


def test_what_is_told_again_says_so() -> None:
    advisor = Advisor([Above()], {})
    hints = [hint for n in range(1, 6) for hint in advisor.take(Progress(n), {METRIC: 1.0})]
    assert [hint.times for hint in hints] == [1, 2]
    assert hints[1].text.startswith("Still: Mean 3.0")


def test_rules_with_a_clock_begin_anew_with_every_process() -> None:
    hints = Hints([Above("timed", cooldown=1000, timed=True)], {})
    said = [
        number
        for number in range(1, 21)
        if hints.take_timed(
            Progress(number), {METRIC: 1.0, "time/session_seconds": float(number % 10)}
        )
    ]
    assert said == [1, 10, 20]


def test_rules_with_a_clock_are_not_part_of_what_is_saved() -> None:
    hints = Hints([Above("timed", timed=True)], {})
    empty = hints.state_dict()
    hints.take_timed(Progress(1), {METRIC: 1.0})
    assert hints.state_dict() == empty


def test_other_rules_may_go_on_with_what_was_saved() -> None:
    saved = run_state([1.0, 1.0, 1.0])
    other = Advisor([Above("another", window=1)], {})
    other.load_state_dict(saved)
    assert len(other.take(Progress(4), {METRIC: 1.0})) == 1


def test_a_hint_is_a_row_of_the_events_that_json_takes() -> None:
    finding = Finding("Measured 3.", "Because.", "Set it.", "learn.n_epochs", 2)
    row = Hint("some-rule", finding).as_row()
    assert json.loads(json.dumps(row)) == {
        "event": "hint",
        "rule": "some-rule",
        "text": "Measured 3. Because. Set it.",
        "evidence": "Measured 3.",
        "cause": "Because.",
        "advice": "Set it.",
        "times": 1,
        "setting": "learn.n_epochs",
        "value": 2,
    }


def test_recent_measurements_are_found_by_pattern_only_where_they_are_of_this_iteration() -> None:
    seen: list[list[str]] = []

    @dataclass(frozen=True)
    class Names(Above):
        def judge(self, recent: Recent) -> Finding | None:
            seen.append(recent.names("rollout/*"))
            return None

    advisor = Advisor([Names()], {})
    advisor.take(Progress(1), {METRIC: 1.0, "rollout/more": 2.0})
    advisor.take(Progress(2), {METRIC: 1.0})
    assert seen == [[METRIC, "rollout/more"], [METRIC]]

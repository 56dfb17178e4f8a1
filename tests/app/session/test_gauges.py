"""How long a run still takes."""

from __future__ import annotations

from longhaul.app.session.monitoring import TimeLeft
from longhaul.core.control import Progress, RunLength
from longhaul.core.parts import Recorded
from longhaul.core.settings import Settings


def recorded(progress: Progress) -> Recorded:
    return Recorded(progress, {}, {}, Settings([]), ())


def test_the_time_left_follows_the_speed_of_this_process() -> None:
    now = [100.0]
    left = TimeLeft(RunLength(10_000), clock=lambda: now[0])
    assert left.take() == {}
    left.begin(Progress(5, 4_000, 0))
    assert left.take() == {}
    now[0] += 20.0
    left.iteration(recorded(Progress(6, 6_000, 0)))
    assert left.take() == {"time/eta_seconds": 40.0}


def test_a_run_in_episodes_counts_its_episodes() -> None:
    now = [0.0]
    left = TimeLeft(RunLength(total_episodes=40), clock=lambda: now[0])
    left.begin(Progress(1, 10, 0))
    left.iteration(recorded(Progress(2, 100, 0)))
    assert left.take() == {}
    now[0] += 5.0
    left.iteration(recorded(Progress(3, 200, 10)))
    assert left.take() == {"time/eta_seconds": 15.0}


def test_a_run_past_its_plan_has_no_time_left() -> None:
    left = TimeLeft(RunLength(100), clock=lambda: 1.0)
    left.begin(Progress(1, 50, 0))
    left.iteration(recorded(Progress(2, 150, 0)))
    assert left.take() == {"time/eta_seconds": 0.0}

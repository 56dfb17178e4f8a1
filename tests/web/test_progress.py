from __future__ import annotations

import pytest

from longhaul.core.control import Progress
from longhaul.runs.monitor.heartbeat import Beat
from longhaul.web.summary import Goal, read_goal


def beat(**rates: float) -> Beat:
    named = {f"time/{name}": rate for name, rate in rates.items()}
    return Beat("learn", 0.0, Progress(), named, 1, "here", 0.0, 0.0)


def test_a_run_that_is_88_percent_done_has_so_many_seconds_left() -> None:
    goal = Goal(total_timesteps=1000)
    assert goal.share(steps=880, iteration=11) == 0.88
    left = goal.seconds_left(beat(session_fps=10.0, fps=99.0), steps=880, iteration=11)
    assert left == pytest.approx(12.0)


def test_iterations_count_where_the_run_ends_by_them() -> None:
    goal = Goal(total_timesteps=1_000_000, total_iterations=20)
    assert goal.share(steps=500, iteration=5) == 0.25
    assert goal.seconds_left(beat(fps=100.0), steps=500, iteration=5) == pytest.approx(15.0)


def test_a_run_past_its_end_is_done_and_an_unknown_end_is_unknown() -> None:
    assert Goal(total_timesteps=1000).share(steps=1024, iteration=1) == 1.0
    assert Goal().share(steps=1024, iteration=1) is None
    assert Goal(total_timesteps=1000).seconds_left(beat(), steps=10, iteration=1) is None
    assert Goal(total_timesteps=1000).seconds_left(beat(fps=1.0), steps=0, iteration=0) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"a = [", b'total_timesteps = "many"'])
def test_a_damaged_config_has_no_end(content: bytes) -> None:
    assert read_goal(content) == Goal()


def test_a_config_tells_its_end() -> None:
    content = b"total_timesteps = 40_000\ntotal_iterations = 0\n[learn]\nepochs = 3\n"
    assert read_goal(content) == Goal(40_000, 0)

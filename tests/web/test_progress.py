from __future__ import annotations

import pytest

from longhaul.core.control import Progress, RunLength
from longhaul.runs.monitor.heartbeat import Beat
from longhaul.web.summary import read_length, seconds_left


def beat(**rates: float) -> Beat:
    named = {f"time/{name}": rate for name, rate in rates.items()}
    return Beat("learn", 0.0, Progress(), named, 1, "here", 0.0, 0.0)


def test_a_run_that_is_88_percent_done_has_so_many_seconds_left() -> None:
    length, progress = RunLength(total_timesteps=1000), Progress(11, 880, 3)
    assert length.share(progress) == 0.88
    left = seconds_left(length, beat(session_fps=10.0, fps=99.0), progress)
    assert left == pytest.approx(12.0)


def test_iterations_count_where_the_run_ends_by_them() -> None:
    length, progress = RunLength(1_000_000, total_iterations=20), Progress(5, 500)
    assert length.share(progress) == 0.25
    assert seconds_left(length, beat(fps=100.0), progress) == pytest.approx(15.0)


def test_episodes_count_where_the_run_ends_by_them() -> None:
    length, progress = RunLength(1_000_000, total_episodes=50), Progress(5, 500, 10)
    assert length.share(progress) == 0.2
    assert seconds_left(length, beat(fps=100.0), progress) == pytest.approx(20.0)


def test_a_run_past_its_end_is_done_and_an_unknown_end_is_unknown() -> None:
    assert RunLength(1000).share(Progress(1, 1024)) == 1.0
    assert RunLength().share(Progress(1, 1024)) is None
    assert seconds_left(RunLength(1000), beat(), Progress(1, 10)) is None
    assert seconds_left(RunLength(1000), beat(fps=1.0), Progress()) is None


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"a = [", b"a." * 200_000 + b"a = 1", b'total_timesteps = "many"']
)
def test_a_damaged_config_has_no_end(content: bytes) -> None:
    assert read_length(content) == RunLength()


def test_a_config_tells_its_end() -> None:
    content = b"total_timesteps = 40_000\ntotal_iterations = 0\n[learn]\nepochs = 3\n"
    assert read_length(content) == RunLength(40_000)

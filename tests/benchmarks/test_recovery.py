from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from benchmarks.recovery import (
    Course,
    Killed,
    RecoveryRequest,
    as_table,
    bench_recovery,
    is_fast_again,
)

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.errors import ConfigError
from tests.app.small import small_config
from tests.faults.gymnasium_walk import GYMNASIUM_ID

pytestmark = pytest.mark.thorough


def test_workers_are_killed_and_their_envs_come_back() -> None:
    config = small_config(f"gym:{GYMNASIUM_ID}", "env.processes.workers=2")
    found, kills = bench_recovery(config, RecoveryRequest(num_envs=4, kills=2, window_seconds=0.2))
    assert len(kills) == 2
    for kill in kills:
        # A worker is an interpreter: nobody starts one in less.
        assert 0.05 < kill.back_seconds < 10
        assert kill.steady > 0
    text = found.as_text()
    assert "4 envs in 2 worker(s)" in text
    assert len(json.loads(found.as_json())["kills"]) == 2


@pytest.mark.slow
@pytest.mark.measures
def test_after_every_kill_the_speed_is_back_within_ten_seconds(
    record_property: Callable[[str, object], None],
) -> None:
    """To 95 % of the speed before it, with twenty workers killed in the middle of steps."""
    config = resolve(ConfigSources("gym:CartPole-v1", overrides=("env.runtime=processes",)))
    found, kills = bench_recovery(config, RecoveryRequest())
    assert len(kills) == 20
    fast = [kill.fast_seconds for kill in kills if kill.fast_seconds is not None]
    record_property("kills", len(kills))
    record_property("seconds until as fast, longest", f"{max(fast, default=math.inf):.2f}")
    assert is_fast_again(kills), found.as_text()


def test_the_course_of_a_kill_is_read_from_the_moments_of_steps() -> None:
    # Ten steps a second, killed at 2.05, held up until 3.0, slow until 4.0, then as before.
    moments = [step / 10 for step in range(21)] + [3.0, 3.5, 4.0]
    moments += [4.0 + step / 10 for step in range(1, 21)]
    course = Course(moments, 2.05, 1.0)
    assert course.rate(0.95) == pytest.approx(10.0)
    assert course.back() == 3.0
    assert course.rate(3.0) == pytest.approx(2.0)
    fast = course.fast_again()
    assert fast is not None
    assert 4.0 - 2.05 - 0.2 < fast < 4.0 - 2.05 + 0.2


def test_a_speed_that_never_comes_back_is_told() -> None:
    kills = (Killed(0.5, None, 1.0, 0.4), Killed(0.7, 0.8, 1.0, 1.0))
    assert not is_fast_again(kills)
    found = as_table("gym:X", "so and so", 10.0, kills)
    assert "not as fast again within 10 s: 1 of 2" in found.as_text()


def test_what_has_no_workers_cannot_be_measured() -> None:
    with pytest.raises(ConfigError, match="no workers"):
        bench_recovery(small_config("probe:chase"), RecoveryRequest())
    with pytest.raises(ConfigError, match="--kills"):
        RecoveryRequest(kills=0)

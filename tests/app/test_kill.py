"""Runs whose process is killed with SIGKILL, again and again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from longhaul.app.diagnose.verify import Interruption, verify
from tests.app.small import CARTPOLE, small_config


def test_twenty_kills_change_nothing() -> None:
    result = verify(small_config(), Interruption(iterations=24, interruptions=20, kill=True))
    assert result.equal, result.as_text()
    assert len(result.interruptions) == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), id="ppo"),
        pytest.param(("collect.overlap=true",), id="ppo-overlap"),
        pytest.param(
            ("learn.algorithm=vtrace", "policy.core=gru", "policy.core_size=16"), id="vtrace-gru"
        ),
    ],
)
def test_two_hundred_kills_change_nothing(
    overrides: tuple[str, ...], record_property: Callable[[str, object], None]
) -> None:
    config = small_config(CARTPOLE, *overrides)
    result = verify(config, Interruption(iterations=240, interruptions=200, kill=True, seed=1))
    assert result.equal, result.as_text()
    record_property("kills", len(result.interruptions))
    assert len(result.interruptions) == 200

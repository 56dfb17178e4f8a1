from __future__ import annotations

import pytest
import torch

from longhaul.core.control import NoState, Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.ramp import Ramp
from tests.schedule.examples import RATE


def test_a_linear_ramp_equals_the_peers_linear_schedule() -> None:
    utils = pytest.importorskip("stable_baselines3.common.utils")
    theirs = utils.LinearSchedule(3e-4, 1e-5, 0.8)
    ours = Ramp("lr", RATE, start=3e-4, end=1e-5, finish=0.8, total=10_000)
    for env_steps in range(0, 10_001, 500):
        value = ours.value_at(Progress(env_steps=env_steps))
        assert value == pytest.approx(theirs(1 - env_steps / 10_000), rel=1e-12)


def test_warm_up_and_cosine_equal_torch_schedulers() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=5)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.01)
    theirs = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], milestones=[5])
    ours = Ramp(
        "lr",
        RATE,
        start=0.1,
        end=0.01,
        shape="cosine",
        along="iterations",
        warm_up=5,
        start_factor=0.25,
        finish=25,
    )
    for iteration in range(25):
        value = ours.value_at(Progress(iteration))
        assert value == pytest.approx(theirs.get_last_lr()[0], rel=1e-6)
        optimizer.step()
        theirs.step()


@pytest.mark.parametrize(
    ("elapsed", "expected"),
    [
        (0.0, 2.5e-4),
        (0.1, 1.875e-4),
        (0.2, 1.25e-4),
        (0.4, 1.067e-4),
        (0.6, 6.25e-5),
        (0.8, 1.83e-5),
        (1.0, 0.0),
    ],
)
def test_a_fall_to_half_and_a_cosine_to_zero_is_a_warm_up_from_twice_the_start(
    elapsed: float, expected: float
) -> None:
    warm_cosine = Ramp(
        "lr", RATE, start=1.25e-4, shape="cosine", warm_up=0.2, start_factor=2.0, total=1000
    )
    value = warm_cosine.value_at(Progress(env_steps=round(1000 * elapsed)))
    assert value == pytest.approx(expected, abs=5e-8)


def test_a_constant_ramp_stays_after_its_warm_up() -> None:
    ramp = Ramp("lr", RATE, start=0.4, shape="constant", along="iterations", warm_up=4, finish=5)
    values = [ramp.value_at(Progress(iteration)) for iteration in (0, 2, 4, 100)]
    assert values == [0.0, 0.2, 0.4, 0.4]


def test_the_end_value_is_met_exactly_and_kept() -> None:
    ramp = Ramp("lr", RATE, start=0.3, end=0.1, shape="cosine", along="episodes", finish=7)
    assert ramp.value_at(Progress(episodes=7)) == 0.1
    assert ramp.value_at(Progress(episodes=7000)) == 0.1


def test_a_value_on_the_curve_is_left_alone() -> None:
    ramp = Ramp("lr", RATE, start=0.3, end=0.1, along="iterations", finish=10)
    progress = Progress(5)
    decision = ramp.decide(NoState(), View(progress, {}, Settings([RATE])))
    assert decision.why == "linear ramp at iteration 5"
    settled = Settings([RATE]).with_(decision.assignments)
    assert ramp.decide(NoState(), View(progress, {}, settled)).assignments == ()


def test_a_share_of_the_run_needs_its_length() -> None:
    with pytest.raises(ConfigError, match=r"schedule\.lr runs along = 'run', so it needs total"):
        Ramp("lr", RATE, start=0.3)


def test_a_warm_up_longer_than_the_ramp_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 <= warm_up < finish"):
        Ramp("lr", RATE, start=0.3, along="iterations", warm_up=10, finish=10)

"""What is measured of a rollout's steps, beside what the memory of the consoles says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from longhaul.core.env import StepBuffers
from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import Seeds
from longhaul.engine.collector import RolloutCollector
from longhaul.tasks.mario.console.standin_rom import stand_in
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.memory import LOW_X, PAGE
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.payments import RewardOptions, TermReward
from longhaul.tasks.mario.task import summarize_steps
from tests.engine.diary import SETTINGS, DiaryPolicy, diaries

ENVS, STEPS = 3, 120
OPTIONS = RewardOptions(progress=0.01, death=-2.0, stagnation=-5.0, scale=0.25)


@dataclass
class Walked:
    """What games did, read from their memory and not from the game layer's figures."""

    x: list[NDArray[np.int64]] = field(default_factory=list)  # after each step, [N]
    ground: list[NDArray[np.int64]] = field(default_factory=list)
    idle: list[NDArray[np.int64]] = field(default_factory=list)
    gained: list[int] = field(default_factory=list)  # best less first place of each episode
    paid: list[float] = field(default_factory=list)  # for the ground of each episode
    rollout: Rollout | None = None

    @property
    def metrics(self) -> Metrics:
        assert self.rollout is not None
        return summarize_steps(self.rollout)


def places(ram: NDArray[np.uint8]) -> NDArray[np.int64]:
    return ram[:, PAGE].astype(np.int64) * 256 + ram[:, LOW_X]


@pytest.fixture(scope="module")
def walked() -> Walked:
    """Play the free cartridge: the last game stands still, the others take random actions."""
    factory = GameFactory(GameOptions(stagnation_limit=70), stand_in(), TermReward(OPTIONS))
    games, slots = factory(ENVS), StepBuffers.allocate(factory.spec, ENVS)
    games.bind(slots)
    games.reset(np.arange(ENVS), np.arange(ENVS), [None] * ENVS)
    generator, found = np.random.default_rng(1), Walked()
    first = places(games.consoles.ram)
    best, idle, paid = first.copy(), np.zeros(ENVS, np.int64), np.zeros(ENVS)
    kept: dict[str, list[NDArray[np.float32]]] = {name: [] for name in slots.measures}
    terms = dict.fromkeys(slots.terms, 0.0)
    for _ in range(STEPS):
        actions = generator.choice([1, 2, 3, 4, 6], ENVS)
        actions[-1] = 0
        games.step(0, ENVS, actions)
        x = places(games.consoles.ram)
        found.x.append(x)
        found.ground.append(np.maximum(x - best, 0))
        idle = np.where(x > best, 0, idle + 1)
        found.idle.append(idle)
        best = np.maximum(best, x)
        paid += slots.terms["progress"]
        for name, part in slots.measures.items():
            kept[name].append(part.copy())
        for name, term in slots.terms.items():
            terms[name] += float(term.sum(dtype=np.float64))
        for env in np.flatnonzero(games.over).tolist():
            found.gained.append(int(best[env] - first[env]))
            found.paid.append(float(paid[env]))
            games.reset(np.array([env]), np.array([7 + env]), [None])
            best[env], idle[env], paid[env] = first[env], 0, 0.0
    blank = RolloutCollector(
        diaries(ENVS, rows=1), DiaryPolicy(), Seeds(1), steps=STEPS, chunk=0
    ).collect(SETTINGS)
    found.rollout = replace(
        blank,
        active=torch.ones(STEPS, ENVS, dtype=torch.bool),
        lost=torch.zeros(STEPS, ENVS, dtype=torch.bool),
        measures={name: torch.from_numpy(np.array(part)) for name, part in kept.items()},
        terms=terms,
    )
    return found


def test_several_episodes_ended_while_it_was_measured(walked: Walked) -> None:
    assert len(walked.gained) >= 3


def test_distance_is_all_new_ground_and_walking_to_and_fro_is_none(walked: Walked) -> None:
    assert walked.metrics["env/distance"] == np.sum(walked.ground)


def test_the_forward_share_leaves_out_who_stands(walked: Walked) -> None:
    moved = np.any(np.array(walked.ground) > 0, axis=0)
    assert isinstance(moved, np.ndarray)
    assert not moved[-1]
    assert walked.metrics["env/forward_share"] == pytest.approx(moved.mean())
    assert walked.metrics["env/stuck_envs"] == (~moved).sum()


def test_idle_steps_are_those_since_the_last_new_ground(walked: Walked) -> None:
    assert walked.metrics["env/idle_steps"] == pytest.approx(walked.idle[-1].mean())


def test_places_are_those_of_the_memory(walked: Walked) -> None:
    assert walked.metrics["env/mean_x"] == pytest.approx(walked.x[-1].mean())
    assert walked.metrics["env/farthest_x"] == np.max(walked.x)


def test_an_episode_is_paid_for_its_best_less_its_first_place(walked: Walked) -> None:
    expected = [0.01 * OPTIONS.scale * gained for gained in walked.gained]
    assert walked.paid == pytest.approx(expected, rel=1e-5)


def test_what_is_paid_is_what_is_paid_raw_times_the_scale_and_the_ends(walked: Walked) -> None:
    metrics, rollout = walked.metrics, walked.rollout
    assert rollout is not None
    ends = sum(rollout.terms[name] for name in ("death", "flag", "stagnation"))
    assert ends < 0
    raw = metrics["env/paid_raw"]
    assert metrics["env/paid"] == pytest.approx(OPTIONS.scale * raw + ends, rel=1e-5)
    assert metrics["env/paid"] == pytest.approx(sum(rollout.terms.values()))


def test_rows_that_never_acted_are_left_out(walked: Walked) -> None:
    rollout = walked.rollout
    assert rollout is not None
    active = rollout.active.clone()
    active[:, -1] = False
    active[STEPS // 2 :, 0] = False
    metrics = summarize_steps(replace(rollout, active=active))
    assert metrics["env/forward_share"] == 1.0
    last = walked.x[STEPS // 2 - 1][0], walked.x[-1][1]
    assert metrics["env/mean_x"] == pytest.approx(np.mean(last))
    nobody = replace(rollout, active=torch.zeros_like(active))
    assert summarize_steps(nobody) == {}

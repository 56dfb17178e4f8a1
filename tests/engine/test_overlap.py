"""Collecting while learning: one update behind, whatever the timing."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from longhaul.core.env import Array, Step, StepBuffers, VectorEnv
from longhaul.core.errors import EnvError
from longhaul.core.parts import LearnerProtocol
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout, unfold_chunks
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.engine.async_collector import OverlapCollector
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.build import make_vector_env
from longhaul.learn.config import OnPolicyConfig, PPOConfig, learn_settings
from longhaul.learn.ppo import PPO
from longhaul.learn.vtrace import VTrace
from longhaul.nets.actor_critic import build_policy
from longhaul.nets.config import PolicyConfig
from longhaul.tasks.probe.chase import chase_envs
from tests.engine.comparing import assert_equal, through_checkpoint
from tests.engine.diary import SETTINGS, TILT, DiaryPolicy, diaries

STEPS, CHUNK = 8, 4
PATIENCE = 20.0  # seconds until a test that would hang fails instead


@dataclass
class Hooked:
    """A vector env that calls `hook` before every step."""

    inner: VectorEnv
    hook: Callable[[], None] = lambda: None
    calls: list[str] = field(default_factory=list)

    @property
    def spec(self) -> EnvSpec:
        return self.inner.spec

    @property
    def count(self) -> int:
        return self.inner.count

    @property
    def rows(self) -> int:
        return self.inner.rows

    @property
    def slots(self) -> StepBuffers:
        return self.inner.slots

    @property
    def starts_used(self) -> int:
        return self.inner.starts_used

    def reset(self) -> None:
        self.inner.reset()

    def step(self, actions: Array) -> Step:
        self.hook()
        self.calls.append("step")
        return self.inner.step(actions)

    def configure(self, settings: Settings) -> None:
        self.inner.configure(settings)

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        return self.inner.frame(env)

    def close(self) -> None:
        self.calls.append("close")
        self.inner.close()

    def state_dict(self) -> State:
        return self.inner.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.inner.load_state_dict(state)


class Turnstile:
    """Lets steps through by the rollout."""

    def __init__(self) -> None:
        self._permits = threading.Semaphore(0)

    def wait(self) -> None:
        assert self._permits.acquire(timeout=PATIENCE)

    def let_a_rollout_through(self) -> None:
        self._permits.release(STEPS)


@dataclass
class Run:
    """An overlapped collector with a policy whose weight counts updates."""

    env: Hooked = field(default_factory=lambda: Hooked(diaries()))
    learned: DiaryPolicy = field(default_factory=DiaryPolicy)

    def __post_init__(self) -> None:
        acting = copy.deepcopy(self.learned)
        inner = RolloutCollector(self.env, acting, Seeds(2), steps=STEPS, chunk=CHUNK)
        self.collector = OverlapCollector(inner, self.learned)

    def update(self) -> None:
        with torch.no_grad():
            self.learned.version.add_(1.0)

    def iterate(self, count: int, settings: Settings = SETTINGS) -> list[Rollout]:
        rollouts = []
        for _ in range(count):
            rollouts.append(self.collector.collect(settings))
            self.update()
        return rollouts


@pytest.fixture
def make_run() -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def make(**parts: Any) -> Run:
        made.append(Run(**parts))
        return made[-1]

    yield make
    for run in made:
        run.collector.close()


MakeRun = Callable[..., Run]


def version_of(rollout: Rollout) -> set[float]:
    """Return the versions the rollout's log-probabilities tell of."""
    return set((-rollout.log_prob // 100)[~rollout.forced].tolist())


def test_rollout_k_is_made_with_the_weights_after_update_k_minus_2(make_run: MakeRun) -> None:
    rollouts = make_run().iterate(6)
    versions = [version_of(rollout) for rollout in rollouts]
    assert versions == [{0.0}, {0.0}, {1.0}, {2.0}, {3.0}, {4.0}]


def test_bootstrap_values_are_by_the_weights_that_acted(make_run: MakeRun) -> None:
    for rollout, version in zip(make_run().iterate(5), (0, 0, 1, 2, 3), strict=True):
        page, age = rollout.last.obs["page"], rollout.last.memory["age"]
        expected = page[:, 0] + 1000 * page[:, 1] + 0.01 * page[:, 2] + 10_000 * age + version
        assert torch.allclose(rollout.last.value, expected)


def test_settings_lag_like_weights(make_run: MakeRun) -> None:
    run = make_run(env=Hooked(diaries(seeds=DerivedSeeds(Seeds(9)))))
    run.iterate(1, Settings([TILT]))
    rollouts = run.iterate(6, Settings([TILT], {TILT.name: 0.25}))
    tilted = [bool((r.obs["page"][:, :, 0] % 1 == 0.25).any()) for r in rollouts]
    assert not tilted[0], "the rollout under way was begun with the settings before"
    assert all(tilted[2:])


def test_a_slow_learner_and_a_slow_env_bring_the_same_rollouts(make_run: MakeRun) -> None:
    assert_equal(slow_learner(make_run), slow_env(make_run))


def slow_learner(make_run: MakeRun) -> list[Rollout]:
    """Update only when the rollout under way is complete."""
    complete = threading.Event()
    run = make_run()

    def count() -> None:
        if len(run.env.calls) % STEPS == STEPS - 1:
            complete.set()

    run.env.hook = count
    rollouts = []
    for _ in range(5):
        rollouts.append(run.collector.collect(SETTINGS))
        assert complete.wait(PATIENCE)
        complete.clear()
        run.update()
    return rollouts


def slow_env(make_run: MakeRun) -> list[Rollout]:
    """Let no step of the rollout under way happen before the update is done."""
    turnstile = Turnstile()
    run = make_run(env=Hooked(diaries(), turnstile.wait))
    rollouts = []
    for _ in range(5):
        turnstile.let_a_rollout_through()
        rollouts.append(run.collector.collect(SETTINGS))
        run.update()
    turnstile.let_a_rollout_through()
    return rollouts


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_run_saved_in_mid_flight_continues_exactly(make_run: MakeRun, cut: int) -> None:
    whole, resumed = make_run(), make_run()
    whole.iterate(cut)
    resumed.collector.load_state_dict(through_checkpoint(whole.collector.state_dict()))
    resumed.learned.load_state_dict(whole.learned.state_dict())
    assert_equal(resumed.iterate(4), whole.iterate(4))
    assert_equal(
        through_checkpoint(resumed.collector.state_dict()),
        through_checkpoint(whole.collector.state_dict()),
    )


def test_the_rollout_under_way_is_made_again_with_its_own_settings(make_run: MakeRun) -> None:
    whole, resumed = make_run(), make_run()
    early, late = Settings([TILT]), Settings([TILT], {TILT.name: 0.25})
    whole.iterate(2, late)
    resumed.collector.load_state_dict(through_checkpoint(whole.collector.state_dict()))
    resumed.learned.load_state_dict(whole.learned.state_dict())
    assert_equal(resumed.iterate(3, early), whole.iterate(3, early))


def test_the_state_is_that_of_the_last_hand_over(make_run: MakeRun) -> None:
    run = make_run()
    run.iterate(3)
    state = run.collector.state_dict()
    kept = through_checkpoint(state)
    assert float(kept["weights"]["version"]) == 2.0, "update 3 came after the hand-over"
    run.collector.collect(SETTINGS)
    assert_equal(through_checkpoint(state), kept)


def test_a_state_loaded_and_saved_at_once_is_the_same(make_run: MakeRun) -> None:
    run, other = make_run(), make_run()
    run.iterate(2)
    state = through_checkpoint(run.collector.state_dict())
    other.collector.load_state_dict(state)
    assert_equal(other.collector.state_dict(), state)


def test_a_state_from_before_the_first_rollout_is_a_beginning(make_run: MakeRun) -> None:
    fresh, resumed = make_run(), make_run()
    resumed.collector.load_state_dict(through_checkpoint(fresh.collector.state_dict()))
    assert_equal(resumed.iterate(3), fresh.iterate(3))


def test_closing_waits_for_the_rollout_under_way_before_it_ends_the_envs() -> None:
    run = Run()
    run.iterate(1)
    run.collector.close()
    steps = run.env.calls.count("step")
    assert steps in (STEPS, 2 * STEPS), "the last rollout was complete, or never begun"
    assert run.env.calls[-1] == "close"
    assert run.env.calls.count("close") == 1
    assert not [t for t in threading.enumerate() if t.name.startswith("collect")]


def test_an_env_that_fails_while_learning_goes_on_is_told_of(make_run: MakeRun) -> None:
    run = make_run()
    run.iterate(1)
    run.collector.collect(SETTINGS)

    def fail() -> None:
        raise EnvError("the simulator lost its ball")

    run.env.hook = fail
    with pytest.raises(EnvError, match="lost its ball"):
        run.iterate(3)


LEARNERS: dict[str, Callable[[Policy, OnPolicyConfig, np.random.Generator], LearnerProtocol]] = {
    "ppo": PPO,
    "vtrace": VTrace,
}


class RealRun:
    """Overlap with a real network and learner on a batched env with threads."""

    def __init__(self, algorithm: str, hook: Callable[[], None] = lambda: None) -> None:
        source = chase_envs(rows=2, time_limit=9)
        seeds = Seeds(4)
        config = PPOConfig(n_epochs=2, minibatch_size=64, learning_rate=1e-2)
        self.settings = Settings(learn_settings(config))
        with torch.random.fork_rng():
            torch.manual_seed(6)
            self.policy = build_policy(
                source.spec, PolicyConfig(hidden=(8,), core="gru", core_size=8, noisy="heads")
            )
        self.env = Hooked(make_vector_env(source, count=4, seeds=DerivedSeeds(seeds)), hook)
        inner = RolloutCollector(
            self.env, copy.deepcopy(self.policy), seeds, steps=STEPS, chunk=CHUNK
        )
        self.collector = OverlapCollector(inner, self.policy)
        self.learner = LEARNERS[algorithm](self.policy, config, seeds.generator("learn"))

    def iterate(self, count: int) -> list[Rollout]:
        rollouts = []
        for _ in range(count):
            rollouts.append(self.collector.collect(self.settings))
            self.learner.update(rollouts[-1], self.settings)
        return rollouts


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_networks_rollouts_are_by_the_weights_after_update_k_minus_2(algorithm: str) -> None:
    run = RealRun(algorithm)
    weights = [copy.deepcopy(run.policy.state_dict())]
    rollouts = []
    for _ in range(5):
        rollouts += run.iterate(1)
        weights.append(copy.deepcopy(run.policy.state_dict()))
    run.collector.close()
    for number, rollout in enumerate(rollouts, start=1):
        evaluate_actions = copy.deepcopy(run.policy)
        evaluate_actions.load_state_dict(weights[max(number - 2, 0)])
        with torch.no_grad():
            judged = evaluate_actions.evaluate_actions(rollout.sequences(), run.settings)
        chosen = rollout.trainable
        again = unfold_chunks(judged.log_prob, rollout.steps)[chosen]
        torch.testing.assert_close(again, rollout.log_prob[chosen], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_real_weights_do_not_depend_on_timing_or_on_a_restart(algorithm: str) -> None:
    turnstile = Turnstile()
    whole = RealRun(algorithm, hook=turnstile.wait)
    for _ in range(5):
        turnstile.let_a_rollout_through()
        whole.iterate(1)
    turnstile.let_a_rollout_through()
    cut, resumed = RealRun(algorithm), RealRun(algorithm)
    cut.iterate(2)
    resumed.collector.load_state_dict(through_checkpoint(cut.collector.state_dict()))
    resumed.learner.load_state_dict(through_checkpoint(cut.learner.state_dict()))
    resumed.iterate(3)
    for run in (whole, cut, resumed):
        run.collector.close()
    assert_equal(
        through_checkpoint(resumed.learner.state_dict()),
        through_checkpoint(whole.learner.state_dict()),
    )
    assert_equal(
        through_checkpoint(resumed.collector.state_dict()),
        through_checkpoint(whole.collector.state_dict()),
    )

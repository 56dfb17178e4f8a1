"""Acting and learning compute the same function, in the real runtimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from longhaul.core.env import EnvSource
from longhaul.core.rollout import Rollout, Sequences, unfold_chunks
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.engine.collector import RolloutCollector, RolloutShape
from longhaul.envs.build import make_vector_env
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.learn.native.acting import NativeActor
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import CoreKind, PolicyConfig
from longhaul.tasks.probe.chase import chase_envs
from tests.engine.comparing import assert_equal, through_checkpoint
from tests.engine.diary import DiaryFactory
from tests.envs.gymnasium_fakes import fake_id
from tests.envs.school import SchoolFactory

SETTINGS = Settings([])
STEPS, CHUNK = 24, 6
CLOSE = 1e-5
NORMALIZED = PolicyConfig(
    hidden=(16, 16), core_size=16, core_heads=2, memory_length=4, normalize_observations=True
)


def gymnasium_source(env_id: str, **kwargs: object) -> EnvSource:
    return gymnasium_envs(GymnasiumFactory(env_id, kwargs))


SOURCES: dict[str, Callable[[], EnvSource]] = {
    "serial": lambda: gymnasium_source("CartPole-v1", max_episode_steps=9),
    "serial, masks": lambda: gymnasium_source(fake_id("MaskedWalk")),
    "serial, multi-discrete, masks": lambda: gymnasium_source(fake_id("SplitMaskedWalk")),
    "serial, several parts": lambda: gymnasium_source(fake_id("DictWalk")),
    "serial, continuous": lambda: gymnasium_source("Pendulum-v1", max_episode_steps=7),
    "serial, rows that die": lambda: SchoolFactory().source(),
    "serial, forced actions": lambda: DiaryFactory().source(),
    "batched, rows, masks": lambda: chase_envs(rows=3, time_limit=7, has_masks=True),
}
CORES: tuple[CoreKind, ...] = ("none", "gru", "lstm", "transformer")


@pytest.fixture(autouse=True)
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)


def make_policy(source: EnvSource, config: PolicyConfig) -> ActorCritic:
    """Build a policy whose weights are far enough from their start for everything to matter."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        policy = build_policy(source.spec, config)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return policy


def make_collector(
    name: str, config: PolicyConfig, *, native: bool = False
) -> tuple[RolloutCollector, ActorCritic]:
    source = SOURCES[name]()
    policy = make_policy(source, config)
    seeds = Seeds(8)
    env = make_vector_env(source, count=4, seeds=DerivedSeeds(seeds), threads=2)
    shape: RolloutShape = {"steps": STEPS, "chunk": CHUNK}
    if native:
        shape["actor"] = NativeActor(policy, env.spec, env.rows, seeds)
    return RolloutCollector(env, policy, seeds, **shape), policy


def assert_repeated(rollout: Rollout, policy: ActorCritic) -> None:
    """Compare on rows that were there: what an absent row is said to think is nobody's concern."""
    policy.set_noise(12345)
    with torch.no_grad():
        judged = policy.evaluate_actions(rollout.sequences(), SETTINGS)
    for name, again, recorded, there in (
        ("log_prob", judged.log_prob, rollout.log_prob, rollout.active & ~rollout.forced),
        ("value", judged.value, rollout.value, rollout.active),
    ):
        again = unfold_chunks(again, rollout.steps)
        torch.testing.assert_close(again[there], recorded[there], atol=CLOSE, rtol=CLOSE, msg=name)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", SOURCES)
def test_judging_a_rollout_repeats_what_was_recorded(name: str, core: CoreKind) -> None:
    collector, policy = make_collector(name, replace(NORMALIZED, core=core, noisy="both"))
    started, borders = 0, 0
    for _ in range(3):
        rollout = collector.collect(SETTINGS)
        assert_repeated(rollout, policy)
        started += int(rollout.started[1:].sum())
        borders += int((~rollout.started[CHUNK::CHUNK]).sum())
        policy.observe(rollout.obs, rollout.active)
    collector.close()
    assert started >= 5, "no episode border was inside the rollouts"
    assert borders >= 5, "no episode went on over a chunk border"


@pytest.mark.parametrize("name", SOURCES)
def test_judging_a_rollout_repeats_what_native_code_recorded(name: str) -> None:
    collector, policy = make_collector(name, NORMALIZED, native=True)
    for _ in range(3):
        rollout = collector.collect(SETTINGS)
        assert_repeated(rollout, policy)
        if rollout.mask is not None and rollout.action.dim() == 2:
            taken = rollout.mask.gather(2, rollout.action.unsqueeze(2)).squeeze(2)
            assert taken[rollout.active & ~rollout.forced].all()
        policy.observe(rollout.obs, rollout.active)
    collector.close()


@pytest.mark.parametrize("name", ["serial, multi-discrete, masks", "serial, continuous"])
def test_a_collector_that_acts_natively_continues_exactly(name: str) -> None:
    whole, policy = make_collector(name, NORMALIZED, native=True)
    whole.collect(SETTINGS)
    state = through_checkpoint(whole.state_dict())
    weights = {key: part.clone() for key, part in policy.state_dict().items()}
    resumed, own = make_collector(name, NORMALIZED, native=True)
    own.load_state_dict(weights)
    resumed.load_state_dict(state)
    for _ in range(2):
        assert_equal(resumed.collect(SETTINGS), whole.collect(SETTINGS))
    for collector in (whole, resumed):
        collector.close()


@pytest.mark.parametrize("value_network", ["separate", "shared"])
@pytest.mark.parametrize("noisy", ["none", "heads", "trunk", "both"])
def test_judging_repeats_acting_for_every_place_of_noise(noisy: str, value_network: str) -> None:
    config = replace(NORMALIZED, noisy=noisy, value_network=value_network)  # type: ignore[arg-type]  # literals
    collector, policy = make_collector("serial", config)
    first, second = collector.collect(SETTINGS), collector.collect(SETTINGS)
    assert_repeated(second, policy)
    assert_repeated(first, policy)
    collector.close()


def with_what_follows(
    rollout: Rollout, step: int, row: int, obs: dict[str, Tensor], *, started: bool
) -> Sequences:
    """Return the chunk of one row up to `step`, with one more observation behind it."""
    chunk = step // rollout.chunk
    begin = chunk * rollout.chunk
    steps = slice(begin, step + 1)

    def column(tensor: Tensor, last: Tensor) -> Tensor:
        return torch.cat((tensor[steps, row], last.unsqueeze(0))).unsqueeze(1)

    return Sequences(
        obs={name: column(part, obs[name]) for name, part in rollout.obs.items()},
        action=column(rollout.action, rollout.action[step, row]),
        started=column(rollout.started, torch.tensor(started)),
        mask=None if rollout.mask is None else column(rollout.mask, rollout.mask[step, row]),
        memory={name: part[chunk, row : row + 1] for name, part in rollout.memory.items()},
        noise_seed=rollout.noise_seed,
    )


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", ["serial, continuous", "batched, rows, masks"])
def test_bootstrap_values_are_those_of_a_sequence_one_step_longer(
    name: str, core: CoreKind
) -> None:
    collector, policy = make_collector(name, replace(NORMALIZED, core=core, noisy="both"))
    collector.collect(SETTINGS)
    rollout = collector.collect(SETTINGS)
    cuts, last = rollout.truncations, rollout.last
    began = torch.from_numpy(collector.env.slots.started)
    assert len(cuts.row) >= 3
    with torch.no_grad():
        for index, (step, row) in enumerate(
            zip(cuts.step.tolist(), cuts.row.tolist(), strict=True)
        ):
            obs = {part: held[index] for part, held in cuts.obs.items()}
            longer = with_what_follows(rollout, step, row, obs, started=False)
            value = policy.evaluate_actions(longer, SETTINGS).value[-1, 0]
            torch.testing.assert_close(value, cuts.value[index], atol=CLOSE, rtol=CLOSE)
        for row in range(rollout.rows):
            obs = {part: held[row] for part, held in last.obs.items()}
            longer = with_what_follows(rollout, STEPS - 1, row, obs, started=bool(began[row]))
            value = policy.evaluate_actions(longer, SETTINGS).value[-1, 0]
            torch.testing.assert_close(value, last.value[row], atol=CLOSE, rtol=CLOSE)
    collector.close()


def test_the_comparison_notices_a_memory_that_was_not_cleared() -> None:
    """The equality above would be worth little if it held for anything."""
    collector, policy = make_collector("serial", replace(NORMALIZED, core="gru"))
    rollout = collector.collect(SETTINGS)
    with pytest.raises(AssertionError):
        assert_repeated(replace(rollout, started=torch.zeros_like(rollout.started)), policy)
    collector.close()

"""Acting and judging are the same function."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.policy import NO_NOISE
from longhaul.core.rollout import Sequences
from longhaul.core.spaces import Discrete, EnvSpec, Part
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import CoreKind, PolicyConfig, TrunkKind
from tests.nets.rolling import ACTIONS, MIXED, SETTINGS, VECTOR, random_obs, roll

CORES: tuple[CoreKind, ...] = ("none", "gru", "lstm", "transformer")
SMALL = PolicyConfig(
    hidden=(16, 16),
    core_size=16,
    core_heads=2,
    memory_length=5,
    image_features=24,
)


def make(spec: EnvSpec, config: PolicyConfig, seed: int = 0) -> ActorCritic:
    """Build a policy with weights far enough from their start for actions to differ."""
    torch.manual_seed(seed)
    policy = build_policy(spec, config)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return policy


def spec_of(action: str, *, masks: bool = True, parts: dict[str, Part] = VECTOR) -> EnvSpec:
    return EnvSpec("fake", parts, ACTIONS[action], has_masks=masks and action != "continuous")


@pytest.fixture
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("core", CORES)
def test_judging_repeats_acting_across_episode_and_chunk_borders(
    core: CoreKind, action: str
) -> None:
    spec = spec_of(action)
    config = dataclasses.replace(SMALL, core=core, noisy="both", normalize_observations=True)
    policy = make(spec, config)
    source = torch.Generator().manual_seed(1)
    policy.observe(random_obs(spec, (7, 4), source), torch.ones(7, 4, dtype=torch.bool))
    memory = None
    for chunk in range(3):
        rolled = roll(policy, spec, steps=9, rows=6, seed=chunk, memory=memory)
        policy.set_noise(99)
        evaluated = policy.evaluate_actions(rolled.sequences, SETTINGS)
        torch.testing.assert_close(evaluated.log_prob, rolled.log_prob, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(evaluated.value, rolled.value, atol=1e-5, rtol=1e-5)
        assert evaluated.log_prob.dtype == evaluated.value.dtype == torch.float32
        assert torch.isfinite(evaluated.entropy).all()
        memory = rolled.memory


@pytest.mark.parametrize("trunk", ["nature", "impala", "lean"])
@pytest.mark.parametrize("core", ["none", "gru"])
def test_judging_repeats_acting_on_images_beside_vectors(core: CoreKind, trunk: TrunkKind) -> None:
    spec = spec_of("categorical", parts=MIXED)
    config = dataclasses.replace(SMALL, core=core, trunk=trunk, noisy="trunk")
    if trunk == "lean":
        config = dataclasses.replace(config, joint=(24,))
    policy = make(spec, config)
    rolled = roll(policy, spec, steps=5, rows=3, seed=1)
    evaluated = policy.evaluate_actions(rolled.sequences, SETTINGS)
    torch.testing.assert_close(evaluated.log_prob, rolled.log_prob, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(evaluated.value, rolled.value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("core", CORES)
def test_the_value_of_an_observation_is_the_value_seen_while_acting(core: CoreKind) -> None:
    spec = spec_of("categorical", masks=False)
    policy = make(spec, dataclasses.replace(SMALL, core=core))
    memory = roll(policy, spec, steps=4, rows=5, seed=0).memory
    obs = random_obs(spec, (5,), torch.Generator().manual_seed(4))
    acted = policy.act(obs, memory, SETTINGS)
    torch.testing.assert_close(policy.value(obs, memory, SETTINGS), acted.value)


def _gradients(policy: ActorCritic, sequences: Sequences) -> dict[str, Tensor]:
    policy.zero_grad()
    evaluated = policy.evaluate_actions(sequences, SETTINGS)
    weight = torch.linspace(0.5, 1.5, evaluated.value.numel()).view_as(evaluated.value)
    total = evaluated.log_prob + 0.3 * evaluated.entropy + evaluated.value.square()
    (weight * total).sum().backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in policy.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("core", CORES)
def test_gradients_reach_every_parameter(core: CoreKind, action: str) -> None:
    spec = spec_of(action, parts=MIXED)
    policy = make(spec, dataclasses.replace(SMALL, core=core, noisy="both"))
    gradients = _gradients(policy, roll(policy, spec, steps=7, rows=4, seed=0).sequences)
    for name, _ in policy.named_parameters():
        assert name in gradients, name
        assert torch.isfinite(gradients[name]).all(), name
        assert gradients[name].abs().max() > 0, name


@pytest.mark.parametrize("core", CORES)
def test_acting_and_learning_are_repeatable_bit_by_bit(core: CoreKind) -> None:
    spec = spec_of("categorical")
    policy = make(spec, dataclasses.replace(SMALL, core=core, noisy="heads"))
    first, second = (roll(policy, spec, steps=6, rows=5, seed=8) for _ in range(2))
    assert torch.equal(first.sequences.action, second.sequences.action)
    assert torch.equal(first.log_prob, second.log_prob)
    once, again = (_gradients(policy, first.sequences) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)


@pytest.mark.parametrize("core", CORES)
def test_a_deep_copy_is_equal_and_goes_its_own_way(core: CoreKind) -> None:
    spec = spec_of("categorical")
    config = dataclasses.replace(SMALL, core=core, noisy="heads", normalize_observations=True)
    policy = make(spec, config)
    policy.set_noise(5)
    snapshot = copy.deepcopy(policy)
    before = roll(snapshot, spec, steps=5, rows=4, seed=2)
    assert torch.equal(before.value, roll(policy, spec, steps=5, rows=4, seed=2).value)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=0.1)
    _gradients(policy, before.sequences)
    optimizer.step()
    policy.observe(before.sequences.obs, torch.ones(5, 4, dtype=torch.bool))
    assert torch.equal(before.value, roll(snapshot, spec, steps=5, rows=4, seed=2).value)
    assert not torch.equal(before.value, roll(policy, spec, steps=5, rows=4, seed=2).value)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("core", CORES)
def test_a_loaded_policy_acts_as_the_saved_one(core: CoreKind, assign: bool) -> None:  # noqa: FBT001
    spec = spec_of("categorical")
    config = dataclasses.replace(SMALL, core=core, noisy="both", normalize_observations=True)
    saved, loaded = make(spec, config, seed=1), make(spec, config, seed=2)
    source = torch.Generator().manual_seed(6)
    saved.observe(random_obs(spec, (9, 4), source), torch.ones(9, 4, dtype=torch.bool))
    state = {name: tensor.clone() for name, tensor in saved.state_dict().items()}
    assert all(tensor.is_contiguous() for tensor in state.values())
    loaded.load_state_dict(state, assign=assign)
    expected = roll(saved, spec, steps=5, rows=4, seed=2)
    found = roll(loaded, spec, steps=5, rows=4, seed=2)
    assert torch.equal(expected.value, found.value)
    assert torch.equal(expected.log_prob, found.log_prob)


def test_noise_is_a_function_of_its_seed_and_is_not_saved() -> None:
    spec = spec_of("categorical")
    policy = make(spec, dataclasses.replace(SMALL, noisy="both"))
    assert not any("noise" in name for name in policy.state_dict())
    obs = random_obs(spec, (4,), torch.Generator().manual_seed(0))
    values: dict[int, Tensor] = {}
    for seed in (1, 2, 1, 0, 2**31, NO_NOISE):
        policy.set_noise(seed)
        value = policy.value(obs, {}, SETTINGS)
        assert torch.equal(values.setdefault(seed, value), value)
    assert len({float(value[0].detach()) for value in values.values()}) == 5


def test_acting_without_a_generator_takes_the_most_likely_action() -> None:
    spec = spec_of("categorical", masks=False)
    policy = make(spec, SMALL)
    obs = random_obs(spec, (50,), torch.Generator().manual_seed(0))
    greedy = policy.act(obs, {}, SETTINGS)
    for choice in range(5):
        other = Sequences(
            obs={name: part.unsqueeze(0) for name, part in obs.items()},
            action=torch.full((1, 50), choice),
            started=torch.zeros(1, 50, dtype=torch.bool),
            mask=None,
            memory={},
            noise_seed=0,
        )
        assert (
            policy.evaluate_actions(other, SETTINGS).log_prob[0] <= greedy.log_prob + 1e-6
        ).all()


def test_only_policies_with_a_core_are_recurrent() -> None:
    spec = spec_of("categorical")
    for core in CORES:
        policy = make(spec, dataclasses.replace(SMALL, core=core))
        assert policy.recurrent is (core != "none")
        memory = policy.initial_state(3)
        assert all(part.shape[0] == 3 and not part.any() for part in memory.values())


def test_vectors_get_a_separate_value_network_and_images_share_one() -> None:
    vectors = build_policy(spec_of("categorical"), PolicyConfig()).state_dict()
    assert {"body.policy.layers.0.weight", "body.value.layers.0.weight"} <= set(vectors)
    images = build_policy(spec_of("categorical", parts=MIXED), PolicyConfig()).state_dict()
    assert "body.encoder.images.image.first.weight" in images


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (PolicyConfig(trunk="nature"), "needs images"),
        (PolicyConfig(core="gru", value_network="separate"), "policy.core = 'gru'"),
        (PolicyConfig(hidden=(), noisy="trunk"), "policy.hidden is empty"),
        (PolicyConfig(joint=(8,)), "policy.joint"),
    ],
)
def test_impossible_combinations_are_named(config: PolicyConfig, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_policy(spec_of("categorical"), config)


def test_images_too_small_for_nature_are_named_and_auto_reads_them_otherwise() -> None:
    tiny = EnvSpec("grid", {"view": Part((3, 7, 7), "uint8")}, Discrete(3))
    with pytest.raises(ConfigError, match="'view' is \\(3, 7, 7\\)"):
        build_policy(tiny, PolicyConfig(trunk="nature"))
    lean = build_policy(tiny, PolicyConfig(trunk="lean")).state_dict()
    assert build_policy(tiny, PolicyConfig()).state_dict().keys() == lean.keys()
    nothing = EnvSpec("grid", {"view": Part((3, 4, 7), "uint8")}, Discrete(3))
    flat = build_policy(nothing, PolicyConfig()).state_dict()
    assert flat["body.policy.layers.0.weight"].shape == (64, 84)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden": (64, 0)}, "policy.hidden\\[1\\] = 0"),
        ({"core": "transformer", "core_heads": 3}, "does not divide"),
        ({"noise_scale": 0.0}, "above 0"),
    ],
)
def test_impossible_values_are_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(PolicyConfig(), **change)  # type: ignore[arg-type]

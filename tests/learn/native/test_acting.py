"""Native acting against torch, and what it draws against the probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.env import Array
from longhaul.core.native import entry
from longhaul.core.policy import NO_NOISE, Act
from longhaul.core.rollout import Sequences, TensorTree
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, MultiDiscrete, Part
from longhaul.learn.native.acting import NativeActor
from longhaul.learn.native.draws import SPARE, choose, draw_uniform, normal_pair, philox
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import PolicyConfig
from longhaul.nets.heads import GaussianHead
from tests.learn.native.cases import CASES, TILES, Case

NO_SETTINGS = Settings([])
CLOSE = 1e-5


def make_actor(case: Case, policy: ActorCritic, rows: int, *, seed: int = 1) -> NativeActor:
    actor = NativeActor(policy, case.spec, rows, Seeds(seed))
    actor.begin()
    return actor


def look(case: Case, rows: int, *, seed: int = 2) -> tuple[TensorTree, Tensor | None]:
    """Return random observations and masks that allow something."""
    random = np.random.default_rng(seed)
    obs = {}
    for name, part in case.spec.observation.items():
        numbers = 100.0 * random.standard_normal((rows, *part.shape)) ** 2
        numbers = np.minimum(numbers, 255) if part.dtype == "uint8" else numbers / 50
        obs[name] = torch.from_numpy(numbers.astype(part.dtype))
    mask = None
    if case.masked:
        width = sum(getattr(case.action, "counts", (getattr(case.action, "count", 0),)))
        mask = torch.from_numpy(random.random((rows, width)) < 0.5)
        mask[:, [0, -1]] = True
    return obs, mask


def act(actor: NativeActor, obs: TensorTree, mask: Tensor | None = None) -> Act:
    """Act and keep what is returned."""
    found = actor.act(obs, {}, NO_SETTINGS, mask)
    return Act(found.action.clone(), found.log_prob.clone(), found.value.clone(), {})


def judged(
    policy: ActorCritic, obs: TensorTree, mask: Tensor | None, action: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what torch computes for these actions."""
    sequences = Sequences(
        obs={name: part[None] for name, part in obs.items()},
        action=action[None],
        started=torch.zeros(1, len(action), dtype=torch.bool),
        mask=None if mask is None else mask[None],
        memory={},
        noise_seed=NO_NOISE,
    )
    with torch.no_grad():
        found = policy.evaluate_actions(sequences, NO_SETTINGS)
    return found.log_prob[0], found.value[0]


def assert_as_torch(policy: ActorCritic, obs: TensorTree, mask: Tensor | None, did: Act) -> None:
    log_prob, value = judged(policy, obs, mask, did.action)
    torch.testing.assert_close(did.log_prob, log_prob, atol=CLOSE, rtol=CLOSE)
    torch.testing.assert_close(did.value, value, atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("rows", [1, 8, 127, 300])
@pytest.mark.parametrize("name", CASES)
def test_log_probabilities_and_values_are_torchs(name: str, rows: int) -> None:
    case = CASES[name]
    policy = case.build()
    obs, mask = look(case, rows)
    wider = {part: 3.0 * numbers + 1.0 for part, numbers in obs.items()}
    policy.observe(wider, torch.ones(rows, dtype=torch.bool))
    actor = make_actor(case, policy, rows)
    for _ in range(2):
        assert_as_torch(policy, obs, mask, act(actor, obs, mask))


@settings(max_examples=25)
@given(
    inputs=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 70), max_size=3),
    counts=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    rows=st.integers(1, 140),
    is_shared=st.booleans(),
    seed=st.integers(0, 9),
)
def test_networks_of_all_shapes_act_as_in_torch(
    inputs: int, hidden: list[int], counts: list[int], rows: int, *, is_shared: bool, seed: int
) -> None:
    network = {"hidden": tuple(hidden), "value_network": "shared" if is_shared else "separate"}
    case = Case(MultiDiscrete(tuple(counts)), network, inputs=inputs, masked=seed % 2 == 0)
    policy, (obs, mask) = case.build(seed), look(case, rows, seed=seed)
    if mask is not None:
        mask[:] = True
    actor = make_actor(case, policy, rows)
    did = act(actor, obs, mask)
    assert ((did.action >= 0) & (did.action < torch.tensor(counts))).all()
    assert_as_torch(policy, obs, mask, did)
    assert not actor.network.flat[0][actor.network.padding()].any()


@settings(max_examples=20)
@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 7), st.integers(5, 14), st.integers(5, 14)),
        min_size=1,
        max_size=2,
    ),
    inputs=st.integers(0, 20),
    joint=st.lists(st.integers(1, 30), max_size=1),
    rows=st.integers(1, 40),
)
def test_images_of_all_shapes_are_read_as_in_torch(
    shapes: list[tuple[int, int, int]], inputs: int, joint: list[int], rows: int
) -> None:
    network = {**TILES, "hidden": (11,), "joint": tuple(joint)}
    case = Case(Discrete(3), network, inputs=inputs, images=tuple(shapes))
    policy, (obs, _) = case.build(), look(case, rows)
    actor = make_actor(case, policy, rows)
    assert_as_torch(policy, obs, None, act(actor, obs))
    assert not actor.network.flat[0][actor.network.padding()].any()


def test_parts_of_all_kinds_are_read_as_in_torch() -> None:
    kinds = {
        "bytes": "uint8",
        "flags": "bool",
        "counts": "int64",
        "wide": "float64",
        "x": "float32",
    }
    parts = {name: Part((2, 3), kind) for name, kind in kinds.items()}
    spec = EnvSpec("parts", parts, Discrete(4))
    policy = build_policy(spec, PolicyConfig(hidden=(16,), normalize_observations=True))
    random, rows = np.random.default_rng(0), 21
    obs = {
        name: torch.from_numpy((100 * random.random((rows, 2, 3))).astype(part.dtype))
        for name, part in parts.items()
    }
    obs["x"][3] = 1e9  # beyond what the normalizer lets through
    policy.observe({name: part[4:] for name, part in obs.items()}, torch.ones(rows - 4) > 0)
    actor = NativeActor(policy, spec, rows, Seeds(1))
    actor.begin()
    assert_as_torch(policy, obs, None, act(actor, obs))


def test_weights_and_normalizers_are_those_of_the_beginning_of_the_rollout() -> None:
    case = CASES["normalized"]
    policy, (obs, _) = case.build(), look(case, 9)
    actor = make_actor(case, policy, 9)
    before = judged(policy, obs, None, torch.zeros(9, dtype=torch.int64))[1]
    policy.load_state_dict(case.build(7).state_dict())
    policy.observe(obs, torch.ones(9, dtype=torch.bool))
    torch.testing.assert_close(act(actor, obs).value, before, atol=CLOSE, rtol=CLOSE)
    actor.begin()
    assert_as_torch(policy, obs, None, act(actor, obs))


def excess(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Return by how many deviations the chi-square statistic is above its mean."""
    expected = counts.sum() * probabilities
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    return float((statistic - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize("name", ["separate", "masked", "choices", "masked-choices"])
def test_choices_are_as_frequent_as_they_are_likely(name: str) -> None:
    case, rows, steps = CASES[name], 200, 100
    policy, (obs, mask) = case.build(), look(case, 1)
    obs = {"x": obs["x"].expand(rows, -1).contiguous()}
    mask = None if mask is None else mask.expand(rows, -1).contiguous()
    actor = make_actor(case, policy, rows)
    did = torch.cat([act(actor, obs, mask).action.view(rows, -1) for _ in range(steps)]).numpy()
    logits = policy.act(
        {"x": obs["x"][:1]}, {}, NO_SETTINGS, mask=None if mask is None else mask[:1]
    )
    assert logits.logits is not None
    pieces = logits.logits.detach().double().split(policy.policy_head.choices, 1)
    for choice, piece in enumerate(pieces):
        likely = torch.softmax(piece[0], 0).numpy()
        counts = np.bincount(did[:, choice], minlength=len(likely))
        assert not counts[likely == 0.0].any(), "a forbidden choice was taken"
        assert excess(counts[likely > 0], likely[likely > 0]) < 4.0


def test_continuous_actions_are_normal_around_the_mean() -> None:
    case, rows, steps = CASES["gaussian"], 300, 60
    policy, (obs, _) = case.build(), look(case, 1)
    obs = {"x": obs["x"].expand(rows, -1).contiguous()}
    actor = make_actor(case, policy, rows)
    did = torch.cat([act(actor, obs).action for _ in range(steps)]).double()
    mean = policy.act(obs, {}, NO_SETTINGS).action[:1].detach().double()
    assert isinstance(policy.policy_head, GaussianHead)
    normal = ((did - mean) / policy.policy_head.log_std.detach().double().exp()).numpy()
    for column in normal.T:
        edges = np.linspace(-2.5, 2.5, 21)
        below = np.array([0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in edges])
        likely = np.diff(np.concatenate([[0.0], below, [1.0]]))
        counts = np.bincount(np.digitize(column, edges), minlength=len(likely))
        assert excess(counts, likely) < 4.0
    assert np.abs(np.corrcoef(normal.T) - np.eye(3)).max() < 0.03
    assert np.abs(normal).max() < 6.0


def test_masks_are_never_violated_and_a_row_that_allows_nothing_still_acts() -> None:
    case, rows = CASES["masked"], 257
    policy, (obs, _) = case.build(), look(case, rows)
    random = np.random.default_rng(3)
    actor = make_actor(case, policy, rows)
    for _ in range(50):
        mask = torch.from_numpy(random.random((rows, 23)) < 0.05)
        did = act(actor, obs, mask)
        allowed = mask.gather(1, did.action[:, None])[:, 0]
        assert allowed[mask.any(1)].all()
        assert_as_torch(policy, obs, mask, did)


@pytest.mark.parametrize("name", ["separate", "masked-choices", "gaussian"])
def test_actions_depend_on_neither_the_number_of_rows_nor_what_was_drawn_before(name: str) -> None:
    case = CASES[name]
    policy, (obs, mask) = case.build(), look(case, 300)
    many, few = make_actor(case, policy, 300), make_actor(case, policy, 77)
    partly = make_actor(case, policy, 300)
    less = {"x": obs["x"][:77]}, None if mask is None else mask[:77]
    for _ in range(3):
        all_rows, first_rows = act(many, obs, mask), act(few, *less)
        some_rows = act(partly, *less)
        for found in (first_rows, some_rows):
            assert torch.equal(all_rows.action[:77], found.action)
            assert torch.equal(all_rows.log_prob[:77], found.log_prob)
            assert torch.equal(all_rows.value[:77], found.value)
    late = make_actor(case, policy, 300, seed=1)
    late.restore_generator(many.generator_state())
    assert torch.equal(act(late, obs, mask).action, act(many, obs, mask).action)


def test_seeds_and_streams_draw_differently() -> None:
    case = CASES["gaussian"]
    policy, (obs, _) = case.build(), look(case, 50)
    actors = [make_actor(case, policy, 50, seed=seed) for seed in (1, 2, 1)]
    actors[2].draw_apart(Seeds(1), 3)
    one, two, three = (act(actor, obs).action for actor in actors)
    assert not torch.equal(one, two)
    assert not torch.equal(one, three)


def test_the_state_of_torchs_generator_is_left_alone() -> None:
    case = CASES["separate"]
    actor = make_actor(case, case.build(), 5)
    actor.restore_generator(torch.Generator().get_state())
    assert actor.generator_state() == {"step": 0}


def test_observations_that_do_not_fit_are_refused() -> None:
    case = CASES["masked"]
    actor = make_actor(case, case.build(), 5)
    obs, mask = look(case, 5)
    for bad_obs, bad_mask in (
        ({"x": torch.zeros(5, 6)}, mask),
        ({"x": torch.zeros(6, 5)}, None),
        (obs, torch.ones(5, 22, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match=r"reshape|broadcast"):
            actor.act(bad_obs, {}, NO_SETTINGS, bad_mask)


@entry
def _philox(counter: Array, key: Array, words: Array) -> None:
    found = philox((counter[0], counter[1], counter[2], counter[3]), (key[0], key[1]))
    for i in range(4):
        words[i] = found[i]


@entry
def _uniform(numbers: Array, first: int, count: int, key: Array, step: int) -> int:
    return draw_uniform(numbers, first, count, key, step)


@entry
def _pair(u: float, v: float) -> Any:
    return normal_pair(np.float32(u), np.float32(v))


@entry
def _choice(probabilities: Array, uniform: float) -> int:
    return choose(probabilities, 0, probabilities.size, np.float32(uniform))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (
            [0xFFFFFFFF] * 4,
            [0xFFFFFFFF] * 2,
            [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        ),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_words_are_those_of_the_published_test(
    counter: list[int], key: list[int], expected: list[int]
) -> None:
    words = np.zeros(4, np.uint64)
    _philox(np.array(counter, np.uint64), np.array(key, np.uint64), words)
    assert words.tolist() == expected


@settings(max_examples=40)
@given(first=st.integers(0, 400), count=st.integers(1, 90), step=st.integers(0, 2**40))
def test_numbers_are_those_of_their_place(first: int, count: int, step: int) -> None:
    key = np.array([5, 2**32 - 1], np.int64)
    whole, some = np.zeros(500 + SPARE, np.float32), np.full(count + SPARE + 1, -1.0, np.float32)
    assert _uniform(whole, 0, 500, key, step) == 0
    begin = _uniform(some, first, count, key, step)
    assert some[begin : begin + count].tolist() == whole[first : first + count].tolist()
    assert some[-1] == -1.0
    assert ((whole >= 0) & (whole < 1)).all()


def test_extreme_numbers_give_finite_normals_and_possible_choices() -> None:
    most = 1.0 - 2.0**-24
    for u in (0.0, most):
        for v in (0.0, most):
            assert np.isfinite(_pair(u, v)).all()
    likely = np.array([0.0, 0.3, 0.0, 0.7 - 2.0**-23, 0.0], np.float32)
    assert [_choice(likely, u) for u in (0.0, 0.29, 0.31, most)] == [1, 1, 3, 3]
    assert _choice(np.full(3, np.nan, np.float32), 0.5) == 0

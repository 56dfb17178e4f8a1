"""Products, layouts and the processor they run on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.env import Array
from longhaul.core.native import entry, integer
from longhaul.core.spaces import Discrete
from longhaul.learn.config import PPOConfig
from longhaul.learn.native.kernels import activate, norm
from longhaul.learn.native.network import NativeNetwork
from longhaul.learn.native.ppo import NativePPO
from longhaul.learn.native.tile import multiply
from longhaul.learn.ppo import PPO
from tests.learn.fakes import settings_for
from tests.learn.native.cases import CASES, TILES, Case


@entry
def _multiply(c: Array, a: Array, b: Array, init: Array) -> None:
    multiply(
        (integer(c.ctypes.data), c.shape[1]),
        (integer(a.ctypes.data), a.shape[1], 1),
        (integer(b.ctypes.data), b.shape[1]),
        (integer(init.ctypes.data), 0),
        (c.shape[0], c.shape[1], b.shape[0]),
    )


@entry
def _tanh(values: Array) -> None:
    activate(values, True)  # noqa: FBT003


@entry
def _norm(values: Array) -> float:
    return float(norm(values))


@settings(max_examples=60)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 12),
    length=st.integers(1, 70),
    seed=st.integers(0, 99),
)
def test_a_product_is_the_sum_of_products_and_touches_nothing_else(
    rows: int, columns: int, length: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    m, n = 8 * rows, 16 * columns
    a = random.standard_normal((m, length)).astype(np.float32)
    b = random.standard_normal((length, n)).astype(np.float32)
    init = random.standard_normal(n).astype(np.float32)
    around = np.full((m + 2) * n, 7.0, np.float32)
    c = around[n:-n].reshape(m, n)
    _multiply(c, a, b, init)
    truth = init + a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - truth).max() < 1e-5 * length
    assert (around[:n] == 7.0).all()
    assert (around[-n:] == 7.0).all()


def test_tanh_is_right_to_a_few_roundings_everywhere() -> None:
    x = np.concatenate([np.linspace(-12, 12, 200_001), [-1e30, -1e-30, 0.0, 1e-30, 1e30]])
    found = x.astype(np.float32)
    _tanh(found)
    assert np.abs(found - np.tanh(x.astype(np.float32).astype(np.float64))).max() < 4e-7
    nothing = np.array([np.nan] * 16, np.float32)
    _tanh(nothing)
    assert np.isnan(nothing).all()


def test_a_norm_is_that_of_float64() -> None:
    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    assert _norm(values) == pytest.approx(np.linalg.norm(values.astype(np.float64)), rel=1e-12)
    values[77] = np.inf
    assert _norm(values) == np.inf


def assert_learns_as_torch(case: Case, seed: int) -> None:
    config = PPOConfig(n_epochs=1, minibatch_size=60, learning_rate=1e-4)
    given_settings = settings_for(config)
    torchs = PPO(case.build(seed), config, np.random.default_rng(5))
    native = NativePPO(case.build(seed), config, np.random.default_rng(5))
    rollout = case.rollout(native.policy, given_settings, seed=seed, steps=13, rows=9)
    expected, found = (one.update(rollout, given_settings) for one in (torchs, native))
    assert found["train/grad_norm"] == pytest.approx(expected["train/grad_norm"], rel=1e-4)
    for flat in native.network.flat:
        assert not flat[native.network.padding()].any()


@settings(max_examples=12)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(5, 12), st.integers(5, 12)),
    inputs=st.integers(0, 20),
    seed=st.integers(0, 9),
)
def test_images_of_all_shapes_learn_as_in_torch_and_leave_the_padding_zero(
    shape: tuple[int, int, int], inputs: int, seed: int
) -> None:
    case = Case(Discrete(3), {**TILES, "hidden": (11,)}, inputs=inputs, images=(shape,))
    assert_learns_as_torch(case, seed)


@settings(max_examples=25)
@given(
    inputs=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 70), max_size=3),
    actions=st.integers(1, 40),
    is_shared=st.booleans(),
    seed=st.integers(0, 9),
)
def test_networks_of_all_shapes_learn_as_in_torch_and_leave_the_padding_zero(
    inputs: int, hidden: list[int], actions: int, *, is_shared: bool, seed: int
) -> None:
    network = {"hidden": tuple(hidden), "value_network": "shared" if is_shared else "separate"}
    case = Case(Discrete(actions), network, inputs=inputs)
    assert_learns_as_torch(case, seed)


def test_parameters_come_back_as_they_went_in() -> None:
    for name, case in CASES.items():
        policy = case.build()
        plain = policy.plain_network()
        assert plain is not None, name
        parameters = dict(policy.named_parameters())
        before = {key: tensor.detach().clone() for key, tensor in parameters.items()}
        network = NativeNetwork(plain, parameters)
        network.read("weights", parameters)
        with torch.no_grad():
            for tensor in parameters.values():
                tensor.zero_()
        network.write("weights", parameters)
        assert all(torch.equal(tensor, before[key]) for key, tensor in parameters.items())


DIGEST = """
import hashlib, numpy as np
from longhaul.learn.config import PPOConfig
from longhaul.learn.native.ppo import NativePPO
from tests.learn.fakes import settings_for
from tests.learn.native.cases import CASES
from tests.learn.native.test_acting import look, make_actor
digest = hashlib.sha256()
for name in ("separate", "masked-choices", "shared-gaussian"):
    config = PPOConfig(n_epochs=2, minibatch_size=50, ent_coef=0.01)
    case, settings = CASES[name], settings_for(config)
    learner = NativePPO(case.build(), config, np.random.default_rng(5))
    rollout = case.rollout(learner.policy, settings, seed=1)
    learner.update(rollout, settings)
    for flat in learner.network.flat:
        digest.update(flat.tobytes())
    actor = make_actor(case, learner.policy, 150)
    for step in range(3):
        obs, mask = look(case, 150, seed=step)
        did = actor.act(obs, {}, settings, mask)
        for part in (did.action, did.log_prob, did.value):
            digest.update(part.numpy().tobytes())
print(digest.hexdigest())
"""


def digest_on(processor: dict[str, str], cache: Path) -> str:
    """Return the digest of some updates in a fresh process, compiled for this processor."""
    place = {"NUMBA_CACHE_DIR": str(cache)} if processor else {}
    done = subprocess.run(
        [sys.executable, "-c", DIGEST],
        env={**os.environ, **processor, **place},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.thorough
def test_another_process_and_a_processor_without_avx512_give_the_same_bits(tmp_path: Path) -> None:
    here = digest_on({}, tmp_path)
    assert here == digest_on({}, tmp_path)
    older = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+avx,-avx512f"}
    assert here == digest_on(older, tmp_path)

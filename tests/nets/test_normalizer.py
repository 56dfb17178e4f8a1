"""Running statistics against numpy."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.spaces import Part
from longhaul.nets.dense import RunningNormalizer
from longhaul.nets.encoder import Vector


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    offset=st.floats(-1e4, 1e4),
)
def test_any_split_into_batches_gives_numpys_mean_and_variance(
    seed: int, sizes: list[int], offset: float
) -> None:
    seen = np.random.default_rng(seed).normal(offset, 3.0, (sum(sizes), 2)).astype(np.float32)
    normalizer = RunningNormalizer((2,))
    for batch in torch.from_numpy(seen).split(sizes):
        normalizer.observe(batch)
    assert normalizer.count.item() == len(seen)
    if len(seen):
        exact = seen.astype(np.float64)
        np.testing.assert_allclose(normalizer.mean.numpy(), exact.mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(normalizer.variance.numpy(), exact.var(0), rtol=1e-6, atol=1e-9)


def test_observations_come_out_standard_and_clipped() -> None:
    normalizer = RunningNormalizer((1,), clip=2.0)
    normalizer.observe(torch.tensor([[1.0], [3.0]]))
    found = normalizer(torch.tensor([[2.0], [3.0], [100.0], [-100.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.0], [1.0], [2.0], [-2.0]]))


def test_observations_that_are_not_finite_change_nothing() -> None:
    normalizer = RunningNormalizer((2,))
    normalizer.observe(torch.tensor([[1.0, 2.0], [float("nan"), 0.0], [float("inf"), 0.0]]))
    assert normalizer.count.item() == 1
    assert torch.equal(normalizer.mean, torch.tensor([1.0, 2.0], dtype=torch.float64))


def test_only_float_parts_of_active_rows_are_observed() -> None:
    parts = {"a.b": Part((2,)), "bytes": Part((3,), "uint8"), "index": Part((), "int64")}
    vector = Vector(parts, normalize=True, clip=10.0)
    obs = {
        "a.b": torch.arange(12.0).view(2, 3, 2),
        "bytes": torch.full((2, 3, 3), 255, dtype=torch.uint8),
        "index": torch.ones(2, 3, dtype=torch.int64),
    }
    active = torch.tensor([[True, False, False], [False, False, True]])
    vector.observe(obs, active)
    assert set(vector.state_dict()) == {
        f"normalizers.a_b.{name}" for name in ("mean", "variance", "count")
    }
    flat = vector({name: part.flatten(0, 1) for name, part in obs.items()})
    torch.testing.assert_close(flat[0], torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0, 1.0]))
    torch.testing.assert_close(flat[5], torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))

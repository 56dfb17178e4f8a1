from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.learn.minibatches import RolloutBatches, deal, shuffled
from tests.learn.fakes import generator, random_rollout

CPU = torch.device("cpu")


@settings(max_examples=60)
@given(count=st.integers(0, 100), size=st.integers(1, 40), seed=st.integers(0, 999))
def test_everything_is_dealt_once_in_nearly_equal_shares(count: int, size: int, seed: int) -> None:
    parts = deal(np.arange(count), generator(seed), size=size)
    dealt = [int(item) for part in parts for item in part]
    assert sorted(dealt) == list(range(count))
    assert all(len(part) <= size for part in parts)
    assert len({len(part) for part in parts}) <= 2
    assert len(parts) == -(-count // size)


@pytest.mark.parametrize("whole", [False, True])
def test_a_minibatch_keeps_facts_beside_their_steps(*, whole: bool) -> None:
    rollout = random_rollout(0, hidden=2 if whole else 0)
    # The first number of the observation and the fact are the same, wherever they end up.
    batches = RolloutBatches.of(rollout, [rollout.obs["x"][..., 0]], CPU, whole=whole)
    seen = 0
    for group in shuffled(batches, generator(1), minibatch_size=16, accumulate=2):
        for columns in group:
            minibatch = batches.take(columns)
            assert minibatch.sequences.started.numel() <= 16
            picked = minibatch.pick(minibatch.sequences.obs["x"][..., 0])
            assert torch.equal(picked, minibatch.facts[0])
            seen += len(picked)
    assert seen == rollout.trainable.sum()


def test_single_steps_hold_only_what_is_learned_from() -> None:
    rollout = random_rollout(0)
    batches = RolloutBatches.of(rollout, [rollout.reward], CPU, whole=False)
    for group in shuffled(batches, generator(1), minibatch_size=16, accumulate=1):
        assert all(batches.take(columns).trainable is None for columns in group)


def test_sequences_bring_the_memory_before_their_first_step() -> None:
    rollout = random_rollout(0, hidden=2)
    batches = RolloutBatches.of(rollout, [rollout.reward], CPU, whole=True)
    minibatch = batches.take(np.array([5]))  # the second chunk of row 1
    assert torch.equal(minibatch.sequences.memory["hidden"][0], rollout.memory["hidden"][1, 1])
    assert torch.equal(minibatch.sequences.obs["x"][:, 0], rollout.obs["x"][8:, 1])

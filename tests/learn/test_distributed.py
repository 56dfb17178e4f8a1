"""A team takes the steps that one learner takes alone."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.policy import Policy
from longhaul.learn.config import OnPolicyConfig, PPOConfig, VTraceConfig
from longhaul.learn.minibatches import SINGLE, LearnerGroup, mean_by, normalized_by
from longhaul.learn.ppo import PPO
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import generator, make_policy, random_rollout, settings_for

PATIENCE = 30.0  # seconds until a team that waits for each other in vain fails
LEARNERS: dict[str, type[PPO] | type[VTrace]] = {
    "ppo": PPO,
    "vtrace": VTrace,
}


@dataclass
class Table:
    """Where the members of a team of threads lay down what they add up."""

    size: int
    laid: dict[int, list[Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=PATIENCE)


@dataclass
class Member(LearnerGroup):
    """One of a team of threads."""

    rank: int
    table: Table

    @property
    def size(self) -> int:
        return self.table.size

    def part(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array_split(items, self.size)[self.rank]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        self.table.laid[self.rank] = [tensor.detach().clone() for tensor in tensors]
        self.table.barrier.wait()
        everyone = [self.table.laid[rank] for rank in range(self.size)]
        sums = [torch.stack(same).sum(0) for same in zip(*everyone, strict=True)]
        self.table.barrier.wait()
        with torch.no_grad():
            for tensor, total in zip(tensors, sums, strict=True):
                tensor.copy_(total)


def together(size: int, work: Callable[[LearnerGroup], Tensor]) -> list[Tensor]:
    """Return what each member of a team makes of the same work."""
    table = Table(size)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, [Member(rank, table) for rank in range(size)]))


class Work:
    """What every member does: learn from the same rollouts, made before there are threads."""

    def __init__(self, config: OnPolicyConfig, *, memory: bool, rollouts: int = 2) -> None:
        self._config = config
        self._policy = make_policy(memory=memory)
        self._rollouts = [random_rollout(4 + k, hidden=16 * memory) for k in range(rollouts)]
        self.first = weights(self._policy)

    def __call__(self, group: LearnerGroup) -> Tensor:
        policy = copy.deepcopy(self._policy)
        learner = LEARNERS[self._config.algorithm](policy, self._config, generator())
        learner.join(group)
        for rollout in self._rollouts:
            learner.update(rollout, settings_for(self._config))
        return weights(policy)


def weights(policy: Policy) -> Tensor:
    return torch.cat([part.detach().flatten() for part in policy.parameters()])


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_team_learns_what_one_learner_does(*, algorithm: str, size: int, memory: bool) -> None:
    config = PPOConfig(
        algorithm=algorithm,
        n_epochs=2,
        minibatch_size=48,
        ent_coef=0.02,
        target_kl=1000.0,
    )
    work = Work(config, memory=memory)
    alone = work(SINGLE)
    found = together(size, work)
    for member in found[1:]:
        assert torch.equal(member, found[0]), "the members have the same weights, bit for bit"
    moved = float((alone - work.first).abs().max())
    assert moved > 1e-4
    assert torch.allclose(found[0], alone, rtol=0.0, atol=1e-3 * moved)


def test_a_minibatch_smaller_than_the_team_leaves_some_with_nothing_to_do() -> None:
    config = VTraceConfig(n_epochs=1, minibatch_size=16)  # single rows
    work = Work(config, memory=False, rollouts=1)
    alone = work(SINGLE)
    for member in together(3, work):
        assert torch.allclose(member, alone, rtol=0.0, atol=1e-5)


def test_advantages_are_normalized_over_the_whole_minibatch() -> None:
    advantage = torch.randn(11, generator=torch.Generator().manual_seed(1))

    def own(group: LearnerGroup) -> Tensor:
        rows = group.part(np.arange(11))
        return normalized_by(group, advantage[torch.from_numpy(rows)])

    assert torch.allclose(torch.cat(together(3, own)), normalized_by(SINGLE, advantage), atol=1e-6)


def test_a_mean_is_that_of_all_members() -> None:
    values = torch.arange(7.0)

    def own(group: LearnerGroup) -> Tensor:
        return torch.tensor(mean_by(group, values[torch.from_numpy(group.part(np.arange(7)))]))

    assert torch.equal(torch.stack(together(3, own)), torch.full((3,), 3.0))

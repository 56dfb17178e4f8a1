"""Rewards brought to a common scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.rollout import Rollout
from longhaul.core.state import State


@dataclass(slots=True)
class Moments:
    """Count, mean and sum of squared deviations of everything seen so far."""

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, numbers: NDArray[np.float64]) -> None:
        """Take more numbers into account, all at once (Chan et al. 1979)."""
        if numbers.size == 0:
            return
        mean = float(numbers.mean())
        squares = float(np.square(numbers - mean).sum())
        total = self.count + numbers.size
        distance = mean - self.mean
        self.squares += squares + distance**2 * self.count * numbers.size / total
        self.mean += distance * numbers.size / total
        self.count = total

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 before there is anything to measure."""
        if self.count < 2:
            return 1.0
        return float(np.sqrt(self.squares / self.count + 1e-8))


class RewardScale:
    """Divides rewards by the running deviation of the discounted return, then clips them."""

    def __init__(self, *, normalise: bool, clip: float) -> None:
        self._normalise = normalise
        self._clip = clip
        self._moments = Moments()
        self._running: NDArray[np.float64] = np.zeros(0)  # [N], the return so far of each row

    def scaled(self, rollout: Rollout, *, discount: float) -> Tensor:
        """Return the rollout's rewards [T, N] as the learner should see them."""
        if self._normalise:
            self._measure(rollout, discount)
        return self.applied(rollout.reward)

    def applied(self, reward: Tensor) -> Tensor:
        """Return rewards of any time on the present scale, which stays as it is."""
        if self._normalise:
            reward = reward / self._moments.deviation
        if self._clip > 0:
            reward = reward.clamp(-self._clip, self._clip)
        return reward

    def _measure(self, rollout: Rollout, discount: float) -> None:
        lost = rollout.lost.cpu().numpy()
        active = rollout.active.cpu().numpy() & ~lost
        reward = np.where(active, rollout.reward.cpu().numpy(), 0.0).astype(np.float64)
        ended = (rollout.terminated | rollout.truncated).cpu().numpy() | lost
        if len(self._running) != rollout.rows:  # a fleet of another size begins anew
            self._running = np.zeros(rollout.rows)
        returns = np.empty_like(reward)
        running = self._running
        # An inactive step is as if absent, so it does not discount what came before it.
        fade = np.where(active, discount, 1.0)
        for t in range(rollout.steps):
            running = running * fade[t] + reward[t]
            returns[t] = running
            running = np.where(ended[t], 0.0, running)
        self._running = running
        self._moments.add(returns[active])

    def state_dict(self) -> State:
        """Return the measured moments and each row's unfinished return."""
        return {
            "count": self._moments.count,
            "mean": self._moments.mean,
            "squares": self._moments.squares,
            "running": torch.from_numpy(self._running.copy()),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self._moments = Moments(state["count"], state["mean"], state["squares"])
        self._running = torch.as_tensor(state["running"]).numpy().copy()

"""Catches numbers that are not finite before they reach the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from longhaul.core.errors import NumericalError
from longhaul.core.rollout import Rollout
from longhaul.core.state import State
from longhaul.learn.config import LearnConfig

_BACK_OFF = 0.5
_RECOVERY = 1.1


class Guard:
    """Counts what went wrong and decides when to go back and when to stop."""

    def __init__(self, config: LearnConfig) -> None:
        self._max_bad_updates = config.max_bad_updates
        self._max_bad_rollouts = config.max_bad_rollouts
        self._bad_updates = 0
        self._bad_rollouts = 0
        self._fault = ""
        self.learning_rate_factor = 1.0

    def skip(self, fault: str) -> bool:
        """Note a skipped optimizer step; tell whether it was one too many."""
        self._fault = fault
        self._bad_updates += 1
        return self._bad_updates >= self._max_bad_updates

    def accept(self) -> None:
        """Note an optimizer step that was finite."""
        self._bad_updates = 0

    def fulfil(self) -> None:
        """Note a rollout that was learned from."""
        self._bad_rollouts = 0
        self.learning_rate_factor = min(1.0, self.learning_rate_factor * _RECOVERY)

    def roll_back(self, fault: str = "") -> None:
        """Note a rollout whose steps were undone, and stop the run after too many of them."""
        self.learning_rate_factor *= _BACK_OFF
        self._give_up(fault or self._fault, "lower learn.learning_rate or learn.max_grad_norm")

    def refuse(self, fault: str) -> None:
        """Note a rollout nothing can be learned from, and stop the run after too many of them."""
        self._give_up(fault, "see what the environment or the acting policy returned")

    def _give_up(self, fault: str, remedy: str) -> None:
        self._fault = fault
        self._bad_updates = 0
        self._bad_rollouts += 1
        if self._bad_rollouts >= self._max_bad_rollouts:
            raise NumericalError(
                f"{fault} was not finite in {self._bad_rollouts} rollouts in a row; "
                f"the weights are the last finite ones; {remedy}"
            )

    def state_dict(self) -> State:
        """Return the counts and the present back-off."""
        return {
            "bad_updates": self._bad_updates,
            "bad_rollouts": self._bad_rollouts,
            "fault": self._fault,
            "learning_rate_factor": self.learning_rate_factor,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self._bad_updates = state["bad_updates"]
        self._bad_rollouts = state["bad_rollouts"]
        self._fault = state["fault"]
        self.learning_rate_factor = state["learning_rate_factor"]


def rollout_fault(rollout: Rollout) -> str | None:
    """Name the first input of a rollout that is not finite where it matters, if there is one."""
    checks = {
        "the reward": (rollout.reward, rollout.active),
        "the recorded value": (rollout.value, rollout.active),
        "the recorded log-probability": (rollout.log_prob, rollout.trainable),
        **{
            f"the observation {name!r}": (part, rollout.active)
            for name, part in rollout.obs.items()
            if part.is_floating_point()
        },
    }
    for name, (tensor, matters) in checks.items():
        if not _finite(tensor) and not _finite(tensor[matters]):
            return name
    if not (_finite(rollout.truncations.value) and _finite(rollout.last.value)):
        return "the value of a last observation"
    return None


def gradient_fault(parameters: Iterable[tuple[str, nn.Parameter]]) -> str:
    """Name the first gradient that is not finite."""
    for name, parameter in parameters:
        if parameter.grad is not None and not _finite(parameter.grad):
            return f"the gradient of {name!r}"
    return "the length of the gradient"


def state_fault(tensors: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> str | None:
    """Name the first of these tensors that is not finite but was so before, if there is one."""
    if math.isfinite(total_norm(list(tensors.values()))):
        return None
    # A buffer may hold infinities by design, such as an attention mask.
    for name, tensor in tensors.items():
        if not _finite(tensor) and _finite(before[name]):
            return f"the weight {name!r}"
    return None


def total_norm(tensors: list[Tensor]) -> float:
    """Return the length of all tensors taken as one vector; waits for the device once."""
    if not tensors:
        return 0.0
    return math.hypot(*torch.stack(torch._foreach_norm(tensors)).tolist())


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())

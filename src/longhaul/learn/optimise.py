"""One optimizer step: AdamW, shortened gradients, and no step that is not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor, nn

from longhaul.core.errors import CheckpointError
from longhaul.core.policy import Policy
from longhaul.core.state import State
from longhaul.learn.config import LearnConfig
from longhaul.learn.guard import Guard, gradient_fault, state_fault, total_norm
from longhaul.learn.losses import Part
from longhaul.learn.metrics import Tally
from longhaul.learn.team import ALONE, Team, add_up_gradients


class AdamW:
    """AdamW whose state is named tensors; equal to `torch.optim.AdamW(fused=True)` bit for bit.

    It calls the same kernel without that class's bookkeeping, which for a small network costs
    as much again as the kernel, and shortens gradients inside it.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], config: LearnConfig) -> None:
        self.parameters = dict(parameters)
        self._config = config
        self.exp_avg = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.exp_avg_sq = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        # All counts in one tensor, so that counting is one operation as long as all weights move.
        device = next(iter(self.parameters.values())).device
        self._step_block = torch.zeros(len(self.parameters), device=device)
        self.steps = dict(zip(self.parameters, self._step_block.unbind(), strict=True))

    @torch.no_grad()
    def step(self, learning_rate: float, *, gradient_divisor: float) -> None:
        """Move the weights that have a gradient, divided by this much."""
        moved = [name for name, p in self.parameters.items() if p.grad is not None]
        if not moved:
            return
        weights: list[Tensor] = [self.parameters[name] for name in moved]
        steps = [self.steps[name] for name in moved]
        divisor = None
        if gradient_divisor != 1.0:
            divisor = torch.tensor(gradient_divisor, device=weights[0].device)
        if len(moved) == len(self.parameters):
            self._step_block.add_(1)
        else:
            torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            weights,
            [weight.grad for weight in weights if weight.grad is not None],
            [self.exp_avg[name] for name in moved],
            [self.exp_avg_sq[name] for name in moved],
            [],
            steps,
            amsgrad=False,
            lr=learning_rate,
            beta1=self._config.adam_beta1,
            beta2=self._config.adam_beta2,
            weight_decay=self._config.weight_decay,
            eps=self._config.adam_epsilon,
            maximize=False,
            grad_scale=divisor,
            found_inf=None,
        )

    def state_dict(self) -> State:
        """Return copies of the moments and step counts by parameter name."""
        return {
            kind: {name: tensor.clone() for name, tensor in tensors.items()}
            for kind, tensors in self._kinds().items()
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        for kind, tensors in self._kinds().items():
            saved = state[kind]
            if saved.keys() != tensors.keys():
                differing = sorted(saved.keys() ^ tensors.keys())
                raise CheckpointError(
                    f"the saved optimizer belongs to another policy: it differs in {differing[0]!r}"
                )
            for name, tensor in tensors.items():
                if tensor.shape != saved[name].shape:
                    raise CheckpointError(
                        f"the saved optimizer holds {name!r} as {tuple(saved[name].shape)}, "
                        f"the policy as {tuple(tensor.shape)}"
                    )
                tensor.copy_(saved[name])

    def _kinds(self) -> dict[str, dict[str, Tensor]]:
        return {"exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq, "step": self.steps}


@dataclass(frozen=True, slots=True)
class Pull:
    """One part of the loss, acting on one output of the policy."""

    name: str  # of the metric that shows it
    output: Tensor
    part: Part
    weight: float


class Descent:
    """Moves a policy's weights, and never by or to a number that is not finite."""

    def __init__(self, policy: Policy, config: LearnConfig) -> None:
        self._policy = policy
        self._max_grad_norm = config.max_grad_norm
        self._adam = AdamW(
            {name: p for name, p in policy.named_parameters() if p.requires_grad}, config
        )
        self.guard = Guard(config)
        self.team: Team = ALONE
        """Who else learns from the same minibatches; set before the first one."""
        self._updates = 0
        self._learning_rate = 0.0
        self._backup: dict[str, Tensor] = {}
        self.tally = Tally()
        self._weights: dict[str, float] = {}
        self._pulls: list[Pull] = []
        self._measures: list[Mapping[str, Tensor]] = []
        self._norms: list[float] = []
        self._skipped = 0
        self._is_lost = False

    def begin(self, learning_rate: float) -> None:
        """Start a rollout: keep the present state to return to, forget the last rollout's."""
        self._learning_rate = learning_rate * self.guard.learning_rate_factor
        self._norms, self._skipped, self._is_lost = [], 0, False
        self.tally, self._weights = Tally(), {}
        self._clear()
        present = self._tensors()
        if self._backup.keys() != present.keys():
            self._backup = {name: tensor.clone() for name, tensor in present.items()}
        else:
            torch._foreach_copy_(list(self._backup.values()), list(present.values()))

    def add(self, pulls: Sequence[Pull], measures: Mapping[str, Tensor]) -> None:
        """Add to the gradient of the next step; the measures are reported if it is taken."""
        felt = [pull for pull in pulls if pull.weight != 0 and pull.output.requires_grad]
        torch.autograd.backward(
            [pull.output for pull in felt], [pull.part.gradient for pull in felt]
        )
        self._pulls += pulls
        self._measures.append(measures)

    def step(self) -> bool:
        """Take a step along the collected gradient; tell whether to go on with this rollout."""
        parameters = self._adam.parameters
        add_up_gradients(self.team, list(parameters.values()))
        length = total_norm([p.grad for p in parameters.values() if p.grad is not None])
        if math.isfinite(length):
            limit = self._max_grad_norm
            divisor = length / limit if 0 < limit < length else 1.0
            self._adam.step(self._learning_rate, gradient_divisor=divisor)
            self._norms.append(length)
            self._updates += 1
            self.guard.accept()
            self._report()
        else:
            fault = _loss_fault(self._pulls) or gradient_fault(parameters.items())
            self._skipped += 1
            self._is_lost = self.guard.skip(fault)
        self._clear()
        return not self._is_lost

    def _report(self) -> None:
        for pull in self._pulls:
            self._weights[pull.name] = pull.weight
            self.tally.add(pull.name, pull.part.losses)
        for measures in self._measures:
            for name, tensor in measures.items():
                self.tally.add(name, tensor)

    def _clear(self) -> None:
        self._pulls, self._measures = [], []
        for parameter in self._adam.parameters.values():
            parameter.grad = None

    def finish(self) -> dict[str, float]:
        """End a rollout; roll back if too many steps or the weights themselves went wrong."""
        self._clear()
        metrics = {
            **self.tally.means(),
            "train/learning_rate": self._learning_rate,
            "fault/skipped_updates": float(self._skipped),
            "fault/rollbacks": 0.0,
        }
        if self._weights and self._weights.keys() <= metrics.keys():
            metrics["train/loss"] = sum(w * metrics[name] for name, w in self._weights.items())
        fault = None if self._is_lost else state_fault(self._floats(), self._backup)
        if self._is_lost or fault is not None:
            self._updates -= len(self._norms)
            present = self._tensors()
            torch._foreach_copy_(list(present.values()), list(self._backup.values()))
            self.guard.roll_back(fault or "")
            metrics["fault/rollbacks"] = 1.0
        elif self._norms:
            self.guard.fulfil()
            metrics["train/grad_norm"] = fmean(self._norms)
        metrics["train/n_updates"] = float(self._updates)
        return metrics

    def state_dict(self) -> State:
        """Return the weights, the optimizer's moments and the guard's counts."""
        return {
            "policy": {name: t.detach().clone() for name, t in self._policy.state_dict().items()},
            "optimizer": self._adam.state_dict(),
            "guard": self.guard.state_dict(),
            "updates": self._updates,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        try:
            self._policy.load_state_dict(state["policy"])
        except RuntimeError as error:
            raise CheckpointError(f"the saved weights belong to another policy: {error}") from error
        self._adam.load_state_dict(state["optimizer"])
        self.guard.load_state_dict(state["guard"])
        self._updates = state["updates"]

    def _tensors(self) -> dict[str, Tensor]:
        """Return everything a step or the policy's statistics may change, by name."""
        adam = self._adam
        return {
            **{name: p.detach() for name, p in adam.parameters.items()},
            **dict(self._policy.named_buffers()),
            **{f"mean gradient of {name}": t for name, t in adam.exp_avg.items()},
            **{f"mean squared gradient of {name}": t for name, t in adam.exp_avg_sq.items()},
            **{f"step count of {name}": t for name, t in adam.steps.items()},
        }

    def _floats(self) -> dict[str, Tensor]:
        return {name: t for name, t in self._tensors().items() if t.is_floating_point()}


def _loss_fault(pulls: Sequence[Pull]) -> str:
    """Name the parts of the loss that are not finite; the empty string if all are."""
    broken = {pull.name: None for pull in pulls if not bool(torch.isfinite(pull.part.losses).all())}
    return " and ".join(broken)

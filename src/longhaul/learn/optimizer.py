"""AdamW behind a guard: gradients are clipped, and no step that is not finite is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor, nn

from longhaul.core.errors import CheckpointError, NumericalError
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.state import State
from longhaul.learn.config import OnPolicyConfig
from longhaul.learn.losses import Loss, LossTerm
from longhaul.learn.minibatches import SINGLE, LearnerGroup, add_up_gradients

_BACK_OFF = 0.5
_RECOVERY = 1.1
_SAVED = ("bad_updates", "bad_rollouts", "fault", "learning_rate_factor")


class Tally:
    """Collects measurements of one rollout's minibatches and averages them once, at the end.

    Averaging per minibatch would take several small operations per metric and wait for the device.
    """

    def __init__(self) -> None:
        self._measured: dict[str, list[Tensor]] = {}
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, name: str, measured: Tensor) -> None:
        """Add measurements of a metric: one, or one per step."""
        self._measured.setdefault(name, []).append(measured.reshape(-1))

    def add_sum(self, name: str, total: float, count: int) -> None:
        """Add the sum of so many measurements of a metric."""
        before, counted = self._sums.get(name, (0.0, 0))
        self._sums[name] = before + total, counted + count

    def forget(self, name: str) -> None:
        """Drop the measurements of a metric."""
        self._measured.pop(name, None)
        self._sums.pop(name, None)

    def means(self) -> dict[str, float]:
        """Return the mean of each metric; one that is not finite is absent."""
        means: dict[str, float] = {}
        if self._measured:
            found = [torch.cat(parts).float().mean() for parts in self._measured.values()]
            means = dict(zip(self._measured, torch.stack(found).tolist(), strict=True))
        for name, (total, count) in self._sums.items():
            others = sum(part.numel() for part in self._measured.get(name, ()))
            mean = means.get(name, 0.0)
            means[name] = (total + mean * others) / max(count + others, 1)
        return {name: mean for name, mean in means.items() if math.isfinite(mean)}


class AdamW:
    """AdamW whose state is named tensors; equal to `torch.optim.AdamW(fused=True)` bit for bit.

    It calls the same kernel without that class's bookkeeping, which for a small network costs
    as much again as the kernel, and clips gradients inside it.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], config: OnPolicyConfig) -> None:
        self.parameters = dict(parameters)
        self._config = config
        self.exp_avg = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.exp_avg_sq = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        # All counts in one tensor: counting is one operation as long as all weights move.
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
                    f"the saved optimizer is for a different policy: it differs in {differing[0]!r}"
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


class GuardedOptimizer:
    """Moves a policy's weights, never by or to a number that is not finite."""

    def __init__(self, policy: Policy, config: OnPolicyConfig) -> None:
        self._policy = policy
        self._max_grad_norm = config.max_grad_norm
        self.adam = AdamW(
            {name: p for name, p in policy.named_parameters() if p.requires_grad}, config
        )
        self.guard = UpdateGuard(config)
        self.group: LearnerGroup = SINGLE
        """Who else learns from the same minibatches; set before the first one."""
        self._updates = 0
        self.learning_rate = 0.0
        """Of this rollout's steps, reduced after a rollback."""
        self._backup: dict[str, Tensor] = {}
        self.tally = Tally()
        self._weights: dict[str, float] = {}
        self._terms: list[LossTerm] = []
        self._measures: list[Mapping[str, Tensor]] = []
        self._norms: list[float] = []
        self._skipped = 0
        self._is_lost = False

    def refuse(self, fault: str) -> Metrics:
        """Record a rollout with invalid numbers; return the metrics that report it."""
        self.guard.refuse(fault)
        return {"fault/skipped_updates": 1.0, "fault/rollbacks": 0.0}

    def begin(self, learning_rate: float) -> None:
        """Start a rollout: back up the present state, clear the last rollout's measurements."""
        self.learning_rate = learning_rate * self.guard.learning_rate_factor
        self._norms, self._skipped, self._is_lost = [], 0, False
        self.tally, self._weights = Tally(), {}
        self._clear()
        present = self._tensors()
        if self._backup.keys() != present.keys():
            self._backup = {name: tensor.clone() for name, tensor in present.items()}
        else:
            torch._foreach_copy_(list(self._backup.values()), list(present.values()))

    def record(self, loss: Loss, measures: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Keep a loss whose gradient was added, to report it if the next step is taken.

        Return the measures.
        """
        self._terms += loss.terms
        self._measures.append(measures)
        return measures

    def step(self) -> bool:
        """Take a step along the collected gradient; return whether to go on with this rollout."""
        parameters = self.adam.parameters
        add_up_gradients(self.group, list(parameters.values()))
        length = total_norm([p.grad for p in parameters.values() if p.grad is not None])
        if math.isfinite(length):
            limit = self._max_grad_norm
            divisor = length / limit if 0 < limit < length else 1.0
            self.adam.step(self.learning_rate, gradient_divisor=divisor)
            self._norms.append(length)
            self._updates += 1
            self.guard.accept()
            self._report()
        else:
            fault = loss_fault(self._terms) or gradient_fault(parameters.items())
            self._skipped += 1
            self._is_lost = self.guard.skip(fault)
        self._clear()
        return not self._is_lost

    def accept(self, norms: Sequence[float], weights: Mapping[str, float]) -> None:
        """Record steps that were taken elsewhere: gradient norms and the weights of the terms."""
        self._norms += norms
        self._updates += len(norms)
        self._weights |= weights
        if norms:
            self.guard.accept()

    def _report(self) -> None:
        for term in self._terms:
            self._weights[term.name] = term.weight
            self.tally.add(term.name, term.losses)
        for measures in self._measures:
            for name, tensor in measures.items():
                self.tally.add(name, tensor)

    def _clear(self) -> None:
        self._terms, self._measures = [], []
        for parameter in self.adam.parameters.values():
            parameter.grad = None

    def finish(self) -> dict[str, float]:
        """End a rollout; roll back after too many skipped steps or if a weight is not finite."""
        self._clear()
        metrics = {
            **self.tally.means(),
            "train/learning_rate": self.learning_rate,
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
            self.guard.fulfill()
            metrics["train/grad_norm"] = fmean(self._norms)
        metrics["train/n_updates"] = float(self._updates)
        return metrics

    def state_dict(self) -> State:
        """Return the weights, the optimizer's moments and the guard's counts."""
        return {
            "policy": {name: t.detach().clone() for name, t in self._policy.state_dict().items()},
            "optimizer": self.adam.state_dict(),
            "guard": self.guard.state_dict(),
            "updates": self._updates,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        try:
            self._policy.load_state_dict(state["policy"])
        except RuntimeError as error:
            raise CheckpointError(
                f"the saved weights are for a different policy: {error}"
            ) from error
        self.adam.load_state_dict(state["optimizer"])
        self.guard.load_state_dict(state["guard"])
        self._updates = state["updates"]

    def _tensors(self) -> dict[str, Tensor]:
        """Return everything a step or the policy's statistics may change, by name."""
        adam = self.adam
        return {
            **{name: p.detach() for name, p in adam.parameters.items()},
            **dict(self._policy.named_buffers()),
            **{f"mean gradient of {name}": t for name, t in adam.exp_avg.items()},
            **{f"mean squared gradient of {name}": t for name, t in adam.exp_avg_sq.items()},
            **{f"step count of {name}": t for name, t in adam.steps.items()},
        }

    def _floats(self) -> dict[str, Tensor]:
        return {name: t for name, t in self._tensors().items() if t.is_floating_point()}


class UpdateGuard:
    """Counts faults and decides when to roll back and when to stop."""

    def __init__(self, config: OnPolicyConfig) -> None:
        self._config = config
        self.bad_updates = 0
        self.bad_rollouts = 0
        self.fault = ""
        self.learning_rate_factor = 1.0

    def skip(self, fault: str) -> bool:
        """Count a skipped optimizer step; return whether it was one too many."""
        self.fault = fault
        self.bad_updates += 1
        return self.bad_updates >= self._config.max_bad_updates

    def accept(self) -> None:
        """Record a finite optimizer step."""
        self.bad_updates = 0

    def fulfill(self) -> None:
        """Record a rollout that was learned from."""
        self.bad_rollouts = 0
        self.learning_rate_factor = min(1.0, self.learning_rate_factor * _RECOVERY)

    def roll_back(self, fault: str = "") -> None:
        """Record a rollout whose steps were undone; stop the run after too many of them."""
        self.learning_rate_factor *= _BACK_OFF
        self._give_up(fault or self.fault, "lower learn.learning_rate or learn.max_grad_norm")

    def refuse(self, fault: str) -> None:
        """Record a rollout with invalid numbers; stop the run after too many of them."""
        self._give_up(fault, "see what the environment or the acting policy returned")

    def _give_up(self, fault: str, remedy: str) -> None:
        self.fault = fault
        self.bad_updates = 0
        self.bad_rollouts += 1
        if self.bad_rollouts >= self._config.max_bad_rollouts:
            raise NumericalError(
                f"{fault} was not finite in {self.bad_rollouts} rollouts in a row; "
                f"the weights are the last finite ones; {remedy}"
            )

    def state_dict(self) -> State:
        """Return the counts and the present back-off."""
        return {name: getattr(self, name) for name in _SAVED}

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        for name in _SAVED:
            setattr(self, name, state[name])


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


def loss_fault(terms: Iterable[LossTerm]) -> str:
    """Name the terms of the loss that are not finite; the empty string if all are."""
    return " and ".join(dict.fromkeys(t.name for t in terms if not _finite(t.losses)))


def gradient_fault(parameters: Iterable[tuple[str, nn.Parameter]]) -> str:
    """Name the first gradient that is not finite."""
    for name, parameter in parameters:
        if parameter.grad is not None and not _finite(parameter.grad):
            return f"the gradient of {name!r}"
    return "the norm of the gradient"


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
    """Return the norm of all tensors as one vector; waits for the device once."""
    if not tensors:
        return 0.0
    return math.hypot(*torch.stack(torch._foreach_norm(tensors)).tolist())


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())

"""Teachers: players whose choices a policy learns to make, beside or before its own reward.

A teacher gives each observation a distribution q over the choices; pi is the policy that learns:

    loss += c KL(q || pi) = c mean of sum_a q(a|s) (log q(a|s) - log pi(a|s))

c is the setting `learn.teacher_coef`. With `learn.teacher_policy_coef` at 0, which leaves the
algorithm's policy gradient out, that is cloning on the states the learner itself comes to (Ross,
Gordon and Bagnell 2011); with both, and c falling, it is kickstarting (Schmitt et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from longhaul.core.policy import Policy
from longhaul.core.rollout import Memory, Rollout, TensorTree, clear_started
from longhaul.core.settings import Settings
from longhaul.core.state import State, Stateful
from longhaul.learn.losses import LossTerm

Script = Callable[[TensorTree, Tensor | None], Tensor]
"""Returns probabilities [n, choices] for observations [n, ...] and a mask [n, choices]."""
Covers = Callable[[TensorTree], Tensor]
"""Returns about which observations [n] a teacher may be asked."""
NAME = "train/teacher_kl"


class Teacher(Stateful, Protocol):
    """Gives a distribution over the choices for every step of a rollout."""

    @property
    def recurrent(self) -> bool:
        """Whether it must see every rollout, for it remembers."""

    def probabilities(self, rollout: Rollout) -> Tensor:
        """Return q [T, N, choices]; a row of zeros where it has no opinion."""


class SingleTeacher(Teacher, Protocol):
    """One player, which may be asked about a part of a rollout."""

    def answer(self, obs: TensorTree, mask: Tensor | None) -> Tensor:
        """Return q [n, choices] for observations that follow nothing."""


def flattened(rollout: Rollout) -> tuple[TensorTree, Tensor | None]:
    """Return the observations and masks of a rollout as [T * N, ...]."""
    mask = None if rollout.mask is None else rollout.mask.flatten(0, 1)
    return {name: part.flatten(0, 1) for name, part in rollout.obs.items()}, mask


class ScriptTeacher:
    """A player without weights, which the task brings."""

    recurrent = False

    def __init__(self, script: Script) -> None:
        self._script = script

    def probabilities(self, rollout: Rollout) -> Tensor:
        """Return what the script would do in each step."""
        return self.answer(*flattened(rollout)).view(rollout.steps, rollout.rows, -1)

    def answer(self, obs: TensorTree, mask: Tensor | None) -> Tensor:
        """Return what the script would do."""
        return self._script(obs, mask).float()

    def state_dict(self) -> State:
        """Return nothing: a script remembers nothing."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Continue; there is nothing to restore."""


class PolicyTeacher:
    """A trained policy. Its memory, if it has one, follows the rows of the rollouts."""

    def __init__(self, policy: Policy, settings: Settings, counts: tuple[int, ...]) -> None:
        self._policy = policy.eval().requires_grad_(requires_grad=False)
        self._settings = settings
        self._counts = counts
        self._memory: Memory = {}

    @property
    def recurrent(self) -> bool:
        """Whether the policy has a memory."""
        return self._policy.recurrent

    @torch.no_grad()
    def probabilities(self, rollout: Rollout) -> Tensor:
        """Return the policy's probabilities in each step."""
        if not self._policy.recurrent:
            return self.answer(*flattened(rollout)).view(rollout.steps, rollout.rows, -1)
        if not self._memory:
            self._memory = self._policy.initial_state(rollout.rows)
        found = []
        for step in range(rollout.steps):
            self._memory = clear_started(self._memory, rollout.started[step])
            obs = {name: part[step] for name, part in rollout.obs.items()}
            mask = None if rollout.mask is None else rollout.mask[step]
            said, self._memory = self._ask(obs, self._memory, mask)
            found.append(said)
        return torch.stack(found)

    @torch.no_grad()
    def answer(self, obs: TensorTree, mask: Tensor | None) -> Tensor:
        """Return the policy's probabilities; its memory is that of a first step."""
        memory = self._policy.initial_state(len(next(iter(obs.values()))))
        return self._ask(obs, memory, mask)[0]

    def _ask(self, obs: TensorTree, memory: Memory, mask: Tensor | None) -> tuple[Tensor, Memory]:
        act = self._policy.act(obs, memory, self._settings, mask=mask)
        assert act.logits is not None, "policies of discrete choices give logits"
        parts = act.logits.split(self._counts, 1)
        return torch.cat([torch.softmax(part, 1) for part in parts], 1), act.memory

    def state_dict(self) -> State:
        """Return the memory."""
        return {"memory": {name: part.clone() for name, part in self._memory.items()}}

    def load_state_dict(self, state: State) -> None:
        """Continue with a saved memory."""
        self._memory = dict(state["memory"])


class TeacherGroup:
    """Several teachers; the first one that covers an observation is asked about it."""

    def __init__(self, teachers: Sequence[tuple[SingleTeacher, Covers]], choices: int) -> None:
        self._teachers = tuple(teacher for teacher, _ in teachers)
        self._covers = tuple(covers for _, covers in teachers)
        self._choices = choices

    @property
    def recurrent(self) -> bool:
        """Whether one of them remembers."""
        return any(teacher.recurrent for teacher in self._teachers)

    def probabilities(self, rollout: Rollout) -> Tensor:
        """Return what each step's teacher says; zeros where none covers it."""
        obs, mask = flattened(rollout)
        first = next(iter(obs.values()))
        result = torch.zeros(len(first), self._choices, device=first.device)
        is_open = torch.ones(len(first), dtype=torch.bool, device=first.device)
        for teacher, covers in zip(self._teachers, self._covers, strict=True):
            rows = torch.nonzero(covers(obs) & is_open).squeeze(1)
            is_open[rows] = False
            if teacher.recurrent:
                # Its memory needs every step, also those that others are asked about.
                result[rows] = teacher.probabilities(rollout).flatten(0, 1)[rows]
            elif len(rows):
                own = {name: part[rows] for name, part in obs.items()}
                result[rows] = teacher.answer(own, None if mask is None else mask[rows])
        return result.view(rollout.steps, rollout.rows, -1)

    def state_dict(self) -> State:
        """Return the teachers' states."""
        return {str(number): one.state_dict() for number, one in enumerate(self._teachers)}

    def load_state_dict(self, state: State) -> None:
        """Continue from saved states."""
        for number, one in enumerate(self._teachers):
            one.load_state_dict(state[str(number)])


@dataclass(frozen=True, slots=True)
class Lessons:
    """A teacher as a learner uses it."""

    teacher: Teacher
    counts: tuple[int, ...]
    smoothing: float = 0.0
    """Share of the probability that is spread evenly over what the mask leaves open."""

    def of(self, rollout: Rollout) -> Tensor:
        """Return q [T, N, choices] of a rollout, smoothed."""
        said = self.teacher.probabilities(rollout)
        if self.smoothing == 0:
            return said
        allowed = torch.ones_like(said) if rollout.mask is None else rollout.mask.to(said)
        parts = []
        for part, free in zip(
            said.split(self.counts, 2), allowed.split(self.counts, 2), strict=True
        ):
            has_opinion = part.sum(2, keepdim=True)
            even = free / free.sum(2, keepdim=True).clamp(min=1) * has_opinion
            parts.append((1 - self.smoothing) * part + self.smoothing * even)
        return torch.cat(parts, 2)

    def term(self, said: Tensor, logits: Tensor) -> LossTerm:
        """Return KL(q || pi) for q [n, choices] and the policy's masked logits [n, choices]."""
        divergence = logits.new_zeros(())
        for part, own in zip(said.split(self.counts, 1), logits.split(self.counts, 1), strict=True):
            log_probs = torch.log_softmax(own, 1)
            # A product with 0 is 0 for the forbidden, whose logarithm is finite but large.
            divergence = divergence + (torch.xlogy(part, part) - part * log_probs).sum(1).mean()
        return LossTerm.of(NAME, divergence)

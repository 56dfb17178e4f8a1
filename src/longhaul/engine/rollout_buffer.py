"""The buffer that records one rollout."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from longhaul.core.env import (
    Array,
    Bools,
    EnvEvent,
    Episode,
    Finals,
    Step,
    VectorEnv,
    empty_actions,
)
from longhaul.core.policy import Act, Policy
from longhaul.core.rollout import Bootstrap, Memory, Rollout, TensorTree
from longhaul.core.settings import Settings


class RolloutBuffer:
    """Arrays for T steps of N rows, written step by step.

    Tensors and arrays share their memory: writing a NumPy row costs a fraction of a tensor one.
    The tensors are made outside inference mode, as the learner needs them.
    """

    def __init__(
        self, env: VectorEnv, memory: Memory, *, steps: int, chunk: int, device: torch.device
    ) -> None:
        self._device = device
        self._slots = slots = env.slots
        rows = env.rows
        self._chunk = chunk
        self._obs = {
            name: np.empty((steps, *part.shape), part.dtype) for name, part in slots.obs.items()
        }
        self._obs_tensor = {name: torch.from_numpy(part) for name, part in self._obs.items()}
        action = empty_actions(env.spec, rows)
        self._action = np.empty((steps, *action.shape), action.dtype)
        self._numbers = np.empty((3, steps, rows), np.float32)
        self._flags = np.empty((6, steps, rows), np.bool_)
        self._mask = None if slots.mask is None else np.empty((steps, *slots.mask.shape), np.bool_)
        self._mask_tensor = None if self._mask is None else torch.from_numpy(self._mask)
        self._memory = {
            name: torch.empty((steps // chunk, *part.shape), dtype=part.dtype)
            for name, part in memory.items()
        }
        self._episodes: list[Episode] = []
        self._events: list[EnvEvent] = []
        self._truncations: list[tuple[Array, Array, dict[str, Array], Memory]] = []
        self._terms = dict.fromkeys(slots.terms, 0.0)

    def before(self, step: int, memory: Memory) -> tuple[TensorTree, Tensor | None]:
        """Write down what the policy is about to see, and return it as tensors."""
        slots = self._slots
        for name, part in slots.obs.items():
            self._obs[name][step] = part
        self._flags[0, step] = slots.started
        self._flags[1, step] = slots.active
        mask = None
        if self._mask is not None and self._mask_tensor is not None:
            self._mask[step] = slots.mask
            mask = self._mask_tensor[step].to(self._device)
        if memory and step % self._chunk == 0:
            for name, kept in memory.items():
                self._memory[name][step // self._chunk] = kept
        seen = {name: part[step].to(self._device) for name, part in self._obs_tensor.items()}
        return seen, mask

    def after(self, step: int, act: Act, result: Step) -> None:
        """Write down what was done and what came of it."""
        slots = self._slots
        self._action[step] = act.action.cpu().numpy()
        self._numbers[0, step] = act.log_prob.cpu().numpy()
        self._numbers[1, step] = act.value.cpu().numpy()
        self._numbers[2, step] = slots.reward
        self._flags[2, step] = slots.terminated
        self._flags[3, step] = slots.truncated
        self._flags[4, step] = slots.forced
        self._flags[5, step] = slots.lost
        if result.episodes:
            self._episodes.extend(result.episodes)
        if result.events:
            self._events.extend(result.events)
        if result.finals is not None:
            steps = np.full(len(result.finals.rows), step)
            self._keep_truncated(steps, result.finals, act.memory)
        for name, term in slots.terms.items():
            self._terms[name] += float(term[self._flags[1, step]].sum(dtype=np.float64))

    def _keep_truncated(self, steps: Array, finals: Finals, memory: Memory) -> None:
        """Keep the last observations of rows that were cut; `steps` holds the step of each."""
        cut = self._flags[3, steps, finals.rows] & ~self._flags[2, steps, finals.rows]
        if not cut.any():
            return
        rows = finals.rows[cut]
        index = torch.from_numpy(rows).to(self._device)
        self._truncations.append(
            (
                steps[cut],
                rows,
                {name: part[cut] for name, part in finals.obs.items()},
                {name: part[index] for name, part in memory.items()},
            )
        )

    def finish(
        self, policy: Policy, memory: Memory, settings: Settings, *, noise_seed: int
    ) -> Rollout:
        """Return the rollout; `memory` is the policy's after the last step."""
        _spread_losses(self._flags)
        started, active, terminated, truncated, forced, lost = torch.from_numpy(self._flags)
        # A forced action was certain: log 1 = 0.
        self._numbers[0][self._flags[4]] = 0.0
        log_prob, value, reward = torch.from_numpy(self._numbers)
        steps, rows = reward.shape
        last_obs = {name: torch.from_numpy(part.copy()) for name, part in self._slots.obs.items()}
        return Rollout(
            obs=self._obs_tensor,
            action=torch.from_numpy(self._action),
            log_prob=log_prob,
            value=value,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            started=started,
            active=active,
            forced=forced,
            lost=lost,
            mask=self._mask_tensor,
            memory=self._memory,
            chunk=self._chunk,
            truncations=self._bootstrap_truncations(policy, settings),
            last=_bootstrap(
                policy,
                settings,
                step=torch.full((rows,), steps - 1),
                row=torch.arange(rows),
                obs=last_obs,
                memory=memory,
            ),
            episodes=tuple(self._episodes),
            terms=self._terms,
            noise_seed=noise_seed,
            env_steps=int((active & ~lost).sum()),
            events=tuple(self._events),
        )

    def _bootstrap_truncations(self, policy: Policy, settings: Settings) -> Bootstrap:
        kept = self._truncations
        if not kept:
            nothing = torch.empty(0, dtype=torch.int64)
            return Bootstrap(nothing, nothing, {}, {}, torch.empty(0))
        steps = np.concatenate([steps for steps, _, _, _ in kept])
        rows = np.concatenate([rows for _, rows, _, _ in kept])
        order = np.lexsort((rows, steps))
        index = torch.from_numpy(order).to(self._device)
        return _bootstrap(
            policy,
            settings,
            step=torch.from_numpy(steps[order]),
            row=torch.from_numpy(rows[order]),
            obs={
                name: torch.from_numpy(np.concatenate([obs[name] for _, _, obs, _ in kept])[order])
                for name in self._obs
            },
            memory={
                name: torch.cat([memory[name] for _, _, _, memory in kept])[index]
                for name in self._memory
            },
        )


def _spread_losses(flags: Bools) -> None:
    """Mark the steps before a loss that a row spent away, and the one after which it went away.

    The outcome of that one would have been the observation the row came back to, and there was
    none. All other steps before a loss have theirs: the lost step's own observation.
    """
    _, active, terminated, truncated, _, lost = flags
    if not lost.any():
        return
    ended = terminated | truncated
    for step in range(len(lost) - 1, 0, -1):
        lost[step - 1] |= lost[step] & ~active[step] & ~ended[step - 1]


def _bootstrap(
    policy: Policy,
    settings: Settings,
    *,
    step: Tensor,
    row: Tensor,
    obs: TensorTree,
    memory: Memory,
) -> Bootstrap:
    device = next(policy.parameters()).device
    kept = {name: part.clone() for name, part in memory.items()}
    with torch.no_grad():
        value = policy.value({name: o.to(device) for name, o in obs.items()}, kept, settings)
    return Bootstrap(step=step, row=row, obs=obs, memory=kept, value=value.cpu())

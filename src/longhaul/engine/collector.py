"""Stepping a vector env with a policy and recording the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import NotRequired, TypedDict, Unpack

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
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Act, Policy
from longhaul.core.rollout import Bootstrap, Memory, Rollout, TensorTree, clear_started
from longhaul.core.seeds import Seeds, generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.acting import Actor, PolicyActor
from longhaul.engine.summary import EnvTimes, StepTimes
from longhaul.runs.monitor.stalls import ProgressSignal


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
        self._measures = {name: np.zeros((steps, rows), np.float32) for name in slots.measures}

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
        for name, measure in slots.measures.items():
            self._measures[name][step] = measure

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
            measures={name: torch.from_numpy(part) for name, part in self._measures.items()},
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


class RolloutShape(TypedDict):
    """The length of a rollout, and what takes part in it."""

    steps: int
    chunk: int
    """Steps of the sequences it is cut into; 0 for one of the whole length."""
    signal: NotRequired[ProgressSignal]
    """Reports its steps."""
    actor: NotRequired[Actor]
    """Acts in the policy's place."""


class RolloutCollector:
    """Collects rollouts with the present weights of the policy."""

    def __init__(
        self, env: VectorEnv, policy: Policy, seeds: Seeds, **rollout: Unpack[RolloutShape]
    ) -> None:
        self.env = env
        self.policy = policy
        self._steps = rollout["steps"]
        self._chunk = rollout["chunk"] or self._steps
        self._device = next(policy.parameters()).device
        self._actor = rollout.get("actor") or PolicyActor(policy, seeds)
        self._noise = seeds.generator("collect", "noise")
        self._memory: Memory = policy.initial_state(env.rows)
        self._begun = False
        self.step_times = StepTimes()
        self._env_times = EnvTimes(env)
        self._signal = rollout.get("signal") or ProgressSignal()

    def draw_apart(self, seeds: Seeds, *stream: int) -> None:
        """Draw actions from a separate stream, as one collector of several.

        The parameter noise stays the same for all of them.
        """
        self._actor.draw_apart(seeds, *stream)

    def collect(self, settings: Settings) -> Rollout:
        """Return the next rollout."""
        dealt_before = self.env.starts_used
        self.env.configure(settings)
        if not self._begun:
            self.env.reset()
            self._begun = True
        noise_seed = int(self._noise.integers(2**31))
        self.policy.set_noise(noise_seed)
        self._actor.begin()
        tape = self._record(settings)
        rollout = tape.finish(self.policy, self._present_memory(), settings, noise_seed=noise_seed)
        return replace(rollout, starts_dealt=self.env.starts_used - dealt_before)

    def _record(self, settings: Settings) -> RolloutBuffer:
        """Act for a whole rollout and return the record of it."""
        tape = RolloutBuffer(
            self.env, self._memory, steps=self._steps, chunk=self._chunk, device=self._device
        )
        with torch.inference_mode():
            for step in range(self._steps):
                self._advance(tape, step, settings)
        return tape

    def _advance(self, tape: RolloutBuffer, step: int, settings: Settings) -> None:
        memory = self._present_memory()
        obs, mask = tape.before(step, memory)
        act = self._actor.act(obs, memory, settings, mask)
        self._memory = act.memory
        action = act.action.cpu().numpy()
        self._signal.begin_step()
        began = self.step_times.clock()
        stepped = self.env.step(action)
        self.step_times.add(self.step_times.clock() - began)
        self._signal.end_step()
        tape.after(step, act, stepped)

    def _present_memory(self) -> Memory:
        """Return the memory with rows that begin an episode cleared."""
        started = self.env.slots.started
        if not self._memory or not started.any():
            return self._memory
        return clear_started(self._memory, torch.from_numpy(started).to(self._device))

    def timings(self) -> Metrics:
        """Return how long the environments' steps took since the last call."""
        return {**self.step_times.take(), **self._env_times.metrics()}

    def close(self) -> None:
        """End the environments."""
        self.env.close()

    def state_dict(self) -> State:
        """Return the environments' states, the memory and the generators."""
        return {
            "begun": self._begun,
            "env": self.env.state_dict() if self._begun else {},
            "memory": {name: part.clone() for name, part in self._memory.items()},
            "actions": self._actor.generator_state(),
            "noise": generator_state(self._noise),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue exactly where the saved collector stood."""
        self._begun = bool(state["begun"])
        if self._begun:
            self.env.load_state_dict(state["env"])
        self._memory = {name: part.to(self._device) for name, part in state["memory"].items()}
        self._actor.restore_generator(state["actions"])
        restore_generator(self._noise, state["noise"])

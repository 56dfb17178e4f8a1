"""Stepping a vector env with a policy and recording the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import NotRequired, TypedDict, Unpack

import torch

from longhaul.core.env import VectorEnv
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Memory, Rollout, clear_started
from longhaul.core.seeds import Seeds, generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.rollout_buffer import RolloutBuffer
from longhaul.engine.summary import EnvTimes, StepTimes
from longhaul.runs.monitor.stalls import ProgressSignal


class RolloutShape(TypedDict):
    """The length of a rollout, and the signal that reports its steps."""

    steps: int
    chunk: int
    """Steps of the sequences it is cut into; 0 for one of the whole length."""
    signal: NotRequired[ProgressSignal]


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
        self._actions = torch.Generator(self._device).manual_seed(
            seeds.integer("collect", "actions")
        )
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
        self._actions.manual_seed(seeds.integer("collect", "actions", *stream))

    def collect(self, settings: Settings) -> Rollout:
        """Return the next rollout."""
        dealt_before = self.env.starts_used
        self.env.configure(settings)
        if not self._begun:
            self.env.reset()
            self._begun = True
        noise_seed = int(self._noise.integers(2**31))
        self.policy.set_noise(noise_seed)
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
        act = self.policy.act(obs, memory, settings, mask=mask, generator=self._actions)
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
            "actions": self._actions.get_state(),
            "noise": generator_state(self._noise),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue exactly where the saved collector stood."""
        self._begun = bool(state["begun"])
        if self._begun:
            self.env.load_state_dict(state["env"])
        self._memory = {name: part.to(self._device) for name, part in state["memory"].items()}
        self._actions.set_state(state["actions"])
        restore_generator(self._noise, state["noise"])

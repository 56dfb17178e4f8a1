"""Collecting from environments that do not wait for each other."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.env import Arrivals, FirstComeEnv
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Act, Policy
from longhaul.core.rollout import Memory, Rollout, TensorTree, clear_started
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Assignment, Settings, SettingValue
from longhaul.core.state import State
from longhaul.engine.collector import RolloutBuffer, RolloutCollector, RolloutShape

Rows = NDArray[np.int64]


class AsyncRolloutBuffer(RolloutBuffer):
    """A record in which every row counts its steps separately.

    A row's steps follow each other without a gap: its sequence is the one it would have had in
    lockstep. Rows that took fewer steps are inactive for the rest of the rollout.
    """

    def __init__(
        self, env: FirstComeEnv, memory: Memory, *, steps: int, chunk: int, device: torch.device
    ) -> None:
        super().__init__(env, memory, steps=steps, chunk=chunk, device=device)
        self._steps = steps
        self._cursor = np.zeros(env.rows, np.int64)
        # Steps that are never written are evaluated too, though not learned from.
        for part in (*self._obs.values(), self._action, self._numbers, self._flags):
            part[...] = 0
        if self._mask is not None:
            self._mask[...] = True
        for kept in self._memory.values():
            kept.zero_()

    @property
    def is_full(self) -> bool:
        """Whether some row has taken all steps there is room for."""
        return bool((self._cursor >= self._steps).any())

    def see(self, rows: Rows, memory: Memory) -> tuple[TensorTree, Tensor | None]:
        """Write down what the policy is about to see in these rows, and return it as tensors.

        `memory` is that of these rows.
        """
        slots = self._slots
        at = self._cursor[rows]
        shown = {name: part[rows] for name, part in slots.obs.items()}
        for name, part in shown.items():
            self._obs[name][at, rows] = part
        self._flags[0][at, rows] = slots.started[rows]
        self._flags[1][at, rows] = slots.active[rows]
        mask = None
        if self._mask is not None and slots.mask is not None:
            allowed = slots.mask[rows]
            self._mask[at, rows] = allowed
            mask = torch.from_numpy(allowed).to(self._device)
        begins = np.flatnonzero(at % self._chunk == 0)
        if memory and begins.size:
            index = torch.from_numpy(begins).to(self._device)
            places = torch.from_numpy(at[begins] // self._chunk), torch.from_numpy(rows[begins])
            for name, kept in memory.items():
                self._memory[name][places] = kept[index].cpu()
        seen = {name: torch.from_numpy(part).to(self._device) for name, part in shown.items()}
        return seen, mask

    def acted(self, rows: Rows, act: Act) -> None:
        """Write down what was done in these rows."""
        at = self._cursor[rows]
        self._action[at, rows] = act.action.cpu().numpy()
        self._numbers[0][at, rows] = act.log_prob.cpu().numpy()
        self._numbers[1][at, rows] = act.value.cpu().numpy()

    def arrived(self, arrivals: Arrivals, memory: Memory) -> None:
        """Write down what came of it, beside the actions that led to it.

        `memory` is that of all rows, which has not changed since they acted.
        """
        rows, result, slots = arrivals.rows, arrivals.step, self._slots
        at = self._cursor[rows]
        self._numbers[2][at, rows] = slots.reward[rows]
        for flag, values in (
            (2, slots.terminated),
            (3, slots.truncated),
            (4, slots.forced),
            (5, slots.lost),
        ):
            self._flags[flag][at, rows] = values[rows]
        self._episodes.extend(result.episodes)
        self._events.extend(result.events)
        if result.finals is not None:
            self._keep_truncated(self._cursor[result.finals.rows], result.finals, memory)
        was_active = rows[self._flags[1][at, rows]]
        for name, term in slots.terms.items():
            self._terms[name] += float(term[was_active].sum(dtype=np.float64))
        for name, measure in slots.measures.items():
            self._measures[name][at, rows] = measure[rows]
        self._cursor[rows] += 1


class FirstComeCollector(RolloutCollector):
    """Acts in the envs that have answered, as soon as a share of all envs has.

    A rollout ends when the fastest row has taken its last step. Actions under way are waited for:
    none is left for the next policy, and a state can be saved between rollouts.
    """

    def __init__(
        self,
        env: FirstComeEnv,
        policy: Policy,
        seeds: Seeds,
        *,
        share: float,
        **rollout: Unpack[RolloutShape],
    ) -> None:
        super().__init__(env, policy, seeds, **rollout)
        self._envs = env
        self._share = share

    def _record(self, settings: Settings) -> RolloutBuffer:
        tape = AsyncRolloutBuffer(
            self._envs, self._memory, steps=self._steps, chunk=self._chunk, device=self._device
        )
        rows = np.arange(self.env.rows)
        with torch.inference_mode():
            while not tape.is_full:
                self._act(tape, rows, settings)
                self._signal.begin_step()
                arrivals = self._envs.gather(self._share)
                self._signal.end_step()
                tape.arrived(arrivals, self._memory)
                rows = arrivals.rows
            tape.arrived(self._envs.gather(1.0), self._memory)
        return tape

    def _act(self, tape: AsyncRolloutBuffer, rows: Rows, settings: Settings) -> None:
        """Choose actions for these rows and send them."""
        index = torch.from_numpy(rows).to(self._device)
        started = torch.from_numpy(self.env.slots.started[rows]).to(self._device)
        memory = {name: part.index_select(0, index) for name, part in self._memory.items()}
        memory = clear_started(memory, started)
        obs, mask = tape.see(rows, memory)
        act = self._actor.act(obs, memory, settings, mask)
        self._memory = {
            name: part.index_copy(0, index, act.memory[name]) for name, part in self._memory.items()
        }
        tape.acted(rows, act)
        self._envs.send(rows, act.action.cpu().numpy())


class OverlapCollector:
    """Hands over rollout k and at once starts k + 1 with the weights of that moment.

    Rollout k is therefore always made with the weights after update k - 2. The inner collector
    acts with its own copy of the policy, so nothing is locked and nothing depends on timing. What
    is saved is the state at the hand-over: the rollout under way is collected again on resume.
    """

    def __init__(self, inner: RolloutCollector, learned: Policy) -> None:
        self._inner = inner
        self._learned = learned
        self._thread = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix="collect",
            # Each thread has its own number of OpenMP threads, and sums depend on it.
            initializer=torch.set_num_threads,
            initargs=(torch.get_num_threads(),),
        )
        self._pending: Future[Rollout] | None = None
        self._handed_over: State = {}
        self._resumed: dict[str, SettingValue] | None = None

    def collect(self, settings: Settings) -> Rollout:
        """Return the rollout under way and start the next one."""
        if self._pending is None:
            self._begin(settings)
        assert self._pending is not None
        rollout = self._pending.result()
        self._hand_over(settings)
        return rollout

    def _begin(self, settings: Settings) -> None:
        if self._resumed is None:
            self._hand_over(settings)
            return
        settings = settings.with_(Assignment(name, v) for name, v in self._resumed.items())
        self._resumed = None
        self._pending = self._thread.submit(self._inner.collect, settings)

    def _hand_over(self, settings: Settings) -> None:
        weights = {name: part.clone() for name, part in self._learned.state_dict().items()}
        self._inner.policy.load_state_dict(weights)
        self._handed_over = {
            "inner": self._inner.state_dict(),
            "weights": weights,
            "settings": settings.values(),
        }
        self._pending = self._thread.submit(self._inner.collect, settings)

    def timings(self) -> Metrics:
        """Return how long the environments' steps took since the last call."""
        return self._inner.timings()

    def close(self) -> None:
        """Wait for the thread and end the environments."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._inner.close()

    def state_dict(self) -> State:
        """Return the state at the last hand-over."""
        return self._handed_over

    def load_state_dict(self, state: State) -> None:
        """Stand where the saved collector stood at its last hand-over."""
        if not state:
            return
        self._handed_over = state
        self._inner.policy.load_state_dict(state["weights"])
        self._inner.load_state_dict(state["inner"])
        self._resumed = {name: _frozen(value) for name, value in state["settings"].items()}


def _frozen(value: SettingValue | list[SettingValue]) -> SettingValue:
    """Return lists, as JSON brings them back, as the tuples they were."""
    return tuple(_frozen(v) for v in value) if isinstance(value, (list, tuple)) else value

"""Rollouts cut into short sequences, the last of which are kept in preallocated arrays."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.rollout import Bootstrap, Rollout, TensorTree, fold_chunks
from longhaul.core.state import State
from longhaul.learn.replay.plan import FLAGS, NUMBERS, Item, ReplayLayout, ReplayPlan
from longhaul.learn.replay.sum_tree import Indices

LONGEST = 16  # steps; without a memory, longer sequences only extend the V-trace sum


def sequence_length(wanted: int, *, steps: int, chunk: int, recurrent: bool) -> int:
    """Return the length of the sequences rollouts of `steps` are cut into."""
    if wanted == 0 and recurrent:
        return chunk
    if wanted == 0:
        return max(length for length in range(1, LONGEST + 1) if steps % length == 0)
    if steps % wanted:
        raise ConfigError(f"learn.replay.length = {wanted} must divide collect.num_steps = {steps}")
    if recurrent and wanted % chunk:
        raise ConfigError(
            f"learn.replay.length = {wanted} must be a multiple of the {chunk} steps after which "
            "the policy's memory is kept; set collect.chunk to a divisor of it"
        )
    return wanted


def cut_up(rollout: Rollout, length: int, scratch: TensorTree | None = None) -> Rollout:
    """Return the rollout's sequences side by side: `length` steps of T / length * N rows.

    Each ends with the observation after it, like a rollout, and nothing flows from one to another.
    With a `scratch`, observations are laid out in its tensors and good until it is used again:
    fresh memory for them costs several times as much as the copy.
    """
    scratch = {} if scratch is None else scratch
    steps, rows = rollout.steps, rollout.rows
    if length == steps:
        return rollout

    def fold(tensor: Tensor) -> Tensor:
        return fold_chunks(tensor, length)

    cuts = rollout.truncations
    every = max(1, length // rollout.chunk)
    memory = {name: part[::every] for name, part in rollout.memory.items()}
    return Rollout(
        obs={name: _folded(name, part, length, scratch) for name, part in rollout.obs.items()},
        action=fold(rollout.action),
        log_prob=fold(rollout.log_prob),
        value=fold(rollout.value),
        reward=fold(rollout.reward),
        terminated=fold(rollout.terminated),
        truncated=fold(rollout.truncated),
        started=fold(rollout.started),
        active=fold(rollout.active),
        forced=fold(rollout.forced),
        lost=_lost(rollout, length),
        mask=None if rollout.mask is None else fold(rollout.mask),
        memory={name: part.flatten(0, 1).unsqueeze(0) for name, part in memory.items()},
        chunk=length,
        truncations=Bootstrap(
            cuts.step % length,
            cuts.step // length * rows + cuts.row,
            cuts.obs,
            cuts.memory,
            cuts.value,
        ),
        last=_ends(rollout, length),
        episodes=(),
        terms={},
        noise_seed=rollout.noise_seed,
        env_steps=rollout.env_steps,
    )


def _folded(name: str, part: Tensor, length: int, scratch: TensorTree) -> Tensor:
    """Return `fold_chunks(part, length)` in the scratch's memory."""
    steps, rows = part.shape[:2]
    shape = (length, steps // length * rows, *part.shape[2:])
    if name not in scratch or scratch[name].shape != shape:
        scratch[name] = torch.empty(shape, dtype=part.dtype)
    target = scratch[name].view(length, steps // length, rows, *part.shape[2:])
    target.copy_(part.reshape(steps // length, length, rows, *part.shape[2:]).transpose(0, 1))
    return scratch[name]


def _ends(rollout: Rollout, length: int) -> Bootstrap:
    """Return what was seen after each sequence: at the next one's start, or at the very end."""

    def after(kept: Tensor, last: Tensor, every: int) -> Tensor:
        return torch.cat([kept[every::every].flatten(0, 1), last.to(kept)])

    last = rollout.last
    columns = torch.arange(rollout.steps // length * rollout.rows)
    every = max(1, length // rollout.chunk)
    return Bootstrap(
        torch.full_like(columns, length - 1),
        columns,
        {name: after(part, last.obs[name], length) for name, part in rollout.obs.items()},
        {name: after(part, last.memory[name], every) for name, part in rollout.memory.items()},
        after(rollout.value, last.value, length),
    )


def _lost(rollout: Rollout, length: int) -> Tensor:
    """Return which steps are lost, those included whose outcome is out of the sequence's sight.

    A row that is away when its sequence ends shows nothing that its last step could continue with.
    """
    lost = fold_chunks(rollout.lost, length).clone()
    active = fold_chunks(rollout.active, length)
    ended = fold_chunks(rollout.terminated | rollout.truncated, length)
    away = torch.zeros(lost.shape[1], dtype=torch.bool, device=lost.device)
    inner = rollout.active[length::length].flatten()
    away[: inner.numel()] = ~inner
    for t in range(length - 1, -1, -1):
        away &= ~ended[t]
        lost[t] |= away & active[t]
        away &= ~active[t]
        if not away.any():
            break
    return lost


Array = NDArray[Any]
_TERMINATED, _TRUNCATED, _LOST = map(FLAGS.index, ("terminated", "truncated", "lost"))
_NOWHERE = -1


class Ring:
    """Keeps sequences as they are, observations in their own dtype, and gives them back equal.

    A truncated step's last observation lies at its sequence's end if the step does, and otherwise
    in a second, smaller ring. One that is overwritten there before its sequence makes its step a
    lost one: what it led to is not known any more.
    """

    def __init__(self, layout: ReplayLayout, plan: ReplayPlan) -> None:
        self.layout = layout
        self.capacity = plan.sequences
        self.written = 0  # sequences since the beginning
        self._cuts_written = 0
        count, length, cuts = plan.sequences, layout.length, plan.cuts
        # Zeros are not touched before they are written to: memory is taken only as it fills.
        self._obs = _zeros((count, length + 1), layout.obs)
        self._memory = _zeros((count, 2), layout.memory)
        self._action = np.zeros((count, length), layout.action)
        self._numbers = np.zeros((count, len(NUMBERS), length), np.float32)
        self._flags = np.zeros((count, len(FLAGS), length), np.bool_)
        self._mask = np.zeros((count, length, layout.choices), np.bool_) if layout.choices else None
        self._end_value = np.zeros(count, np.float32)
        self._cut_at = np.zeros((count, length), np.int32)
        self._cut_obs = _zeros((cuts,), layout.obs)
        self._cut_memory = _zeros((cuts,), layout.memory)
        self._cut_value = np.zeros(cuts, np.float32)
        self._cut_owner = np.zeros((cuts, 2), np.int32)
        self._saved_sequences: dict[str, Array] = {
            **{f"obs.{name}": kept for name, kept in self._obs.items()},
            **{f"memory.{name}": kept for name, kept in self._memory.items()},
            **{"action": self._action, "numbers": self._numbers, "flags": self._flags},
            **({} if self._mask is None else {"mask": self._mask}),
            **{"end_value": self._end_value, "cut_at": self._cut_at},
        }
        self._saved_cuts: dict[str, Array] = {
            **{f"obs.{name}": kept for name, kept in self._cut_obs.items()},
            **{f"memory.{name}": kept for name, kept in self._cut_memory.items()},
            **{"value": self._cut_value, "owner": self._cut_owner},
        }
        self._scratch: dict[str, Array] = {}

    @property
    def size(self) -> int:
        """Sequences there are."""
        return min(self.written, self.capacity)

    @property
    def cuts(self) -> int:
        """Last observations that can be kept within sequences."""
        return len(self._cut_value)

    def write(self, pieces: Rollout) -> Indices:
        """Keep these sequences, at most as many as there is room for; return their places."""
        places = (self.written + np.arange(pieces.rows)) % self.capacity
        numbers = (pieces.log_prob, pieces.reward, pieces.value)
        flags = (
            pieces.terminated, pieces.truncated, pieces.started,
            pieces.active, pieces.forced, pieces.lost,
        )  # fmt: skip
        for part in _stretches(places):
            here, columns = slice(places[part.start], places[part.stop - 1] + 1), part
            for name, kept in self._obs.items():
                kept[here, :-1] = _by_sequence(pieces.obs[name], columns)
                kept[here, -1] = pieces.last.obs[name].numpy()[columns]
            for name, kept in self._memory.items():
                kept[here, 0] = pieces.memory[name].numpy()[0, columns]
                kept[here, 1] = pieces.last.memory[name].numpy()[columns]
            self._action[here] = _by_sequence(pieces.action, columns)
            self._numbers[here] = np.stack([_by_sequence(one, columns) for one in numbers], 1)
            self._flags[here] = np.stack([_by_sequence(one, columns) for one in flags], 1)
            if self._mask is not None and pieces.mask is not None:
                self._mask[here] = _by_sequence(pieces.mask, columns)
            self._end_value[here] = pieces.last.value.numpy()[columns]
            self._cut_at[here] = _NOWHERE
        self.written += pieces.rows
        self._write_cuts(pieces.truncations, places)
        return places

    def _write_cuts(self, cuts: Bootstrap, places: Indices) -> None:
        """Keep the last observations of truncated steps."""
        if len(cuts.row) == 0:
            return
        step, owner = cuts.step.numpy(), places[cuts.row.numpy()]
        at_end = step == self.layout.length - 1
        ends, ending = np.flatnonzero(at_end), owner[at_end]
        for name, kept in self._obs.items():
            kept[ending, -1] = cuts.obs[name].numpy()[ends]
        for name, kept in self._memory.items():
            kept[ending, 1] = cuts.memory[name].numpy()[ends]
        self._end_value[ending] = cuts.value.numpy()[ends]
        self._write_inner_cuts(cuts, np.flatnonzero(~at_end), owner)

    def _write_inner_cuts(self, cuts: Bootstrap, inner: Indices, owner: Indices) -> None:
        step = cuts.step.numpy()
        # Without room for all of them, the last ones stay.
        lost, inner = np.split(inner, [max(0, len(inner) - self.cuts)])
        self._flags[owner[lost], _LOST, step[lost]] = True
        if len(inner) == 0:
            return
        slots = (self._cuts_written + np.arange(len(inner))) % self.cuts
        self._cuts_written += len(inner)
        before = self._cut_owner[slots]
        orphaned = before[self._cut_at[before[:, 0], before[:, 1]] == slots]
        self._flags[orphaned[:, 0], _LOST, orphaned[:, 1]] = True
        self._cut_at[orphaned[:, 0], orphaned[:, 1]] = _NOWHERE
        self._cut_at[owner[inner], step[inner]] = slots
        self._cut_owner[slots] = np.stack([owner[inner], step[inner]], 1)
        for name, kept in self._cut_obs.items():
            kept[slots] = cuts.obs[name].numpy()[inner]
        for name, kept in self._cut_memory.items():
            kept[slots] = cuts.memory[name].numpy()[inner]
        self._cut_value[slots] = cuts.value.numpy()[inner]

    def read(self, places: Indices, *, noise_seed: int) -> Rollout:
        """Return the sequences at these places, as a rollout with a row for each.

        Its observations are copies that are good until the next call.
        """
        length, count = self.layout.length, len(places)
        steps = places * (length + 1) + np.arange(length)[:, None]  # [L, B] in [capacity * (L + 1)]
        ends = places * (length + 1) + length
        numbers = _by_step(self._numbers[places])
        terminated, truncated, started, active, forced, lost = _by_step(self._flags[places])
        flat = {name: kept.reshape(-1, *kept.shape[2:]) for name, kept in self._obs.items()}
        log_prob, reward, value = numbers
        rows = torch.arange(count)
        last = Bootstrap(
            torch.full((count,), length - 1),
            rows,
            {name: self._taken(f"{name} at the end", kept, ends) for name, kept in flat.items()},
            {name: torch.from_numpy(kept[places, 1]) for name, kept in self._memory.items()},
            torch.from_numpy(self._end_value[places]),
        )
        return Rollout(
            obs={name: self._taken(name, kept, steps) for name, kept in flat.items()},
            action=torch.from_numpy(np.ascontiguousarray(self._action[places].swapaxes(0, 1))),
            log_prob=log_prob,
            value=value,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            started=started,
            active=active,
            forced=forced,
            lost=lost,
            mask=None
            if self._mask is None
            else torch.from_numpy(np.ascontiguousarray(self._mask[places].swapaxes(0, 1))),
            memory={
                name: torch.from_numpy(kept[places, 0])[None] for name, kept in self._memory.items()
            },
            chunk=length,
            truncations=self._read_cuts(places, last),
            last=last,
            episodes=(),
            terms={},
            noise_seed=noise_seed,
            env_steps=int((active & ~lost).sum()),
        )

    def _taken(self, name: str, flat: Array, steps: Indices) -> Tensor:
        """Return the frames at these places: one copy of each, in the order they are judged."""
        shape = (*steps.shape, *flat.shape[1:])
        if name not in self._scratch or self._scratch[name].shape != shape:
            # Kept, because fresh memory costs several times as much as the copy.
            self._scratch[name] = np.empty(shape, flat.dtype)
        np.take(flat, steps, axis=0, out=self._scratch[name], mode="clip")
        return torch.from_numpy(self._scratch[name])

    def _read_cuts(self, places: Indices, last: Bootstrap) -> Bootstrap:
        """Return the truncated steps' last observations in order of step and row."""
        cut_at = self._cut_at[places].T  # [L, B]
        flags = self._flags[places]
        at_end = flags[:, _TRUNCATED, -1] & ~flags[:, _TERMINATED, -1]
        step, row = np.nonzero(cut_at >= 0)
        slots = cut_at[step, row]
        ends = torch.from_numpy(np.flatnonzero(at_end))

        def joined(inner: Array, end: Tensor) -> Tensor:
            return torch.cat([torch.from_numpy(inner), end.index_select(0, ends)])

        return Bootstrap(
            joined(step, last.step),
            joined(row, last.row),
            {name: joined(kept[slots], last.obs[name]) for name, kept in self._cut_obs.items()},
            {
                name: joined(kept[slots], last.memory[name])
                for name, kept in self._cut_memory.items()
            },
            joined(self._cut_value[slots], last.value),
        )

    def state_dict(self) -> State:
        """Return what is filled of the arrays: views, to be written before the next `write`."""
        cuts = min(self._cuts_written, self.cuts)
        return {
            "capacity": self.capacity,
            "written": self.written,
            "cuts_written": self._cuts_written,
            "sequences": {name: kept[: self.size] for name, kept in self._saved_sequences.items()},
            "cuts": {name: kept[:cuts] for name, kept in self._saved_cuts.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what was saved by a ring of the same layout and capacity."""
        if state["capacity"] != self.capacity:
            raise CheckpointError(
                f"the saved replay holds {state['capacity']} sequences, this run's {self.capacity}"
            )
        self.written, self._cuts_written = state["written"], state["cuts_written"]
        for arrays, saved in (
            (self._saved_sequences, state["sequences"]),
            (self._saved_cuts, state["cuts"]),
        ):
            for name, kept in arrays.items():
                kept[: len(saved[name])] = saved[name]


def _zeros(shape: tuple[int, ...], items: Mapping[str, Item]) -> dict[str, Array]:
    return {name: np.zeros(shape, kept) for name, kept in items.items()}


def _stretches(places: Indices) -> list[slice]:
    """Return the parts of consecutive places: one, or two where the ring begins again."""
    wraps = np.flatnonzero(np.diff(places) < 0)
    edges = [0, *(wraps + 1).tolist(), len(places)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def _by_sequence(tensor: Tensor, columns: slice) -> Array:
    """Return [L, S, ...] as a view [s, L, ...] of some columns."""
    array: Array = tensor.numpy()[:, columns].swapaxes(0, 1)
    return array


def _by_step(array: Array) -> Tensor:
    """Return [B, kinds, L] as [kinds, L, B]."""
    return torch.from_numpy(np.ascontiguousarray(array.transpose(1, 2, 0)))

"""Memory shared with workers: actions, outputs of the environments, and progress counters.

It is a file without a name: nothing stays behind, however the trainer ends. Workers write
observations here, and the trainer copies them only after an answer with the right sequence number,
so a late writer has no effect.
"""

from __future__ import annotations

import errno
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Bools, StepBuffers, empty_actions
from longhaul.core.errors import ResourceError
from longhaul.core.spaces import EnvSpec
from longhaul.core.system import allocate, nameless_file

ALIGNMENT = 64
BUCKETS = 48  # powers of two of nanoseconds, the last about three days
STAGE, ENV, COUNT, POSITION = 0, 1, 2, 3
STEP_TIMES, RESET_TIMES, CONSTRUCT_TIMES = 8, 8 + BUCKETS, 8 + 2 * BUCKETS
WORDS = 8 + 3 * BUCKETS
WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def array(self, block: NDArray[np.uint8]) -> Array:
        """Return this part of a block of bytes as an array."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return block[self.offset : self.offset + size].view(self.dtype).reshape(self.shape)


class Layout:
    """Where the arrays of all rows lie in a block of bytes; the same in every process."""

    def __init__(self, spec: EnvSpec, rows: int) -> None:
        self._spec = spec
        self._rows = rows
        self._places: dict[str, _Place] = {}
        self.size = 0
        for name, part in spec.observation.items():
            self._add(f"obs.{name}", (rows, *part.shape), part.dtype)
        self._add("reward", (rows,), "float32")
        for name in ("terminated", "truncated", "active", "forced"):
            self._add(name, (rows,), "bool")
        if spec.has_masks:
            self._add("mask", (rows, spec.choices), "bool")
        for name in spec.terms:
            self._add(f"term.{name}", (rows,), "float32")
        for name in spec.measures:
            self._add(f"measure.{name}", (rows,), "float32")

    def _add(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        place = _Place(self.size, shape, np.dtype(dtype))
        self._places[name] = place
        size = int(np.prod(shape, dtype=np.int64)) * place.dtype.itemsize
        self.size = aligned(self.size + size)

    def slots(self, block: NDArray[np.uint8]) -> StepBuffers:
        """Return the block as slots; `started` and `lost` are private to the trainer."""
        arrays = {name: place.array(block) for name, place in self._places.items()}
        spec = self._spec

        def flags(name: str) -> Bools:
            return arrays[name]

        return StepBuffers(
            obs={name: arrays[f"obs.{name}"] for name in spec.observation},
            reward=arrays["reward"],
            terminated=flags("terminated"),
            truncated=flags("truncated"),
            started=np.ones(self._rows, np.bool_),
            active=flags("active"),
            forced=flags("forced"),
            lost=np.zeros(self._rows, np.bool_),
            mask=flags("mask") if spec.has_masks else None,
            terms={name: arrays[f"term.{name}"] for name in spec.terms},
            measures={name: arrays[f"measure.{name}"] for name in spec.measures},
        )


class Mailbox:
    """One process's view of the shared memory."""

    def __init__(self, descriptor: int, spec: EnvSpec, *, count: int, workers: int) -> None:
        rows = count * spec.rows
        layout = Layout(spec, rows)
        like = empty_actions(spec, rows)
        actions = _Place(layout.size, like.shape, like.dtype)
        words = aligned(layout.size + like.nbytes)
        self.descriptor = descriptor
        times = words + workers * WORDS * WORD_BYTES
        self.size = times + count * 2 * WORD_BYTES
        if os.fstat(descriptor).st_size < self.size:
            _make_room(descriptor, self.size)
        self._map = mmap.mmap(descriptor, self.size)
        whole = np.frombuffer(self._map, np.uint8)
        self.block: NDArray[np.uint8] = whole[: layout.size]
        self.slots = layout.slots(self.block)
        self.actions = actions.array(whole)
        self._words = words
        self._times = times

    @staticmethod
    def create(spec: EnvSpec, *, count: int, workers: int) -> Mailbox:
        """Return a new shared memory for `count` environments."""
        descriptor = nameless_file("longhaul-envs")
        try:
            mailbox = Mailbox(descriptor, spec, count=count, workers=workers)
        except BaseException:
            os.close(descriptor)
            raise
        mailbox.slots.active[...] = True
        if mailbox.slots.mask is not None:
            mailbox.slots.mask[...] = True
        return mailbox

    def words(self, worker: int) -> memoryview:
        """Return the words of one worker: 64-bit integers, which a plain view writes fastest."""
        begin = self._words + worker * WORDS * WORD_BYTES
        return memoryview(self._map)[begin : begin + WORDS * WORD_BYTES].cast("q")

    def step_times(self) -> memoryview:
        """Return two words for each env: nanoseconds spent in its steps, and how many those were.

        Each is written by the worker that holds the env.
        """
        return memoryview(self._map)[self._times : self.size].cast("q")


def aligned(size: int) -> int:
    """Return the size rounded up to a cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _make_room(descriptor: int, size: int) -> None:
    import psutil  # only the trainer needs it, and workers import this file

    # Checked first: a system that runs out of memory kills a process.
    if size > psutil.virtual_memory().available:
        raise _too_large(size)
    try:
        allocate(descriptor, size)
    except OSError as error:
        if error.errno not in (errno.ENOMEM, errno.ENOSPC, errno.EFBIG):
            raise
        raise _too_large(size) from error


def _too_large(size: int) -> ResourceError:
    return ResourceError(
        f"the environments' shared memory needs {size / 2**20:.0f} MB, which the system does "
        "not have; use fewer environments, smaller observations, or a higher memory limit"
    )

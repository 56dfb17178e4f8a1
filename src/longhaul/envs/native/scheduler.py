"""Native scheduling of simulators over threads by work stealing.

Every member has a block of simulators, which it takes from the front; when its own is empty it
steals from the others' backs. So most simulators stay with one thread, in whose core's cache they
are. No thread waits for one that has not begun: a late thread finds nothing left to take.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import (
    CLOCK,
    WORD_BYTES,
    add,
    call,
    clock_gettime,
    cond_init,
    cond_wait,
    cond_wake,
    entry,
    kernel,
    kernel_stamp,
    load,
    look,
    mutex_init,
    mutex_lock,
    mutex_unlock,
    pause,
    store,
)

LINE = 16
"""Words between two that different threads write: nearer ones slow each other down."""
(
    RUNS,  # how many runs have begun
    ENDED,  # how many have ended
    DONE,  # how many are done in this run
    SLEEPERS,  # members that sleep until the next run
    LEADER_SLEEPS,  # 1 while the leader sleeps until all are done
    STOPPED,  # 1 when the members should leave
    COUNT,  # simulators
    MEMBERS,  # threads that share them
    TABLE,  # where the present chain is
    LENGTH,  # how long it is
    MUTEX,
    NEWS,  # the condition that a run begins
    FINISH,  # the condition that it has ended
    BLOCKS,  # one word for each member's block: how many were taken from its back and its front
) = range(0, 14 * LINE, LINE)
BACK = 1 << 32
"""One taken from the back of a block; one from its front counts 1."""
HERE = Path(__file__).parent
SPINS = 64
"""Looks at a word between two looks at the clock."""


@kernel
def _perform(table: int, length: int, index: int, member: int) -> int:
    """Do a chain for one simulator; return 0, or how many links were done if one said stop."""
    for position in range(length):
        link = table + 2 * WORD_BYTES * position
        if call(look(link), look(link + WORD_BYTES), index, member) != 0:
            return position + 1
    return 0


@kernel
def _nanoseconds(times: Array) -> int:
    clock_gettime(np.int32(CLOCK), times.ctypes.data)
    nanoseconds: int = times[0] * 1_000_000_000 + times[1]
    return nanoseconds


@kernel
def _changes(board: Array, place: int, value: int, patience: int) -> bool:
    """Look at a word for some nanoseconds; return whether it has another value by then."""
    times = np.zeros(2, np.int64)
    until = _nanoseconds(times) + patience
    while True:
        for _ in range(SPINS):
            if load(board, place) != value:
                return True
            pause()
        if _nanoseconds(times) > until:
            return False


@kernel
def _wake(board: Array, condition: int) -> None:
    base = board.ctypes.data
    mutex_lock(base + WORD_BYTES * MUTEX)
    cond_wake(base + WORD_BYTES * condition)
    mutex_unlock(base + WORD_BYTES * MUTEX)


@kernel
def _sleep(board: Array, place: int, value: int, condition: int, mark: int) -> None:
    """Sleep while a word has this value; the mark asks the thread that changes it to wake us."""
    base = board.ctypes.data
    mutex_lock(base + WORD_BYTES * MUTEX)
    # Marked before looking: a thread that changes the word after this look sees the mark.
    add(board, mark, 1)
    while load(board, place) == value:
        cond_wait(base + WORD_BYTES * condition, base + WORD_BYTES * MUTEX)
    add(board, mark, -1)
    mutex_unlock(base + WORD_BYTES * MUTEX)


@kernel
def _take(board: Array, block: int, side: int) -> int:
    """Take a simulator from one side of a block; return which, or -1 if none is left."""
    count, members = load(board, COUNT), load(board, MEMBERS)
    begin, end = block * count // members, (block + 1) * count // members
    # One atomic change of one word: no two threads get the same numbers.
    taken = add(board, BLOCKS + LINE * block, side)
    front, back = taken % BACK, taken // BACK
    if front + back >= end - begin:
        return -1
    index: int = begin + front if side == 1 else end - 1 - back
    return index


@kernel
def offer_all(board: Array) -> None:
    """Let all simulators be taken."""
    for member in range(load(board, MEMBERS)):
        store(board, BLOCKS + LINE * member, 0)


@kernel
def take_next(board: Array, member: int) -> int:
    """Take a simulator: our own block's, or another's; return which, or -1 if none is left."""
    index = _take(board, member, 1)
    members = load(board, MEMBERS)
    for further in range(1, members):
        if index >= 0:
            break
        index = _take(board, (member + further) % members, BACK)
    return index


@kernel
def _labor(board: Array, left: Array, member: int) -> None:
    """Take simulators until there are none."""
    done = 0
    index = take_next(board, member)
    while index >= 0:
        # A thread that holds a simulator keeps the run from ending, so the chain stays unchanged.
        left[index] = _perform(load(board, TABLE), load(board, LENGTH), index, member)
        done += 1
        index = take_next(board, member)
    if done and add(board, DONE, done) + done == load(board, COUNT):
        add(board, ENDED, 1)
        if load(board, LEADER_SLEEPS):
            _wake(board, FINISH)


def _build_bounds(stamp: int) -> tuple[Any, Any]:
    @entry
    def prepare(board: Array, count: int, members: int) -> None:
        """Make a board, all zeros before, ready for runs over `count` simulators."""
        _ = stamp
        base = board.ctypes.data
        mutex_init(base + WORD_BYTES * MUTEX, 0)
        cond_init(base + WORD_BYTES * NEWS, 0)
        cond_init(base + WORD_BYTES * FINISH, 0)
        store(board, COUNT, count)
        store(board, MEMBERS, members)
        for member in range(members):
            store(board, BLOCKS + LINE * member, count)

    @entry
    def stop(board: Array) -> None:
        """Let all members leave."""
        _ = stamp
        store(board, STOPPED, 1)
        add(board, RUNS, 1)
        _wake(board, NEWS)

    return prepare, stop


def _build_runs(stamp: int) -> tuple[Any, Any, Any]:
    @entry
    def serve(board: Array, left: Array, member: int, patience: int) -> None:
        """Take part in every run until the board is stopped."""
        _ = stamp
        seen = 0
        while load(board, STOPPED) == 0:
            if not _changes(board, RUNS, seen, patience):
                _sleep(board, RUNS, seen, NEWS, SLEEPERS)
            seen = load(board, RUNS)
            _labor(board, left, member)

    @entry
    def lead(board: Array, left: Array, table: Array, patience: int) -> int:
        """Do a chain for all simulators; return how many of them were left in the middle."""
        _ = stamp
        before = load(board, ENDED)
        store(board, TABLE, table.ctypes.data)
        store(board, LENGTH, table.shape[0])
        store(board, DONE, 0)
        # From here on the run does not depend on this thread: other members may take everything.
        offer_all(board)
        add(board, RUNS, 1)
        if load(board, SLEEPERS):
            _wake(board, NEWS)
        _labor(board, left, 0)
        if not _changes(board, ENDED, before, patience):
            _sleep(board, ENDED, before, FINISH, LEADER_SLEEPS)
        return int(np.count_nonzero(left))

    @entry
    def perform(table: Array, left: Array, begin: int, end: int) -> int:
        """Do a chain for some simulators in the calling thread; return how many were left."""
        _ = stamp
        count = 0
        for index in range(begin, end):
            left[index] = _perform(table.ctypes.data, table.shape[0], index, 0)
            count += left[index] != 0
        return count

    return serve, lead, perform


def new_board(count: int, members: int) -> Array:
    """Return a board for runs over `count` simulators by so many threads."""
    board = np.zeros(BLOCKS + LINE * members, np.int64)
    prepare(board, count, members)
    return board


_stamp = kernel_stamp([HERE / "scheduler.py"])
prepare, stop = _build_bounds(_stamp)
serve, lead, perform = _build_runs(_stamp)

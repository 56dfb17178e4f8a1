"""Only the answer to the last order of this incarnation is ever accepted."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest

from longhaul.core.env import Ending
from longhaul.envs.processes.fleet import Fleet
from longhaul.envs.processes.mailbox import Mailbox
from longhaul.envs.processes.messages import (
    HEADER,
    Answer,
    Beginning,
    Channel,
    ChannelClosedError,
    Kind,
    Order,
    WorkerLoss,
    send_message,
)
from tests.envs.processes.conftest import QUICK
from tests.faults.walk import WalkFactory

Pair = tuple[Channel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, generation=7)
    yield channel, theirs
    channel.close()
    theirs.close()


def answer(text: str) -> bytes:
    return pickle.dumps(Answer(endings=((0, Ending(text)),)))


def test_an_answer_with_the_right_numbers_is_accepted(pair: Pair) -> None:
    channel, worker = pair
    channel.order(Kind.STEP)
    assert HEADER.unpack(worker.recv(HEADER.size)) == (1, 7, Kind.STEP, 0)
    send_message(worker, 1, 7, Kind.ANSWER, answer("mine"))
    received = channel.receive()
    assert isinstance(received, Answer)
    assert received.endings == ((0, Ending("mine")),)


@pytest.mark.parametrize(("sequence", "generation"), [(1, 7), (3, 7), (2, 6), (2, 8), (0, 0)])
def test_late_early_and_foreign_answers_are_dropped(
    pair: Pair, sequence: int, generation: int
) -> None:
    channel, worker = pair
    channel.order(Kind.STEP)
    channel.order(Kind.STEP)
    send_message(worker, sequence, generation, Kind.ANSWER, answer("stale"))
    send_message(worker, 2, 7, Kind.ANSWER, answer("fresh"))
    assert channel.receive() is None
    received = channel.receive()
    assert isinstance(received, Answer)
    assert received.endings[0][1].reason == "fresh"


STEP, FRAME = Order(Kind.STEP), Order(Kind.FRAME, 0)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """One real worker with one walk, whose picture shows how many steps it took."""
    source = WalkFactory(longest=100).source()
    mailbox = Mailbox.create(source.spec, count=1, workers=1)
    fleet = Fleet(source, mailbox, {0: (0,)}, QUICK, count=1)
    yield fleet
    fleet.close()
    os.close(mailbox.descriptor)


def answered(fleet: Fleet, order: Order) -> Answer:
    result = fleet.exchange({0: order})[0]
    assert isinstance(result, Answer)
    return result


def walked(fleet: Fleet, steps: int) -> None:
    """Start a process and let its walk take so many steps."""
    assert isinstance(fleet.start([0])[0], Answer)
    answered(fleet, Order(Kind.BEGIN, [Beginning(0, 5, None, None)]))
    for _ in range(steps):
        answered(fleet, STEP)


def leave_an_answer(fleet: Fleet) -> int:
    """Order a picture and wait until the worker has sent it; return the worker's process."""
    pid, before = fleet.pid(0), fleet.states()[0].signs
    fleet.post(0, FRAME)
    process = psutil.Process(pid)
    while fleet.states()[0].signs == before or process.status() != psutil.STATUS_SLEEPING:
        os.sched_yield()
    return pid


@pytest.mark.thorough
def test_an_answer_that_was_not_read_is_not_that_of_the_next_order(fleet: Fleet) -> None:
    walked(fleet, 2)
    leave_an_answer(fleet)
    assert answered(fleet, STEP).returned is None
    assert answered(fleet, FRAME).returned.max() == 3


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["killed", "dismissed"])
def test_an_answer_under_way_when_its_worker_is_replaced_reaches_nobody(
    fleet: Fleet, how: str
) -> None:
    walked(fleet, 2)
    pid = leave_an_answer(fleet)
    if how == "killed":
        os.kill(pid, signal.SIGKILL)
        assert isinstance(fleet.exchange({0: FRAME})[0], WorkerLoss)
    else:
        fleet.dismiss(0)
    walked(fleet, 1)
    assert fleet.pid(0) != pid
    assert answered(fleet, FRAME).returned.max() == 1


def test_silence_is_told_after_a_slice_of_time(pair: Pair) -> None:
    assert pair[0].receive() is None


def test_marks_pass_whatever_their_numbers(pair: Pair) -> None:
    channel, worker = pair
    mark = {"stage": "step", "worker": 0, "pid": 1, "env": None, "seconds": 2.5}
    send_message(worker, 0, 7, Kind.MARK, json.dumps(mark).encode())
    assert channel.receive() == mark


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"half",
        HEADER.pack(1, 7, Kind.ANSWER, 100) + b"less",
        HEADER.pack(1, 7, Kind.ANSWER, 2**32 - 1),
        HEADER.pack(1, 7, Kind.ANSWER, 4) + b"junk",
        HEADER.pack(1, 7, Kind.ANSWER, len(pickle.dumps(1))) + pickle.dumps(1),
        HEADER.pack(0, 7, Kind.MARK, 4) + b"\xff\xfe{}",
        HEADER.pack(0, 7, Kind.MARK, 2) + b"{}",
    ],
)
def test_a_worker_that_ends_or_talks_nonsense_counts_as_gone(pair: Pair, sent: bytes) -> None:
    channel, worker = pair
    channel.order(Kind.STEP)
    worker.sendall(sent)
    worker.close()
    with pytest.raises(ChannelClosedError):
        channel.receive()


def test_an_order_to_nobody_is_told(pair: Pair) -> None:
    channel, worker = pair
    worker.close()
    with pytest.raises(ChannelClosedError):
        channel.order(Kind.STEP)
    with pytest.raises(ChannelClosedError):
        channel.order(Kind.BEGIN, b"x" * 100)

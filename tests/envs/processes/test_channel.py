"""Only the answer to the last order of this incarnation is ever accepted."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator

import pytest

from longhaul.core.env import Ending
from longhaul.envs.processes.messages import (
    HEADER,
    Answer,
    Channel,
    ChannelClosedError,
    Kind,
    send_message,
)

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


def test_an_answer_delayed_across_a_replacement_reaches_nobody() -> None:
    old_end, old_worker = socket.socketpair()
    old = Channel(old_end, generation=1)
    old.order(Kind.STEP)
    old.close()
    new_end, new_worker = socket.socketpair()
    new = Channel(new_end, generation=2)
    new.order(Kind.STEP)
    with pytest.raises(BrokenPipeError):
        send_message(old_worker, 1, 1, Kind.ANSWER, answer("too late"))
    # Even over the wrong wire it would not be taken for the new one's.
    send_message(new_worker, 1, 1, Kind.ANSWER, answer("too late"))
    assert new.receive() is None
    for end in (old_worker, new_worker):
        end.close()
    new.close()


def test_silence_is_told_after_a_slice_of_time(pair: Pair) -> None:
    assert pair[0].receive() is None


def test_marks_pass_whatever_their_numbers(pair: Pair) -> None:
    channel, worker = pair
    send_message(worker, 0, 7, Kind.MARK, b"{}")
    assert channel.receive() == b"{}"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"half",
        HEADER.pack(1, 7, Kind.ANSWER, 100) + b"less",
        HEADER.pack(1, 7, Kind.ANSWER, 2**32 - 1),
        HEADER.pack(1, 7, Kind.ANSWER, 4) + b"junk",
        HEADER.pack(1, 7, Kind.ANSWER, len(pickle.dumps(1))) + pickle.dumps(1),
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

"""One socket to one worker: numbered orders out, answers with the same numbers back."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

from longhaul.envs.processes.messages import NOTHING_TO_SAY, Answer, Kind

HEADER = struct.Struct("<QIII")  # sequence, generation, kind, bytes that follow
LARGEST_PAYLOAD = 2**31
SLICE_SECONDS = 0.1
MOST_SLICES = 100  # of silence within a message, after which its sender counts as gone


class ChannelClosedError(Exception):
    """The other end is gone, or talks nonsense."""


def receive_exactly(end: socket.socket, size: int, begun: bytes = b"") -> bytes:
    """Return `size` bytes, the first of which are already there."""
    parts = [begun]
    missing = size - len(begun)
    slices = 0
    while missing:
        try:
            part = end.recv(min(missing, 2**20))
        except BlockingIOError:
            slices += 1
            if slices < MOST_SLICES:
                continue
            raise ChannelClosedError("the other end stopped within a message") from None
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        if not part:
            raise ChannelClosedError("the other end was closed")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def send_message(
    end: socket.socket, sequence: int, generation: int, kind: Kind, payload: bytes = b""
) -> None:
    """Send one message."""
    end.sendall(HEADER.pack(sequence, generation, kind, len(payload)) + payload)


class Channel:
    """The trainer's end of the socket to one incarnation of a worker."""

    def __init__(self, end: socket.socket, generation: int) -> None:
        self._end = end
        self.generation = generation
        self.sequence = 0
        # A receive that brings nothing for this long gives the supervisor a chance to look.
        seconds = struct.pack("ll", 0, int(SLICE_SECONDS * 1e6))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
        self._send = end.send
        self._receive = end.recv

    @property
    def descriptor(self) -> int:
        """The socket's number."""
        return self._end.fileno()

    def order(self, kind: Kind, payload: bytes = b"") -> None:
        """Send the next order; only its own answer will be accepted from now on."""
        self.sequence += 1
        try:
            if payload:
                send_message(self._end, self.sequence, self.generation, kind, payload)
            else:
                self._send(HEADER.pack(self.sequence, self.generation, kind, 0))
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self) -> Answer | bytes | None:
        """Return the answer to the last order, a mark, or None if a slice of time brought nothing.

        Answers to earlier orders, or to another incarnation's, are dropped unread.
        """
        try:
            begun = self._receive(HEADER.size)
        except BlockingIOError:
            return None
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        if len(begun) < HEADER.size:
            if not begun:
                raise ChannelClosedError("the other end was closed")
            begun = receive_exactly(self._end, HEADER.size, begun)
        sequence, generation, kind, size = HEADER.unpack(begun)
        if size > LARGEST_PAYLOAD:
            raise ChannelClosedError(f"a message of {size} bytes was announced")
        payload = receive_exactly(self._end, size) if size else b""
        if kind == Kind.MARK:
            return payload
        if (sequence, generation) != (self.sequence, self.generation):
            return None
        return NOTHING_TO_SAY if not payload else _answer(payload)

    def close(self) -> None:
        """Close this end; a worker that still lives takes it as its end."""
        self._end.close()


def _answer(payload: bytes) -> Answer:
    try:
        answer: Any = pickle.loads(payload)
    except Exception as error:
        raise ChannelClosedError(f"an answer could not be read: {error!r}") from error
    if not isinstance(answer, Answer):
        raise ChannelClosedError(f"an answer was {type(answer).__name__}")
    return answer

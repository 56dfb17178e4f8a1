"""Messages between the trainer and its workers."""

from __future__ import annotations

import pickle
import socket
import struct
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Literal

import msgspec

from longhaul.core.env import Array, Ending, Start
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State

CLOSE_FAILED = "close_failed: "
"""Prefix of the mark of an env that raised in its close."""


class Kind(IntEnum):
    """The kind of a message: an order, an answer or a mark."""

    HELLO = 1
    BEGIN = 2
    STEP = 3
    RESTORE = 4
    SNAPSHOT = 5
    FRAME = 6
    CLOSE = 7
    ANSWER = 8
    MARK = 9


class WorkerStage(IntEnum):
    """What a worker is doing, readable by the trainer at any time."""

    BOOT = 0
    IMPORT = 1
    CONSTRUCT = 2
    RESET = 3
    STEP = 4
    REPLAY = 5
    SNAPSHOT = 6
    FRAME = 7
    CLOSE = 8
    IDLE = 9


@dataclass(frozen=True, slots=True)
class Hello:
    """What a new worker needs; the factory comes as bytes, so a bad one is reported."""

    worker: int
    spec: EnvSpec
    count: int  # of all environments
    workers: int
    envs: tuple[int, ...]  # of this worker
    factory: bytes
    main: dict[str, Any] | None  # how to import the trainer's main module, if the factory is there


@dataclass(frozen=True, slots=True)
class Beginning:
    """An episode to begin."""

    env: int
    seed: int
    start: Start | None
    settings: Settings | None
    fresh: bool = False  # in a newly made environment


@dataclass(frozen=True, slots=True)
class EpisodeReplay:
    """An episode to replay: from its seed or a snapshot, with its actions."""

    beginning: Beginning
    actions: Array  # [L, rows, ...]
    base: State | None = None  # native state the actions continue from, instead of the reset


@dataclass(frozen=True, slots=True)
class ReplayedEpisode:
    """The result of a playback."""

    env: int
    digest: str  # of everything the policy sees
    returns: Array  # [rows] float64, sum of the rewards
    over_at: int | None  # the step the episode unexpectedly ended at


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception inside an environment."""

    env: int
    error: str
    traceback: str
    unusable: bool = False  # what the env returned was refused; the env itself did not fail


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker did with an order."""

    endings: tuple[tuple[int, Ending], ...] = ()
    raised: tuple[Raised, ...] = ()
    played: tuple[ReplayedEpisode, ...] = ()
    returned: Any = None  # snapshots by env, or a picture


EMPTY_ANSWER = Answer()


@dataclass(frozen=True, slots=True)
class Order:
    """Something for one worker to do with some of its environments."""

    kind: Kind
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A worker entered or left a stage."""

    stage: str
    worker: int
    pid: int
    env: int | None
    seconds: float  # on the machine's monotonic clock


@dataclass(frozen=True, slots=True)
class WorkerLoss:
    """A worker that is gone, and what it was doing."""

    kind: Literal["died", "hung"]
    worker: int
    pid: int
    stage: WorkerStage
    env: int | None
    position: int  # the step of a playback it was at
    error: str
    traceback: str
    seconds: float  # how long it had been silent


HEADER = struct.Struct("<QIII")  # sequence, generation, kind, bytes that follow
LARGEST_PAYLOAD = 2**31
SLICE_SECONDS = 0.1
MOST_SLICES = 100  # of silence within a message, after which its sender counts as gone


class ChannelClosedError(Exception):
    """The other end is gone, or sent an invalid message."""


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
    """The trainer's end of the socket to one process of a worker."""

    def __init__(self, end: socket.socket, generation: int) -> None:
        self._end = end
        self.generation = generation
        self.sequence = 0
        # A receive times out after this, which lets the supervisor check the workers.
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

    def receive(self) -> Answer | dict[str, Any] | None:
        """Return the answer to the last order, a mark, or None if a slice of time brought nothing.

        Answers to earlier orders, or of an earlier process, are dropped.
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
            return _mark(payload)
        if (sequence, generation) != (self.sequence, self.generation):
            return None
        return EMPTY_ANSWER if not payload else _answer(payload)

    def close(self) -> None:
        """Close this end; a running worker exits then."""
        self._end.close()


def _mark(payload: bytes) -> dict[str, Any]:
    try:
        return asdict(msgspec.json.decode(payload, type=Mark))
    except msgspec.DecodeError as error:
        raise ChannelClosedError(f"a mark could not be read: {error}") from error


def _answer(payload: bytes) -> Answer:
    try:
        answer: Any = pickle.loads(payload)
    except Exception as error:
        raise ChannelClosedError(f"an answer could not be read: {error!r}") from error
    if not isinstance(answer, Answer):
        raise ChannelClosedError(f"an answer was {type(answer).__name__}")
    return answer

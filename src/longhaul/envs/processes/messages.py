"""What the trainer and its workers say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

from longhaul.core.env import Array, Ending, Start
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State

CLOSE_FAILED = "close_failed: "
"""What the mark of an env that raised in its close begins with."""


class Kind(IntEnum):
    """What a message asks for, or that it is an answer or a mark."""

    HELLO = 1
    BEGIN = 2
    STEP = 3
    RESTORE = 4
    SNAPSHOT = 5
    FRAME = 6
    CLOSE = 7
    ANSWER = 8
    MARK = 9


class Stage(IntEnum):
    """What a worker is doing at this moment, readable from outside while it is stuck in it."""

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
    """What a fresh worker needs to know; the factory comes as bytes, so that a bad one is told."""

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
class Playback:
    """An episode to bring to where it was: from its seed or a snapshot, by its actions."""

    beginning: Beginning
    actions: Array  # [L, rows, ...]
    base: State | None = None  # native state the actions continue from, instead of the reset


@dataclass(frozen=True, slots=True)
class Played:
    """Where a playback came to."""

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
    unusable: bool = False  # what the env returned was refused at the border, it did not fail


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker did with an order."""

    endings: tuple[tuple[int, Ending], ...] = ()
    raised: tuple[Raised, ...] = ()
    played: tuple[Played, ...] = ()
    returned: Any = None  # snapshots by env, or a picture


NOTHING_TO_SAY = Answer()


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
class Loss:
    """A worker that is no more, and what it was doing."""

    kind: Literal["died", "hung"]
    worker: int
    pid: int
    stage: Stage
    env: int | None
    position: int  # the step of a playback it was at
    error: str
    traceback: str
    seconds: float  # how long it had been silent

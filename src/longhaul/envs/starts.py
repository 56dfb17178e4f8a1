"""Hard starts: positions dealt to environments instead of their usual starts."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from longhaul.core.env import Env, Episode, Start
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.core.state import State
from longhaul.envs.packed_state import pack_state, unpack_state

STARTS: Setting[tuple[SettingValue, ...]] = Setting(
    "env.starts",
    (),
    "Hard starts, dealt in order to the environments that reset next, each of them once; "
    "setting other ones begins a fresh deal",
)

STARTS_LIMIT: Setting[int] = Setting(
    "env.starts_limit",
    0,
    "Deal the hard starts over and over until this many have been dealt since the run began; "
    "0: each of them once",
    low=0,
)

STARTS_USED = "starts/used"
"""The episode metric that is 1 for an episode begun from a hard start, absent otherwise."""

STARTS_DEALT = "starts/dealt"
"""The metric that counts the episodes begun from a hard start in an iteration."""


class StartDealer:
    """Deals the offered starts in order: each once, or over and over up to a limit.

    The limit counts from the beginning of the run, so a controller that sets it need not know how
    many starts the current rollout is dealing.
    """

    def __init__(self) -> None:
        self._starts: tuple[SettingValue, ...] = ()
        self._next = 0
        self._limit = 0
        self.used = 0  # starts dealt since the beginning of the run

    def offer(self, settings: Settings) -> None:
        """Take the starts of these settings; those already being dealt continue."""
        if STARTS.name not in settings:
            return
        starts = settings[STARTS]
        if starts != self._starts:
            self._starts = starts
            self._next = 0
        self._limit = settings[STARTS_LIMIT] if STARTS_LIMIT.name in settings else 0

    def deal(self, env: int, seed: int) -> Start | None:
        """Return the next start, or None when all have been dealt.

        It is for the episode of `env` that begins with this seed, on which nothing depends here.
        """
        if not self._starts:
            return None
        if self._limit and self.used < self._limit:
            self._next %= len(self._starts)
        elif self._limit or self._next == len(self._starts):
            return None
        start = self._starts[self._next]
        self._next += 1
        self.used += 1
        return start

    def finished(self, episode: Episode) -> Episode:
        """Take note of an episode that ended; return it with what is known of its start."""
        return episode

    def state_dict(self) -> State:
        """Return the offered starts and how many of them are dealt."""
        return {
            "starts": listed(self._starts),
            "next": self._next,
            "limit": self._limit,
            "used": self.used,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue a saved deal."""
        starts = tupled(state["starts"])
        assert isinstance(starts, tuple)
        self._starts = starts
        self._next = state["next"]
        self._limit = state.get("limit", 0)  # checkpoints before there was one do not hold it
        self.used = state["used"]


def listed(value: SettingValue | None) -> Any:
    """Return a setting's value with lists for tuples, as a checkpoint holds it."""
    return [listed(item) for item in value] if isinstance(value, tuple) else value


def tupled(value: Any) -> SettingValue | None:
    """Undo `listed`."""
    if isinstance(value, (list, tuple)):
        items = (tupled(item) for item in value)
        return tuple(item for item in items if item is not None)
    assert value is None or isinstance(value, (bool, int, float, str))
    return value


STATE = "state"
"""The first element of a start that holds a whole state of the environment."""


def state_start(state: State) -> SettingValue:
    """Return the hard start that begins an episode in a state."""
    packed = zlib.compress(pack_state(state), 6)
    return (STATE, base64.b64encode(packed).decode("ascii"))


def begin_episode(env: Env, seed: int, start: Start | None) -> None:
    """Begin an episode of an environment, from its own starts or in a state it has been in.

    The state holds the environment's random generator, if it has one.
    """
    match start:
        case ("state", str() as text):
            env.reset(seed, None)
            env.restore(unpack_state(zlib.decompress(base64.b64decode(text))))
        case _:
            env.reset(seed, start)

"""Demonstrations: the decisions that solve a goal from its start, as a file that can be replayed.

A file holds decisions and what they depend on, never states of a simulator: those differ between
versions, and are made again from the decisions in less than a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np

from longhaul.core.env import Start
from longhaul.core.errors import ConfigError
from longhaul.core.search import SearchSpace, Sight

FORMAT = 1
SUFFIX = ".demo"


@dataclass(frozen=True, slots=True)
class Demo:
    """Decisions from the start of a goal to its solution."""

    task: str
    goal: str
    facts: Mapping[str, str]
    """What a replay must have in common with the search, such as the cartridge."""
    decisions: tuple[int, ...]
    end: str
    """The digest of the simulator at the end."""
    found: Mapping[str, int] = field(default_factory=dict)
    """The seed, steps and cells of the search."""

    def as_text(self) -> str:
        """Return the file's text; repeated decisions are written as `choice*times`."""
        runs = [(choice, len(tuple(same))) for choice, same in groupby(self.decisions)]
        words = [f"{choice}*{times}" if times > 1 else str(choice) for choice, times in runs]
        own = {"format": FORMAT, **asdict(self), "decisions": " ".join(words)}
        return json.dumps(own, indent=1) + "\n"


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    task: str
    goal: str
    facts: dict[str, str]
    decisions: str
    end: str
    found: dict[str, int] = {}


def load_demo(path: Path) -> Demo:
    """Return the demonstration in a file."""
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        if stored.format != FORMAT:
            raise ConfigError(
                f"{path} has format {stored.format} of demonstrations; this version of longhaul "
                f"reads format {FORMAT}"
            )
        decisions = tuple(_decisions(stored.decisions))
    except OSError as error:
        raise ConfigError(f"cannot read the demonstration {path}: {error.strerror}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path} is not a demonstration: {error}") from error
    return Demo(stored.task, stored.goal, stored.facts, decisions, stored.end, stored.found)


def _decisions(text: str) -> Iterator[int]:
    for word in text.split():
        choice, _, times = word.partition("*")
        yield from [int(choice)] * int(times or 1)


def check_facts(demo: Demo, space: SearchSpace, where: str) -> None:
    """Refuse a demonstration of another game: its decisions would lead elsewhere."""
    for name, value in demo.facts.items():
        here = space.facts.get(name, "")
        if here != value:
            raise ConfigError(
                f"{where} was found with {name} = {value}, here it is {here}: its decisions would "
                "not lead to the goal"
            )


def play(space: SearchSpace, demo: Demo) -> Iterator[Sight]:
    """Replay a demonstration in the first simulator of a space; yield what each step led to."""
    check_facts(demo, space, f"the demonstration of {demo.goal}")
    leg = 0
    space.begin()
    yield space.look()
    for choice in demo.decisions:
        sight = space.step(np.full(space.count, choice, np.int64))
        yield sight
        if sight.solved[0] and leg + 1 < space.legs:
            leg += 1
            space.begin_leg(leg)


def verify(space: SearchSpace, demo: Demo) -> bool:
    """Whether the decisions solve their goal at the last step, and end in the same state."""
    legs = 0
    for sight in play(space, demo):
        if legs == space.legs or (sight.over[0] and not sight.solved[0]):
            return False
        legs += bool(sight.solved[0])
    return bool(sight.solved[0]) and legs == space.legs and space.digest(0) == demo.end


def starts_along(space: SearchSpace, demo: Demo, every: int) -> tuple[Start, ...]:
    """Return hard starts along a demonstration, one after every so many decisions.

    The first is the earliest; the state in which the goal is reached is none of them.
    """
    found = []
    for number, sight in enumerate(play(space, demo)):
        if sight.over[0]:
            break
        if number and number % every == 0 and sight.kept[0]:
            found.append(space.start(0))
    if not found:
        raise ConfigError(
            f"the demonstration of {demo.goal} has {len(demo.decisions)} decisions, too few for a "
            f"start every {every}"
        )
    return tuple(found)

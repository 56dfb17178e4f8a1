"""Random generators derived by name from the run's one seed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


def _word(part: str | int) -> int:
    """Return a number for one element of a path; text and numbers never collide by design."""
    if isinstance(part, int):
        return part
    return int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Seeds:
    """A tree of independent random streams, one per path of names and numbers."""

    root: int

    def sequence(self, *path: str | int) -> np.random.SeedSequence:
        """Return the seed sequence at this path."""
        # A spawn key, not more entropy: entropy is padded with zeros, and paths that differ by a
        # trailing 0 would share one stream.
        return np.random.SeedSequence(self.root, spawn_key=tuple(_word(part) for part in path))

    def generator(self, *path: str | int) -> np.random.Generator:
        """Return a fresh generator at this path."""
        return np.random.Generator(np.random.PCG64(self.sequence(*path)))

    def integer(self, *path: str | int) -> int:
        """Return a number below 2**31 at this path, fit for any environment's seed.

        Hashed directly: a seed sequence costs ten times as much, and one is dealt per episode.
        """
        name = repr((self.root, *path)).encode()
        return int.from_bytes(hashlib.blake2b(name, digest_size=4).digest(), "little") >> 1


class EpisodeSeeds(Protocol):
    """Deals the seed of every episode; a pure function, so nothing has to be saved."""

    def seed(self, env: int, episode: int) -> int:
        """Return the seed of this env's `episode`-th episode, counted from 0."""


@dataclass(frozen=True, slots=True)
class DerivedSeeds:
    """Endless different seeds for training."""

    seeds: Seeds
    purpose: str = "train"

    def seed(self, env: int, episode: int) -> int:
        """Return the seed at (purpose, env, episode)."""
        return self.seeds.integer(self.purpose, env, episode)


@dataclass(frozen=True, slots=True)
class ListedSeeds:
    """A fixed list dealt round-robin to `envs` environments, then repeated; for evaluation."""

    listed: tuple[int, ...]
    envs: int

    def case(self, env: int, episode: int) -> int:
        """Return the position in the list, which runs past its end once all are dealt."""
        return env + episode * self.envs

    def seed(self, env: int, episode: int) -> int:
        """Return the listed seed."""
        return self.listed[self.case(env, episode) % len(self.listed)]


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return a generator's state as plain JSON values."""
    state = generator.bit_generator.state
    return {
        "kind": state["bit_generator"],
        "state": dict(state["state"]),
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def restore_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Continue `generator` from a saved state."""
    generator.bit_generator.state = {
        "bit_generator": state["kind"],
        "state": state["state"],
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }

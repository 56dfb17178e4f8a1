"""Messages between learner and collectors: plain arrays, which Ray sends without a copy."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from longhaul.cluster.config import EnvShare
from longhaul.cluster.ledger import Ticket
from longhaul.core.env import Array, EnvEvent, Episode
from longhaul.core.rollout import Bootstrap, Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.faults import NO_LISTENERS, Fault, Listeners, Repro
from longhaul.envs.starts import STARTS
from longhaul.runs.logs.jsonl import WriteNote
from longhaul.runs.monitor.stalls import ProgressSignal

Arrays = dict[str, Array]

STEPPED = (
    "action", "log_prob", "value", "reward", "terminated", "truncated", "started", "active",
    "forced", "lost", "mask",
)  # fmt: skip
"""Tensors of a rollout that are [T, N, ...]; observations and memory are trees of such."""


@dataclass(frozen=True, slots=True)
class PolicyWeights:
    """A policy's weights after `version` updates."""

    version: int
    arrays: Arrays

    @staticmethod
    def of(version: int, tensors: Mapping[str, Tensor]) -> PolicyWeights:
        """Return a copy of these tensors, fit to be sent."""
        return PolicyWeights(
            version,
            {name: part.detach().cpu().clone().numpy() for name, part in tensors.items()},
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights as tensors that may be written to."""
        return {name: torch.from_numpy(np.array(part)) for name, part in self.arrays.items()}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a collector; it decides nothing by itself."""

    ticket: Ticket
    settings: Settings
    is_new_deal: bool
    """Whether the hard starts in the settings are a new deal."""


@dataclass(frozen=True, slots=True)
class PackedBootstrap:
    """A `Bootstrap` as arrays."""

    step: Array
    row: Array
    obs: Arrays
    memory: Arrays
    value: Array


@dataclass(frozen=True, slots=True)
class PackedRollout:
    """A rollout as arrays, its environments numbered as in the whole run."""

    stepped: Arrays  # [T, N, ...]
    obs: Arrays  # [T, N, ...]
    memory: Arrays  # [T / chunk, N, ...]
    truncations: PackedBootstrap
    last: PackedBootstrap
    chunk: int
    episodes: tuple[Episode, ...]
    events: tuple[EnvEvent, ...]
    terms: dict[str, float]
    measures: Arrays  # [T, N]
    noise_seed: int
    env_steps: int
    starts_dealt: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """The answer to a ticket."""

    ticket: Ticket
    version: int
    """Of the weights it was made with."""
    rollout: PackedRollout
    state: State
    """State of the collector afterwards: its replacement begins here."""
    seconds: float
    """How long it took."""
    faults: tuple[Fault, ...] = ()
    repros: tuple[Repro, ...] = ()


def pack(rollout: Rollout, *, first_env: int) -> PackedRollout:
    """Return a collector's rollout as arrays; its environment 0 is the run's `first_env`."""
    stepped = {name: getattr(rollout, name) for name in STEPPED}
    return PackedRollout(
        stepped={name: part.numpy() for name, part in stepped.items() if part is not None},
        obs=_arrays(rollout.obs),
        memory=_arrays(rollout.memory),
        truncations=_packed(rollout.truncations),
        last=_packed(rollout.last),
        chunk=rollout.chunk,
        episodes=tuple(replace(one, env=one.env + first_env) for one in rollout.episodes),
        events=tuple(replace(one, env=one.env + first_env) for one in rollout.events),
        terms=rollout.terms,
        measures=_arrays(rollout.measures),
        noise_seed=rollout.noise_seed,
        env_steps=rollout.env_steps,
        starts_dealt=rollout.starts_dealt,
    )


def _arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    return {name: part.cpu().numpy() for name, part in tensors.items()}


def _packed(bootstrap: Bootstrap) -> PackedBootstrap:
    return PackedBootstrap(
        bootstrap.step.numpy(),
        bootstrap.row.numpy(),
        _arrays(bootstrap.obs),
        _arrays(bootstrap.memory),
        bootstrap.value.numpy(),
    )


def state_nbytes(state: object) -> int:
    """Return the bytes of all arrays, tensors and byte strings of a state."""
    if isinstance(state, dict):
        return sum(map(state_nbytes, state.values()))
    if isinstance(state, (list, tuple)):
        return sum(map(state_nbytes, state))
    if isinstance(state, (np.ndarray, Tensor)):
        return int(state.nbytes)
    return len(state) if isinstance(state, bytes) else 0


def nbytes(fragment: Fragment) -> int:
    """Return the bytes of a fragment's arrays, its state left out."""
    rollout = fragment.rollout
    trees = [rollout.stepped, rollout.obs, rollout.memory, rollout.measures]
    for bootstrap in (rollout.truncations, rollout.last):
        parts = {field.name: getattr(bootstrap, field.name) for field in fields(bootstrap)}
        trees += [part for part in parts.values() if isinstance(part, dict)]
        trees.append({name: part for name, part in parts.items() if not isinstance(part, dict)})
    return sum(part.nbytes for tree in trees for part in tree.values())


def no_note(event: str, **facts: Any) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Reports:
    """Where events of a cluster are reported."""

    listeners: Listeners = NO_LISTENERS
    note: WriteNote = no_note
    """Called for collectors that join and for transitions that are not used."""
    signal: ProgressSignal = field(default_factory=ProgressSignal)
    """Advanced by every fragment."""


class Recipe(Protocol):
    """Makes the collector of a share; must be picklable, so another machine can call it."""

    def __call__(self, share: EnvShare, listeners: Listeners) -> RolloutCollector:
        """Return the collector of these environments, with a separate policy."""


@dataclass(frozen=True, slots=True)
class CollectorHello:
    """Host and process of a collector."""

    host: str
    pid: int


class RemoteCollector:
    """Holds a share of the environments and a copy of the policy; decides nothing."""

    def __init__(self, recipe: Recipe, share: EnvShare, state: State | None) -> None:
        self._recipe = recipe
        self._share = share
        self._state = state
        self._faults: list[Fault] = []
        self._repros: list[Repro] = []
        self._made: RolloutCollector | None = None
        self._version: int | None = None

    def hello(self) -> CollectorHello:
        """Make the environments and return where they run.

        Not done in the constructor: Ray would hide the error.
        """
        listeners = Listeners(on_fault=self._faults.append, on_repro=self._repros.append)
        self._made = self._recipe(self._share, listeners)
        if self._state is not None:
            self._made.load_state_dict(self._state)
            self._state = None
        return CollectorHello(socket.gethostname(), os.getpid())

    @property
    def _collector(self) -> RolloutCollector:
        assert self._made is not None
        return self._made

    def collect(self, ask: Ask, weights: PolicyWeights) -> Fragment:
        """Collect with these weights and return the fragment, with the state after it."""
        began = time.perf_counter()
        if weights.version != self._version:
            self._collector.policy.load_state_dict(weights.tensors())
            self._version = weights.version
        if ask.is_new_deal:
            self._collector.env.configure(_without_starts(ask.settings))
        rollout = self._collector.collect(ask.settings)
        faults, repros = tuple(self._faults), tuple(self._repros)
        self._faults.clear()
        self._repros.clear()
        return Fragment(
            ask.ticket,
            weights.version,
            pack(rollout, first_env=self._share.first),
            self._collector.state_dict(),
            time.perf_counter() - began,
            faults,
            repros,
        )

    def close(self) -> None:
        """End the environments."""
        if self._made is not None:
            self._made.close()


def _without_starts(settings: Settings) -> Settings:
    return settings.with_([STARTS.to(())]) if STARTS.name in settings else settings

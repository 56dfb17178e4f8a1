"""A collector on some machine: told weights and settings, it answers with a fragment."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Protocol

from longhaul.cluster.messages import Ask, Fragment, Weights, pack
from longhaul.cluster.shares import EnvShare
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.faults import Fault, Listeners, Repro
from longhaul.envs.starts import STARTS


class Recipe(Protocol):
    """Makes the collector of a share; must be picklable, so that another machine can call it."""

    def __call__(self, share: EnvShare, listeners: Listeners) -> RolloutCollector:
        """Return the collector of these environments, with a policy of its own."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Where a collector lives."""

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

    def hello(self) -> Hello:
        """Make the environments and return where they live.

        Not made with the object: what goes wrong here is told by its own error.
        """
        listeners = Listeners(on_fault=self._faults.append, on_repro=self._repros.append)
        self._made = self._recipe(self._share, listeners)
        if self._state is not None:
            self._made.load_state_dict(self._state)
            self._state = None
        return Hello(socket.gethostname(), os.getpid())

    @property
    def _collector(self) -> RolloutCollector:
        assert self._made is not None
        return self._made

    def collect(self, ask: Ask, weights: Weights) -> Fragment:
        """Collect with these weights and return the fragment, with the state after it."""
        began = time.perf_counter()
        if weights.version != self._version:
            self._collector.policy.load_state_dict(weights.tensors())
            self._version = weights.version
        if ask.deals_anew:
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

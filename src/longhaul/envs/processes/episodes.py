"""The running episodes of environments elsewhere, and how to bring them back."""

from __future__ import annotations

from typing import Any

import numpy as np

from longhaul.core.env import Array, Slots
from longhaul.core.spaces import EnvSpec, Tier
from longhaul.core.state import State
from longhaul.envs.ledger import EpisodeLedger
from longhaul.envs.losses import LAST_ACTIONS
from longhaul.envs.processes.messages import Beginning, Playback, Played
from longhaul.envs.replay_log import KeptActions, observation_digest


class RunningEpisodes:
    """What is known of each env's episode: enough to play it again up to the present step."""

    def __init__(
        self, spec: EnvSpec, ledger: EpisodeLedger, log: KeptActions, slots: Slots
    ) -> None:
        self._spec = spec
        self.ledger = ledger
        self._log = log
        self.slots = slots
        self.env_id = spec.id
        self.can_replay = spec.tier in (Tier.SNAPSHOT, Tier.REPLAY)
        self.stepped: set[int] = set()  # accepted in the step under way, not yet in the ledger
        self.idle: set[int] = set(range(len(ledger.numbers)))  # between two episodes
        self.expected: dict[int, str] = {}  # digests of saved states, instead of the slots'
        self._bases: dict[int, tuple[State, int]] = {}  # native state and its tick

    def seed(self, env: int) -> int:
        """Return the seed of an env's episode."""
        return self.ledger.seeds[env]

    def steps(self, env: int) -> int:
        """Return the steps an env has been through, the one under way included once accepted."""
        return self.ledger.length(env) + (env in self.stepped)

    def step_number(self, env: int) -> int:
        """Return the number of the step an env was asked for last, 0 if it was only reset."""
        return self._log.end(self.ledger.rows(env)) - self.ledger.begun[env]

    def oldest(self) -> int:
        """Return the tick of the first action that may still be needed."""
        return min(self.oldest_of(env) for env in range(len(self.ledger.begun)))

    def oldest_of(self, env: int) -> int:
        """Return the tick of the first action of one env that may still be needed."""
        if not self.can_replay:
            return max(self.ledger.now(env) - LAST_ACTIONS, 0)
        return self._bases[env][1] if env in self._bases else self.ledger.begun[env]

    def rebase(self, env: int, snapshot: State) -> None:
        """Continue from this native state from now on, instead of from the episode's seed."""
        self._bases[env] = (snapshot, self.ledger.now(env))

    def opened(self, env: int) -> None:
        """Take note that an env's next episode is about to begin."""
        self._bases.pop(env, None)
        self.idle.add(env)

    def beginning(self, env: int, *, fresh: bool) -> Beginning:
        """Return how the env's episode begins."""
        ledger = self.ledger
        return Beginning(
            env, ledger.seeds[env], ledger.starts[env], ledger.settings[env], fresh=fresh
        )

    def playback(self, env: int, *, fresh: bool) -> Playback:
        """Return how to bring an env's episode to where it is."""
        base, tick = self._bases.get(env, (None, self.ledger.begun[env]))
        actions = self._log.since(tick, self.ledger.rows(env))
        taken = self.steps(env) - (tick - self.ledger.begun[env])
        return Playback(self.beginning(env, fresh=fresh), actions[:taken], base)

    def problem(self, played: Played) -> str:
        """Return in what a playback differs from what was seen the first time, or nothing."""
        env = played.env
        rows = self.ledger.rows(env)
        if played.over_at is not None and env not in self.idle:
            return f"ended the episode at step {played.over_at}"
        expected = self.expected.get(env)
        if expected is None:
            expected = observation_digest(self.slots, rows)
        if expected and expected != played.digest:
            return "led to another observation"
        if env in self._bases:
            return ""
        returns = self.ledger.returns[rows]
        if env in self.stepped:
            returns = returns + self.slots.reward[rows]
        return "" if np.array_equal(returns, played.returns) else "led to other rewards"

    def actions(self, env: int) -> Array:
        """Return the logged actions of an env's episode, the one under way included."""
        return self._log.since(self.ledger.begun[env], self.ledger.rows(env))

    def is_whole(self, env: int) -> bool:
        """Whether the logged actions lead from the episode's seed to the present step."""
        return self.can_replay and env not in self._bases

    def last_actions(self, env: int) -> tuple[Any, ...]:
        """Return the newest of them as plain values."""
        return tuple(self.actions(env)[-LAST_ACTIONS:].tolist())

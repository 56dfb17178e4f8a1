"""Episodes that were given up and environments that are no more: what is told and what is left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from longhaul.core.env import Ending, EnvEvent, SingleEnvs
from longhaul.core.errors import EnvError, NumericalError
from longhaul.core.state import State
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.guard import SlotGuard
from longhaul.envs.processes.episodes import RunningEpisodes
from longhaul.envs.processes.faults import Listeners
from longhaul.envs.processes.repro import make_repro
from longhaul.envs.processes.supervisor import GivenUp, Outcome

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{5,}")


class Casualties:
    """Keeps count of what was lost, and leaves rows behind that nobody can mistake for a result."""

    def __init__(
        self,
        source: SingleEnvs,
        episodes: RunningEpisodes,
        config: ProcessesConfig,
        listeners: Listeners,
    ) -> None:
        self._source = source
        self._episodes = episodes
        self._ledger = episodes.ledger
        self._slots = episodes.slots
        self._config = config
        self._listeners = listeners
        self._quarantined: set[tuple[int, int]] = set()  # env and seed
        self._dropped = 0
        self._events: list[EnvEvent] = []
        self.forsaken: set[int] = set()  # envs whose episode was given up and not yet replaced
        self.retired: set[int] = set()  # envs without a worker

    def take_events(self) -> tuple[EnvEvent, ...]:
        """Return what happened since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    @property
    def are_told(self) -> bool:
        """Whether nothing happened since the events were taken."""
        return not self._events

    def is_gone(self, env: int) -> bool:
        """Whether an env has no episode that goes on."""
        return env in self.forsaken or env in self.retired

    def take(self, outcome: Outcome) -> None:
        """Take note of what a job could not be done with; raise if too little is left."""
        for env, given_up in outcome.given_up.items():
            if env not in outcome.retired:
                self.forsake(given_up)
        for env, why in outcome.retired.items():
            self._retire(env, why)
        count = len(self._ledger.numbers)
        left = count - len(self.retired)
        if outcome.retired and left < max(1, self._config.fewest_envs * count):
            raise EnvError(
                f"{self._source.spec.id}: only {left} of {count} environments are left: "
                + "; ".join(sorted(set(outcome.retired.values())))
            )

    def forsake(self, given_up: GivenUp) -> None:
        """Record an episode that is given up; its rows lose the step under way."""
        env = given_up.env
        seed = self._ledger.seeds[env]
        self._events.append(
            EnvEvent(
                "episode_lost",
                env,
                self._ledger.numbers[env],
                self._facts(given_up),
                ends_episode=True,
            )
        )
        if given_up.quarantined:
            self._quarantined.add((env, seed))
            self._listeners.on_repro(
                make_repro(self._source, self._ledger, self._episodes, given_up)
            )
        if given_up.in_step:
            self._lose_rows(env)
        self._mend_rows(env)
        self.forsaken.add(env)
        self._episodes.stepped.discard(env)
        self._episodes.idle.add(env)
        self._refuse_too_many(given_up)

    def _facts(self, given_up: GivenUp) -> dict[str, Any]:
        env = given_up.env
        facts = {
            "env_id": self._source.spec.id,
            "seed": self._ledger.seeds[env],
            "step": self._episodes.steps(env),
            "kind": given_up.kind,
            "stage": given_up.stage,
            "error": timeless(given_up.error),
            "quarantined": given_up.quarantined,
            "last_actions": list(self._episodes.last_actions(env)),
        }
        if given_up.traceback:
            facts["traceback"] = timeless(given_up.traceback)
        return facts

    def _refuse_too_many(self, given_up: GivenUp) -> None:
        config = self._config
        if len(self._quarantined) > config.most_quarantined:
            raise EnvError(
                f"{self._source.spec.id}: {len(self._quarantined)} seeds were set aside, more than "
                f"env.processes.most_quarantined; the last one: {given_up.error}"
            )
        if given_up.kind != "unusable":
            return
        self._dropped += 1
        if self._dropped > config.most_dropped:
            raise NumericalError(
                f"{self._ledger.where(given_up.env)}: {given_up.error}; {self._dropped} "
                "transitions were dropped, more than env.processes.most_dropped"
            )

    def drop_unusable(
        self, guard: SlotGuard, endings: Sequence[tuple[int, Ending]], *, in_step: bool
    ) -> Sequence[tuple[int, Ending]]:
        """Give up the episodes of envs that wrote numbers no learner can use.

        Return the endings of the others.
        """
        dropped = set()
        stage = "step" if in_step else "reset"
        while (fault := guard.fault()) is not None:
            env = fault.row // self._source.spec.rows
            assert env not in dropped
            dropped.add(env)
            self.forsake(GivenUp(env, "unusable", stage, fault.problem, in_step=in_step))
        if not dropped:
            return endings
        return [one for one in endings if one[0] not in dropped]

    def _lose_rows(self, env: int) -> None:
        rows = self._ledger.rows(env)
        slots = self._slots
        slots.lost[rows] = True
        for flags in (slots.terminated, slots.truncated, slots.forced):
            flags[rows] = False
        for numbers in (slots.reward, *slots.terms.values()):
            numbers[rows] = 0.0

    def _mend_rows(self, env: int) -> None:
        """Leave finite numbers and a mask that allows something, until the next reset."""
        rows = self._ledger.rows(env)
        for part in self._slots.obs.values():
            if np.issubdtype(part.dtype, np.floating):
                np.nan_to_num(part[rows], copy=False)
        if self._slots.mask is not None:
            self._slots.mask[rows] = True

    def _retire(self, env: int, why: str) -> None:
        """Leave the rows of an env empty for the rest of the run."""
        if env in self.retired:
            return
        ledger = self._ledger
        self.retired.add(env)
        self.forsaken.discard(env)
        number, facts = ledger.numbers[env], {"error": why}
        self._events.append(
            EnvEvent("env_retired", env, number, facts, ends_episode=True, ends_env=True)
        )
        self._lose_rows(env)
        self._mend_rows(env)
        self._slots.active[ledger.rows(env)] = False
        self._episodes.stepped.discard(env)
        self._episodes.idle.add(env)
        if ledger.numbers[env] >= 0:
            ledger.begin(env, None, ledger.settings[env])
            self._episodes.opened(env)

    def is_set_aside(self, env: int) -> bool:
        """Whether the seed of an env's episode was set aside; if so, that is told."""
        seed = self._ledger.seeds[env]
        if (env, seed) not in self._quarantined:
            return False
        number = self._ledger.numbers[env]
        facts = {"seed": seed}
        self._events.append(EnvEvent("seed_skipped", env, number, facts, ends_episode=True))
        return True

    def state_dict(self) -> State:
        """Return the counts that decide what happens later."""
        return {
            "quarantined": [list(one) for one in sorted(self._quarantined)],
            "dropped": self._dropped,
            "retired": sorted(self.retired),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on with saved counts; envs that had no worker have one again."""
        self._quarantined = {(env, seed) for env, seed in state["quarantined"]}
        self._dropped = state["dropped"]


def timeless(text: str) -> str:
    """Return a text without addresses in memory, which differ from process to process."""
    return _ADDRESS.sub("0x...", text)

"""Quarantined seeds, and environments without a worker."""

from __future__ import annotations

from longhaul.core.env import EnvEvent, SingleEnvs
from longhaul.core.errors import EnvError
from longhaul.core.state import State
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import AbandonedEpisode, Listeners, LostEpisodes
from longhaul.envs.processes.repro import RunningEpisodes, make_repro
from longhaul.envs.processes.supervisor import JobOutcome


class Casualties:
    """Counts the episodes, seeds and environments lost with failing workers."""

    def __init__(
        self,
        source: SingleEnvs,
        episodes: RunningEpisodes,
        losses: LostEpisodes,
        config: ProcessesConfig,
        listeners: Listeners,
    ) -> None:
        self._source = source
        self._episodes = episodes
        self._losses = losses
        self._ledger = episodes.ledger
        self._slots = episodes.slots
        self._config = config
        self._listeners = listeners
        self._quarantined: set[tuple[int, int]] = set()  # env and seed
        self.retired: set[int] = set()  # envs without a worker

    def is_gone(self, env: int) -> bool:
        """Whether an env has no running episode."""
        return env in self._losses.abandoned or env in self.retired

    def take(self, outcome: JobOutcome) -> None:
        """Record the failures of a job; raise if too few environments are left."""
        for env, given_up in outcome.given_up.items():
            if env not in outcome.retired:
                self.abandon(given_up)
        for env, why in outcome.retired.items():
            self._retire(env, why)
        count = len(self._ledger.numbers)
        left = count - len(self.retired)
        if outcome.retired and left < max(1, self._config.fewest_envs * count):
            raise EnvError(
                f"{self._source.spec.id}: only {left} of {count} environments are left: "
                + "; ".join(sorted(set(outcome.retired.values())))
            )

    def abandon(self, given_up: AbandonedEpisode) -> None:
        """Record an abandoned episode; the outcome of the current step is lost."""
        env = given_up.env
        if given_up.quarantined:
            self._quarantined.add((env, self._ledger.seeds[env]))
            self._listeners.on_repro(
                make_repro(self._source, self._ledger, self._episodes, given_up)
            )
        self._losses.abandon(given_up, step=self._episodes.step_number(env))
        self._episodes.stepped.discard(env)
        self._episodes.idle.add(env)
        self._refuse_too_many(given_up)

    def _refuse_too_many(self, given_up: AbandonedEpisode) -> None:
        if len(self._quarantined) > self._config.most_quarantined:
            raise EnvError(
                f"{self._source.spec.id}: {len(self._quarantined)} seeds are quarantined, more "
                f"than env.processes.most_quarantined; the last one: {given_up.error}"
            )

    def _retire(self, env: int, why: str) -> None:
        """Leave the rows of an env empty for the rest of the run."""
        if env in self.retired:
            return
        ledger = self._ledger
        self.retired.add(env)
        self._losses.abandoned.discard(env)
        number, facts = ledger.numbers[env], {"error": why}
        self._losses.add_event(
            EnvEvent("env_retired", env, number, facts, ends_episode=True, ends_env=True)
        )
        self._losses.lose_rows(env)
        self._losses.mend_rows(env)
        self._slots.active[ledger.rows(env)] = False
        self._episodes.stepped.discard(env)
        self._episodes.idle.add(env)
        if ledger.numbers[env] >= 0:
            ledger.begin(env, None, ledger.settings[env])
            self._episodes.opened(env)

    def is_quarantined(self, env: int) -> bool:
        """Whether the seed of an env's episode is quarantined; adds an event if so."""
        seed = self._ledger.seeds[env]
        if (env, seed) not in self._quarantined:
            return False
        number = self._ledger.numbers[env]
        facts = {"seed": seed}
        self._losses.add_event(EnvEvent("seed_skipped", env, number, facts, ends_episode=True))
        return True

    def state_dict(self) -> State:
        """Return the counts that decide what happens later."""
        return {
            "quarantined": [list(one) for one in sorted(self._quarantined)],
            "retired": sorted(self.retired),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue with saved counts; envs that had no worker have one again."""
        self._quarantined = {(env, seed) for env, seed in state["quarantined"]}

"""Which episode each environment is in: number, seed, start, length and return so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np

from longhaul.core.env import Ending, Episode, Floats, Start
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.envs.starts import STARTS_USED, StartDealer, listed, tupled


class EpisodeLedger:
    """The running episode of every environment; lengths are kept as the tick it began at."""

    def __init__(self, spec: EnvSpec, count: int, seeds: EpisodeSeeds) -> None:
        self._spec = spec
        self._dealt = seeds
        self.tick = 0
        self.numbers = [-1] * count
        self.seeds = [0] * count
        self.starts: list[Start | None] = [None] * count
        self.settings: list[Settings | None] = [None] * count  # at the episode's start
        self.begun = [0] * count
        self.returns = np.zeros(count * spec.rows, np.float64)

    def begin(self, env: int, dealer: StartDealer | None, settings: Settings | None) -> None:
        """Open the next episode of `env`, from the start that is dealt to it if there is one."""
        self.numbers[env] += 1
        self.seeds[env] = self._dealt.seed(env, self.numbers[env])
        self.starts[env] = None if dealer is None else dealer.deal(env, self.seeds[env])
        self.settings[env] = settings
        self.reopen(env)

    def reopen(self, env: int) -> None:
        """Count the present episode of `env` from its beginning."""
        self.begun[env] = self.now(env)
        self.returns[self.rows(env)] = 0.0

    def advance(self, reward: Floats) -> None:
        """Count one step of every environment."""
        self.tick += 1
        self.returns += reward

    def finish(self, env: int, ending: Ending) -> Episode:
        """Return the record of the episode that just ended in `env`."""
        metrics = dict(ending.metrics)
        if self.starts[env] is not None:
            metrics[STARTS_USED] = 1.0
        return Episode(
            env=env,
            number=self.numbers[env],
            seed=self.seeds[env],
            length=self.length(env),
            episode_return=self._return(env),
            reason=ending.reason,
            metrics=metrics,
            facts=ending.facts,
        )

    def _return(self, env: int) -> float:
        returns = self.returns[self.rows(env)]
        return float(returns[0] if self._spec.rows == 1 else returns.mean())

    def length(self, env: int) -> int:
        """Return the steps taken in the present episode of `env`."""
        return self.now(env) - self.begun[env]

    def now(self, env: int) -> int:
        """Return the tick `env` has come to."""
        return self.tick

    def rows(self, env: int) -> slice:
        """Return the rows of `env`."""
        return slice(env * self._spec.rows, (env + 1) * self._spec.rows)

    def where(self, env: int, step: int | None = None) -> str:
        """Return the place of a failure: env id, number, seed and step, the last done if None."""
        step = self.length(env) if step is None else step
        return f"{self._spec.id}, env {env}, seed {self.seeds[env]}, step {step}"

    def state_dict(self) -> State:
        """Return all running episodes."""
        known: list[dict[str, SettingValue]] = []
        used: list[int | None] = []
        for settings in self.settings:
            if settings is None:
                used.append(None)
                continue
            values = settings.values()
            if values not in known:
                known.append(values)
            used.append(known.index(values))
        return {
            "numbers": np.array(self.numbers, np.int64),
            "seeds": np.array(self.seeds, np.int64),
            "lengths": np.array([self.length(env) for env in range(len(self.begun))], np.int64),
            "returns": self.returns.copy(),
            "starts": [listed(start) for start in self.starts],
            "known_settings": [saved_settings(values) for values in known],
            "settings": used,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue with saved episodes."""
        lengths = [int(length) for length in state["lengths"]]
        known = [restored_settings(values) for values in state["known_settings"]]
        self.tick = max(lengths)
        self.numbers = [int(number) for number in state["numbers"]]
        self.seeds = [int(seed) for seed in state["seeds"]]
        self.begun = [self.tick - length for length in lengths]
        self.returns[...] = state["returns"]
        self.starts = [tupled(start) for start in state["starts"]]
        self.settings = [None if index is None else known[index] for index in state["settings"]]


class OwnPaceLedger(EpisodeLedger):
    """The same for environments that do not step together: each has a separate tick."""

    def __init__(self, spec: EnvSpec, count: int, seeds: EpisodeSeeds) -> None:
        super().__init__(spec, count, seeds)
        self._ticks = [0] * count

    def now(self, env: int) -> int:
        """Return the tick `env` has come to."""
        return self._ticks[env]

    def advance_some(self, envs: Iterable[int], reward: Floats) -> None:
        """Count one step of these environments."""
        for env in envs:
            self._ticks[env] += 1
            rows = self.rows(env)
            self.returns[rows] += reward[rows]

    def load_state_dict(self, state: State) -> None:
        """Continue with saved episodes."""
        super().load_state_dict(state)
        self._ticks = [int(length) for length in state["lengths"]]
        self.begun = [0] * len(self._ticks)


def saved_settings(values: dict[str, SettingValue]) -> State:
    """Return setting values as a checkpoint holds them."""
    return {name: listed(value) for name, value in values.items()}


def restored_settings(state: State) -> Settings:
    """Return settings with saved values; bounds belong to the run and are not needed to read."""
    values = {name: tupled(saved) for name, saved in state.items()}
    # Each declaration has the type of its value, which list types cannot express.
    declared = [Setting(name, cast(float, value), "restored") for name, value in values.items()]
    return Settings(declared)

"""The base of vector envs: autoreset, final observations, episodes, checks and state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Episode, Finals, Step, StepBuffers, empty_actions
from longhaul.core.errors import CheckpointError, ConfigError, EnvError, NumericalError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Continuous, EnvSpec, Tier
from longhaul.core.state import State
from longhaul.envs.faults import LAST_ACTIONS, AbandonedEpisode, FaultPolicy, LostEpisodes
from longhaul.envs.guard import BadRow as SlotFault
from longhaul.envs.guard import SlotGuard, loose_row
from longhaul.envs.ledger import EpisodeLedger, restored_settings, saved_settings
from longhaul.envs.replay_log import ActionLog, KeptActions, observation_digest, replay_mismatch
from longhaul.envs.starts import StartDealer


class Lockstep(ABC):
    """A VectorEnv over simulators; a subclass resets and steps them."""

    def __init__(
        self,
        spec: EnvSpec,
        count: int,
        seeds: EpisodeSeeds,
        faults: FaultPolicy | None = None,
        dealer: StartDealer | None = None,
    ) -> None:
        if count < 1:
            raise ConfigError(f"env.count = {count}: at least one environment is required")
        self._spec = spec
        self._count = count
        self._slots, self._actions = self._allocate()
        self._ledger = self._make_ledger(seeds)
        self._dealer = dealer or StartDealer()
        self._guard = SlotGuard(spec, self._slots)
        self._log = self._make_log()
        faults = faults or FaultPolicy()
        self._listeners = faults.listeners
        self._losses = LostEpisodes(
            spec, self._ledger, self._slots, self._last_actions, most_dropped=faults.most_dropped
        )
        self._is_continuous = isinstance(spec.action, Continuous)
        self._settings: Settings | None = None
        self._running = False
        self._any_started = True
        # A step in which nothing ended always has the same record.
        self._uneventful = Step(self._slots, None, ())

    def _allocate(self) -> tuple[StepBuffers, Array]:
        """Return the arrays the simulators write, and those they read their actions from."""
        rows = self._count * self._spec.rows
        return StepBuffers.allocate(self._spec, rows), empty_actions(self._spec, rows)

    def _make_ledger(self, seeds: EpisodeSeeds) -> EpisodeLedger:
        """Return the record of running episodes."""
        return EpisodeLedger(self._spec, self._count, seeds)

    def _make_log(self) -> KeptActions:
        """Return the log of their actions."""
        return ActionLog(self._spec.action, self._actions.shape, self._oldest_tick)

    def _oldest_tick(self) -> int:
        """Return the tick of the first action that may still be needed."""
        if self._spec.tier is Tier.REPLAY:
            return min(self._ledger.begun)
        return max(self._ledger.tick - LAST_ACTIONS, 0)

    def _last_actions(self, env: int) -> list[Any]:
        """Return the newest actions of an env's episode as plain values."""
        ledger = self._ledger
        actions: list[Any] = self._log.since(ledger.begun[env], ledger.rows(env)).tolist()
        return actions[-LAST_ACTIONS:]

    def _step_number(self, env: int) -> int:
        """Return the number of the last requested step of an env, 0 after a reset."""
        return self._log.end(self._ledger.rows(env)) - self._ledger.begun[env]

    def _where(self, env: int) -> str:
        """Return the place of a failure that happens now."""
        return self._ledger.where(env, self._step_number(env))

    @abstractmethod
    def _begin(self, envs: Sequence[int], settings: Settings | None) -> None:
        """Configure and reset `envs` with the seeds and starts of the ledger."""

    @abstractmethod
    def _advance(self) -> Sequence[tuple[int, Ending]]:
        """Step every simulator with the accepted actions; return those that are over, in order."""

    @abstractmethod
    def _advance_one(self, env: int, actions: Array) -> bool:
        """Step one simulator with `actions` [spec.rows, ...]; return whether it is over."""

    @abstractmethod
    def _snapshots(self) -> State:
        """Return the native state of all simulators (tier snapshot)."""

    @abstractmethod
    def _restore(self, snapshots: State) -> None:
        """Continue all simulators from their native state (tier snapshot)."""

    @abstractmethod
    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one environment."""

    @abstractmethod
    def close(self) -> None:
        """End all environments."""

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one environment."""
        return self._spec

    @property
    def count(self) -> int:
        """Number of environments."""
        return self._count

    @property
    def rows(self) -> int:
        """Number of rows over all environments, env-major."""
        return self._count * self._spec.rows

    @property
    def slots(self) -> StepBuffers:
        """The present observations and flags, overwritten by each step."""
        return self._slots

    @property
    def starts_used(self) -> int:
        """Hard starts dealt since the beginning of the run."""
        return self._dealer.used

    def configure(self, settings: Settings) -> None:
        """Hand settings to the environments; each uses them from its next reset."""
        self._settings = settings
        self._dealer.offer(settings)

    def reset(self) -> None:
        """Begin the next episode in every environment."""
        self._running = True
        self._begin_next(range(self._count))
        self._begin_abandoned()

    def step(self, actions: Array) -> Step:
        """Act in every row; ended environments come back already reset."""
        self._accept(actions)  # a_t [N, ...] into the simulators' buffer and the action log
        slots = self._slots
        if self._any_started:  # the marks of the last step's resets hold for one step only
            slots.started[:] = False
            slots.lost[:] = False
            self._any_started = False
        endings = self._advance()  # writes o_{t+1}, r_t, terminated and truncated into the slots
        self._ledger.advance(slots.reward)
        endings = self._drop_unusable(endings, in_step=True)  # invalid numbers end an episode
        step = self._uneventful
        # Autoreset: copy what ended, then overwrite its slots with the next episode's first
        # observation. A row may end before its env does; counting flags is the cheapest test.
        if (
            endings
            or self._spec.rows > 1
            or np.count_nonzero(slots.terminated)
            or np.count_nonzero(slots.truncated)
        ):
            step = self._finish(endings)
        self._begin_abandoned()  # the next episode wherever one was given up
        return self._with_events(step)

    def _with_events(self, step: Step) -> Step:
        """Return the step with what happened to episodes since the last one."""
        if self._losses.has_no_events:
            return step
        self._any_started = True  # the next step clears the marks of lost rows
        return replace(step, events=self._losses.take_events())

    def state_dict(self) -> State:
        """Return everything needed to continue exactly, as far as the env's tier allows."""
        state: State = {
            "env": self._spec.id,
            "tier": self._spec.tier.value,
            "count": self._count,
            "rows": self._spec.rows,
            "running": self._running,
            "ledger": self._ledger.state_dict(),
            "dealer": self._dealer.state_dict(),
            "settings": None if self._settings is None else saved_settings(self._settings.values()),
            "flags": {name: flag.copy() for name, flag in self._slots.unrestored().items()},
            "losses": self._losses.state_dict(),
        }
        if self._running and self._spec.tier is Tier.SNAPSHOT:
            state["snapshots"] = self._snapshots()
        elif self._running and self._spec.tier is Tier.REPLAY:
            state["replay"] = self._replay_state()
        return state

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; what the tier cannot restore begins its next episode."""
        self._refuse_foreign(state)
        self._ledger.load_state_dict(state["ledger"])
        self._dealer.load_state_dict(state["dealer"])
        self._losses.load_state_dict(state.get("losses", self._losses.state_dict()))
        self._log.restart(self._ledger)
        values = state["settings"]
        self._settings = None if values is None else restored_settings(values)
        self._running = state["running"]
        if not self._running:
            return
        match self._spec.tier:
            case Tier.SNAPSHOT:
                self._begin_restored()
                self._restore(state["snapshots"])
            case Tier.REPLAY:
                self._replay(state["replay"])
            case Tier.RESTART | Tier.NONE:
                self._restart_episodes()
                return
        for name, flag in self._slots.unrestored().items():
            flag[...] = state["flags"][name]
        self._any_started = True

    def _begin_restored(self) -> None:
        """Configure and reset every simulator before it gets its native state."""
        for env in range(self._count):
            self._begin([env], self._ledger.settings[env])

    def begin_again(self, env: int) -> None:
        """Reset one simulator to where its episode began; the others stay where they are."""
        self._ledger.reopen(env)
        self._begin([env], self._ledger.settings[env])
        self._mark_started([env])

    def _accept(self, actions: Array) -> None:
        """Copy the actions to where the simulators read them, and into the log."""
        if not self._running:
            raise EnvError(f"{self._spec.id}: reset() must be called before step()")
        if actions.shape != self._actions.shape:
            raise EnvError(
                f"{self._spec.id}: actions have shape {actions.shape}, not {self._actions.shape}"
            )
        np.copyto(self._actions, actions)
        self._refuse_non_finite_actions()
        self._log.append(self._actions)

    def _refuse_non_finite_actions(self) -> None:
        if self._is_continuous and not np.isfinite(self._actions).all():
            row = int(np.argwhere(~np.isfinite(self._actions))[0][0])
            where = self._ledger.where(row // self._spec.rows)
            raise NumericalError(f"{where}: the policy's action is {self._actions[row].tolist()}")

    def _drop_unusable(
        self, endings: Sequence[tuple[int, Ending]], *, in_step: bool
    ) -> Sequence[tuple[int, Ending]]:
        """Abandon the episodes of envs that wrote invalid values.

        Return the endings of the others.
        """
        stage = "step" if in_step else "reset"
        while (fault := self._find_fault()) is not None:
            env = fault.row // self._spec.rows
            assert env not in self._losses.abandoned
            self._refuse(AbandonedEpisode(env, "unusable", stage, fault.problem, in_step=in_step))
        abandoned = self._losses.abandoned
        if not abandoned:
            return endings
        return [one for one in endings if one[0] not in abandoned]

    def _find_fault(self) -> SlotFault | None:
        """Return the first row with an invalid value."""
        return self._guard.fault()

    def _refuse(self, given_up: AbandonedEpisode) -> None:
        """Report a fault of an env in this process and abandon its episode."""
        step = self._step_number(given_up.env)
        self._listeners.on_fault(self._losses.fault(given_up, step=step))
        self._abandon(given_up)

    def _abandon(self, given_up: AbandonedEpisode) -> None:
        """Abandon an episode; `_begin_abandoned` begins the next one."""
        self._losses.abandon(given_up, step=self._step_number(given_up.env))

    def _begin_abandoned(self) -> None:
        """Begin the next episode wherever one was abandoned, until all envs run."""
        abandoned = self._losses.abandoned
        while abandoned:
            envs = sorted(abandoned)
            abandoned.clear()
            self._begin_next(envs)

    def _finish(self, endings: Sequence[tuple[int, Ending]]) -> Step:
        """Record what ended, and begin the next episodes."""
        finals, episodes = self._conclude(endings, self._slots.terminated | self._slots.truncated)
        if finals is None and not endings:
            return self._uneventful
        if endings:
            self._begin_next([env for env, _ in endings])
        return Step(self._slots, finals, episodes)

    def _conclude(
        self, endings: Sequence[tuple[int, Ending]], ended: NDArray[np.bool_]
    ) -> tuple[Finals | None, tuple[Episode, ...]]:
        """Return the last observations of ended rows, copied, and the records of episodes."""
        rows = np.flatnonzero(ended)
        if rows.size == 0 and not endings:
            return None, ()
        finals = Finals(rows, {name: part[rows] for name, part in self._slots.obs.items()})
        over = [env for env, _ in endings]
        if (loose := loose_row(self._spec, self._slots.active, ended, over)) is not None:
            env = loose.row // self._spec.rows
            raise EnvError(f"{self._where(env)}: {loose.problem}")
        ended_now = (self._ledger.finish(env, ending) for env, ending in endings)
        episodes = tuple(map(self._dealer.finished, ended_now))
        return finals if rows.size else None, episodes

    def _begin_next(self, envs: Sequence[int]) -> None:
        for env in envs:
            self._ledger.begin(env, self._dealer, self._settings)
        self._begin(envs, self._settings)
        self._mark_started([env for env in envs if env not in self._losses.abandoned])
        self._drop_unusable((), in_step=False)

    def _mark_started(self, envs: Sequence[int]) -> None:
        for env in envs:
            self._slots.started[self._ledger.rows(env)] = True
        self._any_started = True

    def _refuse_foreign(self, state: State) -> None:
        saved = (state["env"], state["tier"], state["count"], state["rows"])
        here = (self._spec.id, self._spec.tier.value, self._count, self._spec.rows)
        if saved != here:
            raise CheckpointError(
                "the saved environments are {2} of {0!r} (tier {1}, {3} rows each), "
                "this run has {6} of {4!r} (tier {5}, {7} rows each); "
                "resume with the config of the run".format(*saved, *here)
            )

    def _replay_state(self) -> State:
        ledger = self._ledger
        envs = range(self._count)
        logs = [self._log.since(ledger.begun[env], ledger.rows(env)) for env in envs]
        return {
            "actions": np.concatenate(logs),
            "digests": [observation_digest(self._slots, ledger.rows(env)) for env in envs],
        }

    def _replay(self, replay: State) -> None:
        """Replay every simulator from its seed and actions, and check it."""
        for env, actions in enumerate(self._refilled_log(replay)):
            self._replay_one(env, actions.astype(self._actions.dtype), replay["digests"][env])

    def _refilled_log(self, replay: State) -> list[Array]:
        """Put the saved actions back into the log; return those of each env."""
        ends = np.cumsum([self._ledger.length(env) for env in range(self._count)])
        pieces = np.split(replay["actions"], ends[:-1])
        self._log.refill(self._ledger, pieces)
        return pieces

    def _replay_one(self, env: int, actions: Array, digest: str) -> None:
        ledger = self._ledger
        rows = ledger.rows(env)
        self._begin([env], ledger.settings[env])
        if env in self._losses.abandoned:
            raise replay_mismatch(ledger.where(env), "failed at its reset")
        reward = self._slots.reward[rows]
        returns = np.zeros(self._spec.rows, np.float64)
        for step, action in enumerate(actions):
            over = self._advance_one(env, action)
            returns += reward
            if over:
                found = f"ended the episode at step {step + 1}"
                raise replay_mismatch(ledger.where(env), found)
        if observation_digest(self._slots, rows) != digest:
            raise replay_mismatch(ledger.where(env), "led to another observation")
        if not np.array_equal(returns, ledger.returns[rows]):
            raise replay_mismatch(ledger.where(env), "led to other rewards")

    def _restart_episodes(self) -> None:
        """Begin the same episode if no step of it was played, else the next one."""
        envs = range(self._count)
        for env in envs:
            if self._ledger.length(env):
                self._ledger.begin(env, self._dealer, self._settings)
            else:
                self._ledger.reopen(env)
        for env in envs:
            self._begin([env], self._ledger.settings[env])
        self._mark_started(envs)
        self._drop_unusable((), in_step=False)
        self._begin_abandoned()

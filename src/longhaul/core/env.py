"""Environments: one simulator, many simulators in arrays, and the vector the engine steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from longhaul.core.settings import Settings, SettingValue
from longhaul.core.spaces import Continuous, EnvSpec, MultiDiscrete
from longhaul.core.state import State, Stateful

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]
Observation = dict[str, Array]
Start = SettingValue
"""A hard start: whatever the env's own `starts` setting holds, one element of it."""


@dataclass(frozen=True, slots=True)
class StepBuffers:
    """The arrays a step is written into, [rows, ...]; each env writes a view of its rows."""

    obs: Observation
    reward: Floats
    terminated: Bools
    truncated: Bools
    started: Bools  # this observation is the first of an episode
    active: Bools  # the row is there to act on this observation
    forced: Bools  # the last action was not the policy's choice
    lost: Bools  # what the last action led to is not known: its env failed, another episode began
    mask: Bools | None  # [rows, choices], True where allowed
    terms: dict[str, Floats]
    measures: dict[str, Floats] = field(default_factory=dict)

    @staticmethod
    def allocate(spec: EnvSpec, rows: int) -> StepBuffers:
        """Return zeroed arrays for `rows` rows."""

        def flags(*, value: bool) -> Bools:
            return np.full(rows, value, dtype=np.bool_)

        return StepBuffers(
            obs={
                name: np.zeros((rows, *part.shape), dtype=part.dtype)
                for name, part in spec.observation.items()
            },
            reward=np.zeros(rows, np.float32),
            terminated=flags(value=False),
            truncated=flags(value=False),
            started=flags(value=True),
            active=flags(value=True),
            forced=flags(value=False),
            lost=flags(value=False),
            mask=np.ones((rows, spec.choices), np.bool_) if spec.has_masks else None,
            terms={name: np.zeros(rows, np.float32) for name in spec.terms},
            measures={name: np.zeros(rows, np.float32) for name in spec.measures},
        )

    def unrestored(self) -> dict[str, Array]:
        """Return the small arrays that simulators do not restore."""
        return {
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "started": self.started,
            "active": self.active,
            "forced": self.forced,
            **{f"term.{name}": term for name, term in self.terms.items()},
        }

    def view(self, begin: int, end: int) -> StepBuffers:
        """Return views of rows `begin` to `end`; writing them writes these arrays."""
        rows = slice(begin, end)
        return StepBuffers(
            obs={name: part[rows] for name, part in self.obs.items()},
            reward=self.reward[rows],
            terminated=self.terminated[rows],
            truncated=self.truncated[rows],
            started=self.started[rows],
            active=self.active[rows],
            forced=self.forced[rows],
            lost=self.lost[rows],
            mask=None if self.mask is None else self.mask[rows],
            terms={name: term[rows] for name, term in self.terms.items()},
            measures={name: part[rows] for name, part in self.measures.items()},
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How an env's episode ended."""

    reason: str
    metrics: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(
        default_factory=dict
    )  # plain JSON values other than single numbers


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode; the return is the mean over the env's rows."""

    env: int
    number: int
    seed: int
    length: int
    episode_return: float
    reason: str
    metrics: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finals:
    """The last observations of rows that ended in a step, copied before their reset."""

    rows: NDArray[np.int64]  # [K]
    obs: Observation  # [K, ...]


@dataclass(frozen=True, slots=True)
class EnvEvent:
    """A change of an env other than by its actions; it holds no clock times and no pids."""

    event: str
    env: int
    number: int  # of the episode it happened in
    facts: dict[str, Any] = field(default_factory=dict)
    ends_episode: bool = False  # the episode was given up: it will never be in `Step.episodes`
    ends_env: bool = False  # nor will any later one of this env

    def as_row(self) -> dict[str, Any]:
        """Return the event as plain values for the run's events."""
        return {"event": self.event, "env": self.env, "episode": self.number, **self.facts}


@dataclass(frozen=True, slots=True)
class Step:
    """One vector step; `slots` is overwritten by the next one, the rest is the reader's."""

    slots: StepBuffers
    finals: Finals | None
    episodes: tuple[Episode, ...]
    events: tuple[EnvEvent, ...] = ()


class Simulator(Protocol):
    """What one simulator and a batch of them have in common; both write into bound slots."""

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one simulator."""

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays from the next call on: `spec.rows` rows per simulator."""

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each simulator's next reset on."""

    def snapshot(self) -> State:
        """Return the state in mid-episode (tier A only)."""

    def restore(self, state: State) -> None:
        """Continue from a snapshot and write the slots (tier A only)."""

    def close(self) -> None:
        """Free what is held."""


class Env(Simulator, Protocol):
    """One simulator with one or more rows."""

    def reset(self, seed: int, start: Start | None) -> None:
        """Begin an episode: write obs, active and mask."""

    def step(self, actions: Array) -> Ending | None:
        """Act with `actions` [rows, ...]; write all but `started`; return how it ended."""

    def frame(self) -> NDArray[np.uint8] | None:
        """Return the present picture [height, width, 3], or None if there is none."""


class BatchedEnv(Simulator, Protocol):
    """Many simulators in preallocated arrays, stepped by native code without the GIL."""

    @property
    def count(self) -> int:
        """How many simulators there are."""

    @property
    def over(self) -> Bools:
        """[count], True for simulators whose episode ended in the last step."""

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin an episode in each of `envs`."""

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step simulators `begin` to `end`; safe to call at once for disjoint ranges.

        `actions` holds the rows of all simulators.
        """

    def ending(self, env: int) -> Ending:
        """Return how the episode of `env`, which is over, ended."""

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one simulator."""


class VectorEnv(Stateful, Protocol):
    """All environments of a collector, in lock step, with same-step autoreset."""

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one environment."""

    @property
    def count(self) -> int:
        """Number of environments."""

    @property
    def rows(self) -> int:
        """Number of rows over all environments, env-major."""

    @property
    def slots(self) -> StepBuffers:
        """The present observations and flags, overwritten by each step."""

    @property
    def starts_used(self) -> int:
        """Hard starts dealt since the beginning of the run."""

    def reset(self) -> None:
        """Begin the next episode in every environment."""

    def step(self, actions: Array) -> Step:
        """Act in every row; ended environments come back already reset."""

    def configure(self, settings: Settings) -> None:
        """Hand settings to the environments; each uses them from its next reset."""

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one environment."""

    def close(self) -> None:
        """End all environments."""


@runtime_checkable
class StepTimed(Protocol):
    """A vector env that knows how long the steps of each of its envs take."""

    def step_times(self) -> NDArray[np.int64]:
        """Return [count, 2]: nanoseconds spent in steps so far, and how many those were."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows whose last action has an outcome; only these rows of the step's slots mean anything."""

    rows: NDArray[np.int64]  # all rows of the envs that answered, ascending
    step: Step


class FirstComeEnv(VectorEnv, Protocol):
    """Environments that need not wait for each other; `step` waits for all of them."""

    def send(self, rows: NDArray[np.int64], actions: Array) -> None:
        """Act in these rows, all rows of their envs, with `actions` [len(rows), ...]; no waiting.

        Envs that no longer exist are skipped.
        """

    def gather(self, share: float) -> Arrivals:
        """Return once at least this share of the envs has answered; 1 waits for all."""


class NativeForms(Protocol):
    """How an environment itself writes observations and actions, where parts and rows differ."""

    def parts(self, observation: Any) -> Observation:
        """Return one observation, as the environment returns it, as its parts."""

    def native_action(self, action: Array) -> Any:
        """Return a policy's action of one row as the environment takes it."""


@dataclass(frozen=True, slots=True)
class SingleEnvs:
    """Envs made one by one; `make` must be picklable for worker processes."""

    spec: EnvSpec
    make: Callable[[], Env]
    prefers_processes: bool = False
    """Whether `env.runtime = "auto"` should keep them out of the trainer's process, because they
    may crash or because one step of them costs more than a message between processes."""
    make_drawn: Callable[[], Env] | None = None
    """Makes an env that draws itself, where those of `make` do not."""
    compiles: bool = False
    """Whether the first one on a machine compiles native code, which takes a while."""
    forms: NativeForms | None = None
    """How agents translate for callers that step such an environment themselves."""
    unavailable: str = ""
    """Why none can be made on this machine, and the remedy; empty if they can."""


@dataclass(frozen=True, slots=True)
class BatchedEnvs:
    """Envs made many at a time."""

    spec: EnvSpec
    make: Callable[[int], BatchedEnv]

    @property
    def compiles(self) -> bool:
        """Whether the first ones of a machine compile native code: they are made of it."""
        return True


EnvSource = SingleEnvs | BatchedEnvs


def empty_actions(spec: EnvSpec, rows: int) -> Array:
    """Return zeroed actions for `rows` rows, in the env's dtype."""
    match spec.action:
        case Continuous(low):
            return np.zeros((rows, len(low)), np.float32)
        case MultiDiscrete(counts):
            return np.zeros((rows, len(counts)), np.int64)
        case _:
            return np.zeros(rows, np.int64)


IDLE = "idle"


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker process is doing."""

    worker: int
    pid: int
    stage: str
    env: int | None
    """The environment it is busy with, if any."""
    signs: int
    """Grows with every sign of life."""


class Workers(Protocol):
    """A group of worker processes; safe to ask from another thread."""

    def states(self) -> tuple[WorkerState, ...]:
        """Return what each of them is doing now."""

    def stack(self, worker: int) -> str:
        """Return where a worker is in its program, empty if it does not say."""

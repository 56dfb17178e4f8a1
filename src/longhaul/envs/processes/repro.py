"""Recording a failure so it can be reproduced, and reproducing it in an isolated process."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from longhaul.core.env import Array, Env, SingleEnvs, StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.core.spaces import (
    ActionSpec,
    Continuous,
    Discrete,
    EnvSpec,
    MultiDiscrete,
    Part,
    Tier,
)
from longhaul.core.state import State
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import LAST_ACTIONS, AbandonedEpisode, Repro
from longhaul.envs.ledger import EpisodeLedger, restored_settings, saved_settings
from longhaul.envs.processes.fleet import Fleet
from longhaul.envs.processes.mailbox import Mailbox
from longhaul.envs.processes.messages import (
    Beginning,
    EpisodeReplay,
    Kind,
    Order,
    ReplayedEpisode,
    WorkerLoss,
    WorkerStage,
)
from longhaul.envs.replay_log import KeptActions, observation_digest
from longhaul.envs.starts import listed, tupled


class RunningEpisodes:
    """What is needed to replay each env's episode up to the present step."""

    def __init__(
        self, spec: EnvSpec, ledger: EpisodeLedger, log: KeptActions, slots: StepBuffers
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
        """Return the steps an env has been through, including the current one once accepted."""
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
        """Record that an env's next episode is about to begin."""
        self._bases.pop(env, None)
        self.idle.add(env)

    def beginning(self, env: int, *, fresh: bool) -> Beginning:
        """Return how the env's episode begins."""
        ledger = self.ledger
        return Beginning(
            env, ledger.seeds[env], ledger.starts[env], ledger.settings[env], fresh=fresh
        )

    def playback(self, env: int, *, fresh: bool) -> EpisodeReplay:
        """Return how to replay an env's episode up to now."""
        base, tick = self._bases.get(env, (None, self.ledger.begun[env]))
        actions = self._log.since(tick, self.ledger.rows(env))
        taken = self.steps(env) - (tick - self.ledger.begun[env])
        return EpisodeReplay(self.beginning(env, fresh=fresh), actions[:taken], base)

    def problem(self, played: ReplayedEpisode) -> str:
        """Return how a playback differs from the original episode, or an empty text."""
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
        """Return the logged actions of an env's episode, including the current one."""
        return self._log.since(self.ledger.begun[env], self.ledger.rows(env))

    def is_whole(self, env: int) -> bool:
        """Whether the logged actions lead from the episode's seed to the present step."""
        return self.can_replay and env not in self._bases

    def last_actions(self, env: int) -> tuple[Any, ...]:
        """Return the newest of them as plain values."""
        return tuple(self.actions(env)[-LAST_ACTIONS:].tolist())


def make_repro(
    source: SingleEnvs, ledger: EpisodeLedger, episodes: RunningEpisodes, given_up: AbandonedEpisode
) -> Repro:
    """Return all that is known of a failed episode."""
    env = given_up.env
    factory, arguments = written_down(source.make)
    settings = ledger.settings[env]
    return Repro(
        env_id=source.spec.id,
        spec=write_spec(source.spec),
        factory=factory,
        arguments=arguments,
        env=env,
        episode=ledger.numbers[env],
        seed=ledger.seeds[env],
        start=listed(ledger.starts[env]),
        settings=None if settings is None else saved_settings(settings.values()),
        actions=episodes.actions(env).tolist(),
        is_whole=episodes.is_whole(env),
        failure=given_up.kind,
        stage=given_up.stage,
        error=given_up.error,
        traceback=given_up.traceback,
    )


def write_spec(spec: EnvSpec) -> dict[str, Any]:
    """Return as much of a spec as a worker needs, as plain values."""
    match spec.action:
        case Discrete(count):
            action: dict[str, Any] = {"discrete": count}
        case MultiDiscrete(counts):
            action = {"choices": list(counts)}
        case Continuous(low):
            action = {"continuous": len(low)}
    return {
        "observation": {
            name: [list(part.shape), part.dtype] for name, part in spec.observation.items()
        },
        "action": action,
        "rows": spec.rows,
        "has_masks": spec.has_masks,
        "terms": list(spec.terms),
        "measures": list(spec.measures),
    }


def read_spec(env_id: str, written: dict[str, Any]) -> EnvSpec:
    """Undo `write_spec`; the bounds of a continuous action are not needed."""
    match written["action"]:
        case {"discrete": int(count)}:
            action: ActionSpec = Discrete(count)
        case {"choices": list(counts)}:
            action = MultiDiscrete(tuple(counts))
        case {"continuous": int(size)}:
            action = Continuous((0.0,) * size, (0.0,) * size)
        case other:
            raise ConfigError(f"a repro file with the action {other!r} cannot be read")
    return EnvSpec(
        env_id,
        {
            name: Part(tuple(shape), dtype)
            for name, (shape, dtype) in written["observation"].items()
        },
        action,
        rows=written["rows"],
        has_masks=written["has_masks"],
        terms=tuple(written["terms"]),
        measures=tuple(written.get("measures", ())),
    )


def written_down(make: Callable[[], Env]) -> tuple[str, dict[str, Any]]:
    """Return a factory as its class and fields, or nothing if it is not a plain dataclass."""
    kind = type(make)
    if not dataclasses.is_dataclass(make) or isinstance(make, type):
        return "", {}
    fields = {name: _plain(value) for name, value in asdict(make).items()}
    try:
        json.dumps(fields)
    except (TypeError, ValueError):
        return "", {}
    return f"{kind.__module__}:{kind.__qualname__}", fields


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(held) for key, held in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(held) for held in value]
    return value


def write_repro(repro: Repro, folder: Path) -> Path:
    """Write the failure into a file of the folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / repro.name
    path.write_text(json.dumps(asdict(repro), indent=1) + "\n")
    return path


def read_repro(path: Path) -> Repro:
    """Return the failure a file holds."""
    try:
        return msgspec.convert(json.loads(path.read_text()), Repro)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} is not a repro file: {error}") from error


def remake(repro: Repro) -> Callable[[], Env]:
    """Return the factory that a repro file names."""
    module, _, name = repro.factory.partition(":")
    if not name:
        raise ConfigError(
            f"the file does not say how to make {repro.env_id}; name the task it was trained with"
        )
    try:
        kind: Any = importlib.import_module(module)
        for part in name.split("."):
            kind = vars(kind)[part]
        make: Callable[[], Env] = msgspec.convert(repro.arguments, kind)
    except (ImportError, KeyError, msgspec.ValidationError) as error:
        raise ConfigError(f"{repro.factory} cannot be made again: {error!r}") from error
    return make


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What happened when a failure was played again."""

    happened: str  # died, hung, raised, unusable, or nothing
    stage: str
    step: int
    error: str
    traceback: str
    expected: str

    @property
    def is_same(self) -> bool:
        """Whether it failed as before."""
        return self.happened == self.expected

    def as_text(self) -> str:
        """Return the outcome in a few lines."""
        if self.happened == "nothing":
            return f"nothing happened in {self.step} steps; before, it {self.expected}"
        lines = [f"{self.happened} in {self.stage} at step {self.step}: {self.error}"]
        return "\n".join([*lines, self.traceback] if self.traceback else lines)


def reproduce(
    path: Path, *, make: Callable[[], Env] | None = None, config: ProcessesConfig | None = None
) -> Reproduction:
    """Replay a recorded failure in a separate process and return what happened.

    `make` is needed only for environments whose factory the file could not hold.
    """
    repro = read_repro(path)
    config = config or ProcessesConfig()
    chosen = make or remake(repro)
    spec = read_spec(repro.env_id, repro.spec)
    mailbox = Mailbox.create(spec, count=1, workers=1)
    fleet = Fleet(SingleEnvs(spec, chosen), mailbox, {0: (0,)}, config, count=1)
    try:
        return _play(repro, fleet, mailbox)
    finally:
        fleet.close()


def _play(repro: Repro, fleet: Fleet, mailbox: Mailbox) -> Reproduction:
    settings: Settings | None = None
    if repro.settings is not None:
        settings = restored_settings(repro.settings)
    beginning = Beginning(0, repro.seed, tupled(repro.start), settings)
    actions = np.array(repro.actions, mailbox.actions.dtype).reshape(-1, *mailbox.actions.shape)
    result = fleet.start([0])[0]
    if not isinstance(result, WorkerLoss) and not result.raised:
        result = fleet.exchange({0: Order(Kind.RESTORE, [EpisodeReplay(beginning, actions)])})[0]
    if isinstance(result, WorkerLoss):
        step = result.position + 1 if result.stage is WorkerStage.REPLAY else 0
        stage = "step" if result.stage is WorkerStage.REPLAY else result.stage.name.lower()
        return Reproduction(result.kind, stage, step, result.error, result.traceback, repro.failure)
    if result.raised:
        failure = result.raised[0]
        kind = "unusable" if failure.unusable else "raised"
        return Reproduction(
            kind, repro.stage, len(actions), failure.error, failure.traceback, repro.failure
        )
    return Reproduction("nothing", "", len(actions), "", "", repro.failure)

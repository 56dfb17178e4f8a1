"""`Run`, a run on disk, and `Agent`, a trained policy: what every command works with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from longhaul.app.build.components import (
    build_policy,
    build_settings,
    build_task,
    checkpoint_config,
)
from longhaul.app.build.config import RunConfig, is_number
from longhaul.app.build.memory import fix_torch
from longhaul.app.build.sources import from_values, read_toml, to_values
from longhaul.app.build.text import last_line
from longhaul.core.control import Progress
from longhaul.core.errors import CheckpointError, ConfigError, suggestion
from longhaul.core.policy import Policy
from longhaul.core.rollout import Memory, clear_started
from longhaul.core.settings import Assignment, Settings
from longhaul.core.spaces import Continuous
from longhaul.core.task import Task
from longhaul.engine.loop import Outcome
from longhaul.envs.starts import STARTS
from longhaul.runs.checkpoints.inspect import MANIFEST_FILE, checkpoint_name, rank_checkpoints
from longhaul.runs.checkpoints.store import Loaded, load_checkpoint, load_newest
from longhaul.runs.directory import RunDirectory, RunRecord
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import installed_versions
from longhaul.runs.reader import read_checkpoints, read_metrics
from longhaul.runs.toml import write_toml

if TYPE_CHECKING:
    from longhaul.app.evaluation.evaluate import Evaluated
    from longhaul.app.evaluation.suites import SuiteReport

FORMAT = 2
CARD, WEIGHTS, CONFIG, ONNX = "policy.json", "policy.safetensors", "config.toml", "policy.onnx"


class Run:
    """A run on disk: its config, its task, its checkpoints and their policies.

    Config and task are loaded on first access. A process that trains the run passes its own.
    """

    def __init__(
        self,
        place: Path | str | RunDirectory,
        *,
        config: RunConfig | None = None,
        task: Task | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self.directory = place if isinstance(place, RunDirectory) else RunDirectory(Path(place))
        self.record: RunRecord = self.directory.read_record()
        self.directory.check_plain()
        self.outcome = outcome
        """How the session ended, if this process trained the run."""
        if config is not None:
            self.__dict__["config"] = config
        if task is not None:
            self.__dict__["task"] = task

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self.directory.path

    @cached_property
    def config(self) -> RunConfig:
        """The resolved config."""
        return from_values(read_toml(self.directory.config))

    @cached_property
    def task(self) -> Task:
        """The task that is trained."""
        return build_task(self.config)

    def checkpoint(self, which: str = "latest") -> Loaded:
        """Return the checkpoint called `latest`, `best`, or by its name or number of steps."""
        folder = self.directory.checkpoints
        if which == "latest":
            loaded = load_newest(folder)
            if loaded is None:
                raise CheckpointError(f"{self.path} has no checkpoint yet")
            return loaded
        if which == "best":
            return load_named(self.best_checkpoint())
        name = checkpoint_name(int(which)) if which.isdecimal() else which
        if not (folder / name).is_dir():
            there = ", ".join(entry.path.name for entry in read_checkpoints(self.directory))
            raise CheckpointError(
                f"{self.path} has no checkpoint {which!r} (there: {there or 'none'})"
            )
        return load_named(folder / name)

    def best_checkpoint(self) -> Path:
        """Return the path of the checkpoint with the best score."""
        ranked = rank_checkpoints(
            self.directory.checkpoints, checkpoint_config(self.config, self.task)
        )
        if not ranked:
            raise CheckpointError(
                f"no checkpoint of {self.path} has a score; set evaluate.every_iterations to "
                "evaluate during training"
            )
        return ranked[0][1]

    def agent(self, which: str = "latest") -> Agent:
        """Return the policy of a checkpoint, ready to act."""
        fix_torch(threads=self.config.threads, deterministic=self.config.deterministic)
        loaded = self.checkpoint(which)
        agent = untrained(self.config, self.task)
        agent.load(loaded)
        return agent

    def metrics(self, *names: str) -> dict[str, NDArray[np.float64]]:
        """Return the run's curves: one array per metric, NaN where it was not measured.

        `iteration` and `env_steps` are always included; without names, all metrics are.
        """
        rows = read_metrics(self.directory).rows
        known = sorted({key for row in rows for key, value in row.items() if is_number(value)})
        for name in names:
            if name not in known:
                raise ConfigError(f"{self.path} has no metric {name!r}{suggestion(name, known)}")
        wanted = dict.fromkeys(("iteration", "env_steps", *(names or known)))
        return {name: np.array([row.get(name, np.nan) for row in rows], float) for name in wanted}

    def evaluate(
        self, *, checkpoint: str = "latest", episodes: int = 50, seed: int | None = None
    ) -> Evaluated | SuiteReport:
        """Evaluate a checkpoint on fixed episodes, and store the result in the run."""
        from longhaul.app.evaluation.evaluate import EvaluationRequest, evaluate_run

        return evaluate_run(self, EvaluationRequest(checkpoint, episodes, seed))


@dataclass(slots=True)
class Agent:
    """A policy with everything it needs to act."""

    config: RunConfig
    task: Task
    policy: Policy
    settings: Settings
    checkpoint: str = ""
    """The name of its checkpoint."""
    progress: Progress = field(default_factory=Progress)
    passed_over: tuple[str, ...] = ()
    """Newer checkpoints that are damaged, and how."""
    _memory: Memory = field(default_factory=dict, init=False, repr=False)
    _rows: int = field(default=0, init=False, repr=False)

    def load(self, loaded: Loaded) -> None:
        """Load weights, settings and progress of a checkpoint."""
        try:
            self.policy.load_state_dict(loaded.states["learner"]["policy"])
        except (LookupError, RuntimeError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {loaded.path} does not match the run's config.toml "
                f"({last_line(error)}); use the version and config that wrote it"
            ) from error
        self.settings = assigned(self.settings, loaded.manifest.settings.items())
        self.checkpoint, self.progress = loaded.path.name, loaded.manifest.progress
        self.passed_over = tuple(
            f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is"
            for damage in loaded.damaged
        )

    @property
    def replay_settings(self) -> Settings:
        """The settings for replaying single episodes: without queued starts."""
        if STARTS.name in self.settings:
            return self.settings.with_([STARTS.to(())])
        return self.settings

    def act(
        self,
        observation: ArrayLike | Mapping[str, ArrayLike],
        mask: ArrayLike | None = None,
        *,
        deterministic: bool = True,
    ) -> NDArray[Any]:
        """Return the action for one observation, or one action per row of a batch.

        An observation is a dict of its parts, or an array if it has one part. The recurrent state
        of every row is kept until `reset`.
        """
        parts = self.task.envs.spec.observation
        if not isinstance(observation, Mapping):
            observation = {next(iter(parts)): observation}
        if set(observation) != set(parts):
            raise ConfigError(
                f"the observation has {', '.join(sorted(observation))}, and {self.task.name!r} "
                f"needs {', '.join(sorted(parts))}"
            )
        arrays = {
            name: np.asarray(observation[name], dtype=part.dtype) for name, part in parts.items()
        }
        is_one = all(arrays[name].shape == part.shape for name, part in parts.items())
        if is_one:
            arrays = {name: array[None] for name, array in arrays.items()}
        for name, part in parts.items():
            if arrays[name].shape[1:] != part.shape:
                raise ConfigError(
                    f"the observation {name!r} has shape {arrays[name].shape}, and "
                    f"{self.task.name!r} needs {part.shape} or (rows, *{part.shape})"
                )
        rows = len(next(iter(arrays.values())))
        if rows != self._rows:
            self._rows, self._memory = rows, self.policy.initial_state(rows)
        masks = None
        if mask is not None:
            masks = torch.from_numpy(np.array(mask, dtype=bool).reshape(rows, -1))
        with torch.inference_mode():
            act = self.policy.act(
                {name: torch.from_numpy(array.copy()) for name, array in arrays.items()},
                self._memory,
                self.settings,
                mask=masks,
                generator=None if deterministic else torch.default_generator,
            )
        self._memory = act.memory
        action: NDArray[Any] = act.action.cpu().numpy()
        space = self.task.envs.spec.action
        if isinstance(space, Continuous):
            action = np.clip(action, space.low, space.high).astype(np.float32)
        return action[0] if is_one else action

    def reset(self, rows: ArrayLike | None = None) -> None:
        """Clear the recurrent state of all rows, or of those that a boolean mask selects."""
        if rows is None:
            self._rows, self._memory = 0, {}
        elif self._memory:
            started = torch.from_numpy(np.asarray(rows, dtype=bool))
            self._memory = clear_started(self._memory, started)

    def save(self, folder: Path, source: Mapping[str, Any]) -> dict[str, Any]:
        """Write the policy to a folder and return its card; normalizers are in the weights."""
        weights = save_tensors(
            {name: part.detach().cpu().contiguous() for name, part in self._weights().items()}
        )
        spec = self.task.envs.spec
        values = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.settings.values().items()
        }
        card: dict[str, Any] = {
            "format": FORMAT,
            "task": self.config.task,
            "env": spec.id,
            "observation": {name: asdict(part) for name, part in spec.observation.items()},
            "action": {"kind": type(spec.action).__name__, **asdict(spec.action)},
            "memory": {
                name: list(part.shape[1:]) for name, part in self.policy.initial_state(1).items()
            },
            "masks": spec.has_masks,
            "preprocessing": "in the weights: observations are given as the environment shows them",
            "settings": values,
            "source": dict(source),
            "versions": installed_versions(),
            "weights_sha256": hashlib.sha256(weights).hexdigest(),
            "parameters": sum(part.numel() for part in self.policy.parameters()),
        }
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / WEIGHTS, weights)
            replace_file(folder / CONFIG, write_toml(to_values(self.config)).encode())
            replace_file(folder / CARD, json.dumps(card, indent=1).encode() + b"\n")
        return card

    def _weights(self) -> dict[str, torch.Tensor]:
        return dict(self.policy.state_dict())


def untrained(config: RunConfig, task: Task) -> Agent:
    """Return an agent with the run's initial weights."""
    policy = build_policy(config, task, torch.device("cpu"))
    return Agent(config, task, policy, build_settings(config, task))


def assigned(settings: Settings, values: Iterable[tuple[str, Any]]) -> Settings:
    """Return settings with stored values."""
    return settings.with_(
        Assignment(name, tuple(value) if isinstance(value, list) else value)
        for name, value in values
    )


def load_named(path: Path) -> Loaded:
    """Return a checkpoint that the user named; a damaged one is an error."""
    try:
        return load_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be used: {error}; `longhaul inspect` lists the others"
        ) from error


def is_exported(folder: Path) -> bool:
    """Whether a folder holds an exported policy."""
    return (folder / CARD).is_file()


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of an exported policy."""
    try:
        card = json.loads((folder / CARD).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} is not an exported policy: {error}") from error
    if card.get("format") != FORMAT:
        raise CheckpointError(f"{folder} has format {card.get('format')!r}, not {FORMAT}")
    assert isinstance(card, dict)
    return card


def load_exported(folder: Path) -> Agent:
    """Return the policy of a folder after checking every byte of its weights."""
    card = read_card(folder)
    try:
        content = (folder / WEIGHTS).read_bytes()
    except OSError as error:
        raise ConfigError(f"{folder} is not an exported policy: {error}") from error
    if hashlib.sha256(content).hexdigest() != card["weights_sha256"]:
        raise CheckpointError(f"{folder / WEIGHTS} has changed since it was exported")
    config = from_values(read_toml(folder / CONFIG))
    agent = untrained(config, build_task(config))
    try:
        agent.policy.load_state_dict(load_tensors(content))
    except RuntimeError as error:
        raise CheckpointError(
            f"{folder} does not match its config.toml: {last_line(error)}"
        ) from error
    return replace(agent, settings=assigned(agent.settings, card["settings"].items()))


def find_weights(path: Path, said: str) -> Loaded | None:
    """Return the best checkpoint of a run or the one at `path`; None for an exported policy.

    Otherwise raise an error that starts with `said`, the user's input.
    """
    if is_exported(path):
        return None
    if (path / MANIFEST_FILE).is_file():
        return load_named(path)
    if not RunDirectory(path).record.is_file():
        raise ConfigError(f"{said} is not a run, a checkpoint or an exported policy")
    run = Run(path)
    try:
        return run.checkpoint("best")
    except CheckpointError:
        return run.checkpoint("latest")


def load(place: Path | str, which: str = "") -> Agent:
    """Return the agent of a run, one of its checkpoints or an exported folder.

    Of a run, it is the checkpoint `which`; by default the best evaluated one, else the latest.
    """
    path = Path(place)
    if is_exported(path):
        return load_exported(path)
    if (path / MANIFEST_FILE).is_file():
        return Run(path.parents[1]).agent(path.name)
    if which:
        return Run(path).agent(which)
    loaded = find_weights(path, f"{str(path)!r}")
    assert loaded is not None, "the path is not an exported policy"
    return Run(path).agent(loaded.path.name)

"""`Agent`, a trained policy that acts, and the folders it is exported to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from longhaul.app.build.components import build_policy, build_settings, build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import from_values, read_toml, to_values
from longhaul.app.build.text import last_line
from longhaul.core.control import Progress
from longhaul.core.env import NativeForms, SingleEnvs, empty_actions
from longhaul.core.errors import CheckpointError, ConfigError, EnvError, LonghaulError
from longhaul.core.policy import Policy
from longhaul.core.rollout import Memory, clear_started
from longhaul.core.settings import Assignment, Settings
from longhaul.core.spaces import Continuous, Discrete, EnvSpec, MultiDiscrete, Part
from longhaul.core.task import Task
from longhaul.envs.starts import STARTS
from longhaul.nets.config import build_policy as build_general_policy
from longhaul.runs.checkpoints.store import Loaded
from longhaul.runs.durable import read_small, replace_file, storage_errors
from longhaul.runs.lock import installed_versions
from longhaul.runs.toml import write_toml

FORMAT = 2
CARD, WEIGHTS, CONFIG, ONNX = "policy.json", "policy.safetensors", "config.toml", "policy.onnx"


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
    run: str = ""
    """The name of its run's directory."""
    passed_over: tuple[str, ...] = ()
    """Newer checkpoints that are damaged, and how."""
    _memory: Memory = field(default_factory=dict, init=False, repr=False)
    _rows: int = field(default=0, init=False, repr=False)
    _acts_plainly: bool = field(default=True, init=False, repr=False)
    """Whether the environment takes actions as the policy gives them."""

    def __post_init__(self) -> None:
        if (forms := self._forms) is not None:
            given = empty_actions(self.task.envs.spec, 1)[0]
            taken = np.asarray(forms.native_action(given))
            self._acts_plainly = given.dtype == taken.dtype and np.array_equal(given, taken)

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

        An observation is what the environment returns, or an array, or a dict of its parts. The
        recurrent state of every row is kept until `reset`.
        """
        inputs, is_one = self._inputs(observation)
        rows = len(next(iter(inputs.values())))
        if rows != self._rows:
            self._rows, self._memory = rows, self.policy.initial_state(rows)
        masks = None if mask is None else self._masks(mask, rows)
        with torch.inference_mode():
            chosen, self._memory = self.policy.choose(
                inputs,
                self._memory,
                self.settings,
                mask=masks,
                generator=None if deterministic else torch.default_generator,
            )
        action: NDArray[Any] = chosen.numpy()
        space = self.task.envs.spec.action
        if isinstance(space, Continuous):
            action = np.clip(action, space.low, space.high).astype(np.float32)
        if (forms := self._forms) is not None and not self._acts_plainly:
            action = np.stack([np.asarray(forms.native_action(row)) for row in action])
        return action[0] if is_one else action

    @property
    def _forms(self) -> NativeForms | None:
        envs = self.task.envs
        return envs.forms if isinstance(envs, SingleEnvs) else None

    def _inputs(self, observation: Any) -> tuple[dict[str, torch.Tensor], bool]:
        """Return the observation's parts as tensors [rows, ...], and whether it was one alone."""
        try:
            return self._in_parts(observation)
        except (ConfigError, TypeError, ValueError) as error:
            if (forms := self._forms) is None:
                raise
            native, is_one = [], True
            with suppress(EnvError, LookupError, TypeError, ValueError):
                native = [forms.parts(observation)]
            if not native and not isinstance(observation, Mapping):
                with suppress(EnvError, LookupError, TypeError, ValueError):
                    native, is_one = [forms.parts(one) for one in observation], False
            if not native:
                raise ConfigError(str(error)) from error
        stacked = {name: np.stack([row[name] for row in native]) for name in native[0]}
        return {name: torch.from_numpy(part) for name, part in stacked.items()}, is_one

    def _in_parts(self, observation: Any) -> tuple[dict[str, torch.Tensor], bool]:
        parts = self.task.envs.spec.observation
        if not isinstance(observation, Mapping):
            observation = {next(iter(parts)): observation}
        if observation.keys() != parts.keys():
            raise ConfigError(
                f"the observation has {', '.join(sorted(observation))}, and {self.task.name!r} "
                f"needs {', '.join(sorted(parts))}"
            )
        arrays, is_one = {}, True
        for name, part in parts.items():
            # A copy: the caller may write into the array before the next step.
            arrays[name] = array = np.array(observation[name], dtype=part.dtype)
            is_one = is_one and array.shape == part.shape
        for name, array in arrays.items():
            shape = parts[name].shape
            if not is_one and (array.shape[1:] != shape or array.ndim == len(shape)):
                raise ConfigError(
                    f"the observation {name!r} has shape {array.shape}, and "
                    f"{self.task.name!r} needs {shape}, or (rows, ...) for several"
                )
        return {
            name: torch.from_numpy(array[None] if is_one else array)
            for name, array in arrays.items()
        }, is_one

    def _masks(self, mask: ArrayLike, rows: int) -> torch.Tensor:
        """Return the mask as a tensor [rows, choices]."""
        choices = self.task.envs.spec.choices
        given = np.array(mask, dtype=bool)
        if given.size != rows * choices:
            raise ConfigError(
                f"the mask has shape {given.shape}, and {self.task.name!r} needs ({choices},) or "
                f"(rows, {choices})"
            )
        return torch.from_numpy(given.reshape(rows, choices))

    def reset(self, rows: ArrayLike | None = None) -> None:
        """Clear the recurrent state of all rows, or of some: a boolean mask or their numbers."""
        if rows is None:
            self._rows, self._memory = 0, {}
        elif self._memory:
            started = np.zeros(self._rows, dtype=bool)
            try:
                started[np.asarray(rows)] = True
            except IndexError as error:
                raise ConfigError(f"reset({rows!r}): the agent has {self._rows} rows") from error
            self._memory = clear_started(self._memory, torch.from_numpy(started))

    def save(self, folder: Path | str, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Write the policy to a folder that `longhaul.load` reads, and return its card.

        The card says which run and checkpoint it comes from; `source` adds further facts.
        Normalizers are in the weights.
        """
        folder = Path(folder)
        if not folder.name or folder.is_file():
            raise ConfigError(f"agent.save({str(folder)!r}): this is not a folder to write to")
        origin = {
            "run": self.run,
            "checkpoint": self.checkpoint,
            "env_steps": self.progress.env_steps,
            **(source or {}),
        }
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
            "source": origin,
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


def is_exported(folder: Path) -> bool:
    """Whether a folder holds an exported policy."""
    return (folder / CARD).is_file()


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of an exported policy."""
    try:
        card = json.loads(read_small(folder / CARD))
    except (OSError, ValueError, RecursionError) as error:
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
    unmade: LonghaulError | None = None
    try:
        agent = untrained(config, build_task(config))
    except LonghaulError as error:
        unmade, agent = error, untrained(config, task_without_env(card, config, str(error)))
    try:
        agent.policy.load_state_dict(load_tensors(content))
    except RuntimeError as error:
        if unmade is not None:
            raise unmade from error
        raise CheckpointError(
            f"{folder} does not match its config.toml: {last_line(error)}"
        ) from error
    source = card["source"]
    return replace(
        agent,
        settings=assigned(agent.settings, card["settings"].items()),
        run=str(source.get("run", "")),
        checkpoint=str(source.get("checkpoint", "")),
        progress=Progress(env_steps=int(source.get("env_steps", 0))),
    )


ACTIONS = {kind.__name__: kind for kind in (Discrete, MultiDiscrete, Continuous)}


def task_without_env(card: Mapping[str, Any], config: RunConfig, why: str) -> Task:
    """Return a task for acting alone, whose environment cannot be made here."""
    action: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in card["action"].items()
    }
    spec = EnvSpec(
        id=card["env"],
        observation={
            name: Part(tuple(part["shape"]), part["dtype"])
            for name, part in card["observation"].items()
        },
        action=ACTIONS[action.pop("kind")](**action),
        has_masks=card["masks"],
    )

    def make() -> Any:
        raise EnvError(why)

    return Task(
        name=card["task"],
        envs=SingleEnvs(spec, make, unavailable=why),
        make_policy=partial(build_general_policy, spec, config.policy),
        summarize=lambda episodes: {},
    )

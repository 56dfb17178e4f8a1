"""A policy as one folder: weights, config, and what it expects; loadable without its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from longhaul.app.assemble import build_policy, build_settings, build_task
from longhaul.app.config import RunConfig
from longhaul.app.configure import from_values, read_toml, to_values
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.policy import Policy
from longhaul.core.settings import Assignment, Settings
from longhaul.core.task import Task
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.machine import installed_versions
from longhaul.runs.toml import write_toml

FORMAT = 1
CARD, WEIGHTS, CONFIG, ONNX = "policy.json", "policy.safetensors", "config.toml", "policy.onnx"


@dataclass(frozen=True, slots=True)
class Exported:
    """A policy that was loaded from a folder, ready to act."""

    policy: Policy
    settings: Settings
    task: Task
    config: RunConfig
    card: Mapping[str, Any]


def write_policy(
    folder: Path, config: RunConfig, policy: Policy, settings: Settings, source: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a policy into a folder and return its card; its normalisers are in the weights."""
    task = build_task(config)
    weights = save_tensors({name: part.contiguous() for name, part in _weights(policy).items()})
    spec = task.envs.spec
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in settings.values().items()
    }
    card: dict[str, Any] = {
        "format": FORMAT,
        "task": config.task,
        "env": spec.id,
        "observation": {name: asdict(part) for name, part in spec.observation.items()},
        "action": {"kind": type(spec.action).__name__, **asdict(spec.action)},
        "memory": {name: list(part.shape[1:]) for name, part in policy.initial(1).items()},
        "masks": spec.has_masks,
        "preprocessing": "in the weights: observations are given as the environment shows them",
        "settings": values,
        "source": dict(source),
        "versions": installed_versions(),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "parameters": sum(part.numel() for part in policy.parameters()),
    }
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / WEIGHTS, weights)
        replace_file(folder / CONFIG, write_toml(to_values(config)).encode())
        replace_file(folder / CARD, json.dumps(card, indent=1).encode() + b"\n")
    return card


def _weights(policy: Policy) -> dict[str, Tensor]:
    return {name: part.detach().cpu() for name, part in policy.state_dict().items()}


def is_exported(folder: Path) -> bool:
    """Whether a folder holds an exported policy."""
    return (folder / CARD).is_file()


def load_policy(folder: Path) -> Exported:
    """Return the policy of a folder after checking every byte of its weights."""
    try:
        card = json.loads((folder / CARD).read_bytes())
        content = (folder / WEIGHTS).read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} holds no exported policy: {error}") from error
    if card.get("format") != FORMAT:
        raise CheckpointError(f"{folder} has format {card.get('format')!r}, not {FORMAT}")
    if hashlib.sha256(content).hexdigest() != card["weights_sha256"]:
        raise CheckpointError(f"{folder / WEIGHTS} is not the file that was exported")
    config = from_values(read_toml(folder / CONFIG))
    task = build_task(config)
    policy = build_policy(config, task, torch.device("cpu"))
    try:
        policy.load_state_dict(load_tensors(content))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(f"{folder} does not fit its config.toml: {reason}") from error
    assigned = (
        Assignment(name, tuple(value) if isinstance(value, list) else value)
        for name, value in card["settings"].items()
    )
    return Exported(policy, build_settings(config, task).with_(assigned), task, config, card)

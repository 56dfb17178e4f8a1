"""Showing what a run or a checkpoint holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul.app.text import columns
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.inspection import MANIFEST_FILE, list_checkpoints, verify
from longhaul.runs.reader import read_metrics, read_run, read_sessions

if TYPE_CHECKING:
    from torch import Tensor

SHOWN = (
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "eval/mean_reward",
    "train/approx_kl",
    "train/explained_variance",
    "time/session_fps",
)


def inspect_path(path: Path, *, as_json: bool) -> str:
    """Return the facts about a run directory or a checkpoint."""
    if (path / MANIFEST_FILE).exists():
        facts = checkpoint_facts(path)
    elif (path / "run.json").exists():
        facts = run_facts(RunDirectory(path))
    elif not path.exists():
        raise ConfigError(f"{path} does not exist")
    else:
        raise ConfigError(f"{path} is neither a run directory nor a checkpoint")
    return json.dumps(facts) if as_json else as_text(facts)


def checkpoint_facts(path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds after checking every byte of it."""
    try:
        manifest = verify(path)
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be used: {error}") from error
    # Imported here, because it takes torch and with it seconds, which a run's facts do not need.
    from longhaul.app.checkpoints import load_named

    return {
        "checkpoint": path.name,
        "whole": True,
        "created": manifest.created,
        **asdict(manifest.progress),
        "task": manifest.identity.get("task", ""),
        "score": None if manifest.score is None else asdict(manifest.score),
        "facts": manifest.facts,
        "versions": manifest.versions,
        "settings": manifest.settings,
        "parts": {name: digest.length for name, digest in sorted(manifest.parts.items())},
        "hashes": {name: digest.sha256 for name, digest in sorted(manifest.parts.items())},
        "parameters": parameter_facts(load_named(path).states.get("learner", {}).get("policy", {})),
    }


def parameter_facts(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return how many numbers the policy has, and how those of each tensor are spread."""
    tensors = {}
    for name, tensor in weights.items():
        numbers = tensor.detach().double()
        tensors[name] = {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "mean": float(numbers.mean()) if numbers.numel() else 0.0,
            "std": float(numbers.std(correction=0)) if numbers.numel() else 0.0,
            "largest": float(numbers.abs().max()) if numbers.numel() else 0.0,
            "not_finite": int((~numbers.isfinite()).sum()),
        }
    return {
        "count": sum(tensor.numel() for tensor in weights.values()),
        "tensors": {name: _spread_words(one) for name, one in tensors.items()},
    }


def _spread_words(facts: Mapping[str, Any]) -> str:
    """Return the spread of one tensor in a line."""
    odd = f", {facts['not_finite']} NOT FINITE" if facts["not_finite"] else ""
    return (
        f"{facts['dtype']} {facts['shape']} mean {facts['mean']:.3g} std {facts['std']:.3g} "
        f"largest {facts['largest']:.3g}{odd}"
    )


def run_facts(directory: RunDirectory) -> dict[str, Any]:
    """Return how a run stands."""
    run = read_run(directory)
    rows = read_metrics(directory).rows
    last = rows[-1] if rows else {}
    sessions = read_sessions(directory).rows
    return {
        "run": str(directory.path),
        "task": run.record.task,
        "name": run.record.name,
        "seed": run.record.seed,
        "status": run.status,
        "reason": run.record.reason,
        "created": run.record.created,
        "iteration": last.get("iteration", 0),
        "env_steps": last.get("env_steps", 0),
        "episodes": last.get("episodes", 0),
        "resumed": sum(row.get("event") == "resumed" for row in sessions),
        "metrics": {name: last[name] for name in SHOWN if name in last},
        "checkpoints": {
            path.name: _soundness(path) for path in list_checkpoints(directory.checkpoints)
        },
        "versions": run.record.versions,
    }


def _soundness(path: Path) -> str:
    """Return `whole` after reading every byte of a checkpoint, or what is wrong with it."""
    try:
        verify(path)
    except CheckpointError as error:
        return f"damaged: {error}"
    return "whole"


def as_text(facts: dict[str, Any], indent: str = "") -> str:
    """Return nested facts as indented lines."""
    plain = [(f"{indent}{key}", _said(v)) for key, v in facts.items() if not isinstance(v, dict)]
    lines = [columns(plain)] if plain else []
    for key, value in facts.items():
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key}", as_text(value, indent + "  ")]
    return "\n".join(lines)


def _said(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)

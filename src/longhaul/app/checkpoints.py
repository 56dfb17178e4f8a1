"""Finding a checkpoint by what the user calls it, and its weights."""

from __future__ import annotations

from pathlib import Path

from longhaul.app.assemble import build_task, checkpoint_config
from longhaul.app.configure import from_values, read_toml
from longhaul.core.errors import CheckpointError
from longhaul.core.policy import Policy
from longhaul.runs.checkpoint import Loaded, load_checkpoint, load_newest
from longhaul.runs.directory import RunDirectory
from longhaul.runs.inspection import checkpoint_name
from longhaul.runs.reader import read_checkpoints
from longhaul.runs.retention import rank_checkpoints


def find_checkpoint(run: RunDirectory, which: str) -> Loaded:
    """Return the checkpoint called `latest`, `best`, or by its number of steps."""
    if which == "latest":
        loaded = load_newest(run.checkpoints)
        if loaded is None:
            raise CheckpointError(f"{run.path} has no checkpoint yet")
        return loaded
    if which == "best":
        return load_named(best_checkpoint(run))
    name = checkpoint_name(int(which)) if which.isdecimal() else which
    if not (run.checkpoints / name).is_dir():
        there = ", ".join(entry.path.name for entry in read_checkpoints(run)) or "none"
        raise CheckpointError(f"{run.path} has no checkpoint {which!r} (there: {there})")
    return load_named(run.checkpoints / name)


def load_named(path: Path) -> Loaded:
    """Return a checkpoint that was asked for by name, so that there is none to fall back to."""
    try:
        return load_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be used: {error}; `longhaul inspect` lists the others"
        ) from error


def load_weights(policy: Policy, loaded: Loaded) -> None:
    """Give the policy the weights of a checkpoint."""
    try:
        policy.load_state_dict(loaded.states["learner"]["policy"])
    except (LookupError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(
            f"checkpoint {loaded.path} does not fit the run's config.toml ({reason}); use the "
            "version and config that wrote it"
        ) from error


def best_checkpoint(run: RunDirectory) -> Path:
    """Return the checkpoint with the best score."""
    config = from_values(read_toml(run.config))
    ranked = rank_checkpoints(run.checkpoints, checkpoint_config(config, build_task(config)))
    if not ranked:
        raise CheckpointError(
            f"no checkpoint of {run.path} has a score; set evaluate.every_iterations to get them"
        )
    return ranked[0][1]

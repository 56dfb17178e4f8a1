"""The weights a new run begins with, if they are those of another run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longhaul.app.checkpoints import find_checkpoint, load_named
from longhaul.app.config import RunConfig
from longhaul.app.exported import is_exported, load_policy
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.policy import Policy
from longhaul.runs.checkpoint import Loaded
from longhaul.runs.directory import RunDirectory
from longhaul.runs.inspection import MANIFEST_FILE
from longhaul.runs.reader import read_checkpoints


def begin_with(
    config: RunConfig, run: RunDirectory, tell: Callable[[str], None], policy: Policy
) -> None:
    """Give the policy the weights that `start_from` names, unless the run has checkpoints itself.

    A run that goes on needs them no more: they may be gone by then.
    """
    if not config.start_from or read_checkpoints(run):
        return
    place = Path(config.start_from)
    loaded = find_weights(place, f"start_from = {config.start_from!r}")
    try:
        policy.load_state_dict(
            load_policy(place).policy.state_dict()
            if loaded is None
            else loaded.states["learner"]["policy"]
        )
    except (LookupError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ConfigError(
            f"start_from = {config.start_from!r}: its network is another one ({reason}); take the "
            "same task options and the same [policy], or leave start_from empty"
        ) from error
    tell(f"beginning with the weights of {place if loaded is None else loaded.path}")


def find_weights(path: Path, said: str) -> Loaded | None:
    """Return the best checkpoint of a run or the one at `path`; None for an exported policy.

    If it is none of them, the error begins with what the user `said`.
    """
    if is_exported(path):
        return None
    if (path / MANIFEST_FILE).is_file():
        return load_named(path)
    run = RunDirectory(path)
    if not run.record.is_file():
        raise ConfigError(f"{said} is neither a run nor a checkpoint nor an exported policy")
    try:
        return find_checkpoint(run, "best")
    except CheckpointError:
        return find_checkpoint(run, "latest")

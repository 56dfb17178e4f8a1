"""Telling a run whose checkpoints are gone from one that never had any."""

from __future__ import annotations

from longhaul.core.errors import CheckpointError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.inspection import list_checkpoints, read_latest
from longhaul.runs.jsonl import iterate_rows
from longhaul.runs.record import Status

SAVED_FIRST = frozenset({"stopped by SIGINT", "stopped by SIGTERM"})
"""Reasons to stop that sessions.jsonl names only after a checkpoint was written."""


def check_checkpoints(run: RunDirectory) -> None:
    """Raise if the run has saved checkpoints and none is there; nothing is touched."""
    if list_checkpoints(run.checkpoints) or not has_saved(run):
        return
    raise CheckpointError(
        f"{run.checkpoints} holds no checkpoint, but this run has saved some; restore the folder "
        "from a backup, or begin a new run with `longhaul train ... --resume never`"
    )


def has_saved(run: RunDirectory) -> bool:
    """Whether the run ever saved a checkpoint, whatever became of it.

    Since `run.json` names the first checkpoint it is enough to look there. Runs of earlier
    versions are known by how their sessions ended.
    """
    record = run.read_record()
    if record.first_checkpoint or record.status is Status.FINISHED:
        return True
    if read_latest(run.checkpoints) is not None:
        return True
    return any(
        row.get("event") in ("resumed", Status.FINISHED.value)
        or (row.get("event") == Status.STOPPED.value and row.get("reason") in SAVED_FIRST)
        for row in iterate_rows(run.sessions)
    )

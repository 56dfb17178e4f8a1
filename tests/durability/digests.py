"""What must be the same in two runs: the logs without clocks and the last checkpoint."""

from __future__ import annotations

import hashlib
from pathlib import Path

from longhaul.runs.checkpoints.inspect import list_checkpoints, read_manifest
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.segments import feed_log


def run_digest(run: RunDirectory) -> dict[str, str]:
    """Return the hash of every compared log and of every part of the newest checkpoint."""
    found = {log.name: log_digest(log) for log in (run.metrics, run.episodes, run.events)}
    newest = list_checkpoints(run.checkpoints)[0]
    parts = read_manifest(newest).parts
    return {"checkpoint": newest.name, **found, **{name: parts[name].sha256 for name in parts}}


def log_digest(log: Path) -> str:
    """Return the hash of a log, all its pieces together."""
    running = hashlib.sha256()
    feed_log(log, running.update)
    return running.hexdigest()


def differing(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return the names of what differs."""
    names = sorted(expected.keys() | found.keys())
    return [name for name in names if expected.get(name) != found.get(name)]

"""run.json: what a run is and how it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path

import msgspec

from longhaul.core.errors import ConfigError
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.machine import host_facts, installed_versions

FORMAT = 1


class Status(Enum):
    """How a run stands, as its trainer last said."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What run.json holds."""

    task: str
    name: str
    seed: int
    created: str
    command: tuple[str, ...]
    versions: dict[str, str]
    host: dict[str, str]
    status: Status = Status.RUNNING
    reason: str = ""
    first_checkpoint: str = ""
    """The first checkpoint the run ever saved; empty until there is one."""
    format: int = FORMAT

    @property
    def created_at(self) -> datetime:
        """When the run was created."""
        return datetime.fromisoformat(self.created)


def begin_record(
    task: str, name: str, seed: int, *, now: datetime, command: Sequence[str]
) -> RunRecord:
    """Return the record of a run that begins on this machine."""
    if seed < 0:
        raise ConfigError(f"seed = {seed} must be at least 0")
    return RunRecord(
        task=task,
        name=name,
        seed=seed,
        created=now.isoformat(timespec="seconds"),
        command=tuple(command),
        versions=installed_versions(),
        host=host_facts(),
    )


def encode_record(record: RunRecord) -> bytes:
    """Return run.json."""
    row = {"format": record.format, **asdict(record), "status": record.status.value}
    return json.dumps(row, indent=1).encode() + b"\n"


def decode_record(content: bytes, path: Path) -> RunRecord:
    """Return the record in `content`; `path` names it in errors."""
    try:
        row = json.loads(content)
        found = row.get("format") if isinstance(row, Mapping) else None
        if found != FORMAT:
            raise ConfigError(
                f"{path} has format {found!r}; this version of longhaul reads {FORMAT}"
            )
        record = msgspec.convert(row, RunRecord)
        record.created_at  # noqa: B018 - the time must be readable as well
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} is damaged: {error}; restore it from a backup") from error
    return record


def write_status(path: Path, status: Status, reason: str = "") -> None:
    """Change the status in run.json and leave the rest."""
    record = decode_record(path.read_bytes(), path)
    with storage_errors(path):
        replace_file(path, encode_record(replace(record, status=status, reason=reason)))


def write_first_checkpoint(path: Path, name: str) -> None:
    """Note in run.json that the run has saved a checkpoint; only the first is noted."""
    record = decode_record(path.read_bytes(), path)
    if not record.first_checkpoint:
        with storage_errors(path):
            replace_file(path, encode_record(replace(record, first_checkpoint=name)))

"""The run directory: its files, its record, and how runs are created and found."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from longhaul.core.errors import ConfigError, ResourceError
from longhaul.runs.durable import (
    is_full,
    link_error,
    read_small,
    replace_file,
    storage_errors,
    sync_directory,
    write_durably,
)
from longhaul.runs.lock import host_facts, installed_versions

FORMAT = 2
"""Of run.json. Raised when older runs can no longer be read; see docs/decisions/0016."""
LAST_READERS = {1: "0.1"}
"""The newest version of longhaul that reads each earlier format."""


class Status(Enum):
    """The status of a run, as its trainer last recorded it."""

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
    continued_from: str = ""
    """The run and checkpoint it was begun from with all state, as `RUN/CHECKPOINT`."""
    device: str = ""
    """What the newest session trains on, and why if that is not what the config asks for."""
    backend: str = ""
    """What the learner computes with: `torch` or `native`."""
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
            raise ConfigError(other_format(path, found))
        record = msgspec.convert(row, RunRecord)
        record.created_at  # noqa: B018 - the time must be readable as well
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} is damaged: {error}; restore it from a backup") from error
    return record


def other_format(path: Path, found: object) -> str:
    """Return why a run of another format is refused, and what reads it."""
    reader = LAST_READERS.get(found) if isinstance(found, int) else None
    remedy = f"use longhaul {reader}" if reader else "use the version that wrote it"
    return (
        f"{path} has format {found!r}, and this version reads {FORMAT}; {remedy} to read this run"
    )


def write_status(path: Path, status: Status, reason: str = "") -> None:
    """Change the status in run.json and leave the rest."""
    _change(path, status=status, reason=reason)


def write_first_checkpoint(path: Path, name: str) -> None:
    """Record the first checkpoint in run.json; later ones are ignored."""
    if not decode_record(path.read_bytes(), path).first_checkpoint:
        _change(path, first_checkpoint=name)


def write_running(path: Path, device: str, backend: str) -> None:
    """Record in run.json that the run is being trained, on what device and with what backend."""
    _change(path, status=Status.RUNNING, reason="", device=device, backend=backend)


def _change(path: Path, **values: Any) -> None:
    record = decode_record(path.read_bytes(), path)
    with storage_errors(path):
        replace_file(path, encode_record(replace(record, **values)))


_UNFIT = re.compile(r"[^a-z0-9._-]+")
_LONGEST = 80
WANDB = "wandb"
"""The folder of W&B, which keeps links to its newest run and logs; longhaul writes none of it."""


def slug(text: str) -> str:
    """Return `text` as a name of a-z 0-9 . _ - that is safe as a folder: gym:A-v1 is gym-a-v1.

    Letters lose their accents; letters without an equivalent in a-z are refused.
    """
    plain = "".join(
        letter
        for letter in unicodedata.normalize("NFKD", text.casefold())
        if not unicodedata.combining(letter)
    )
    fit = _UNFIT.sub("-", plain).strip(".-")
    has_others = any(letter.isalnum() and not letter.isascii() for letter in plain)
    if not fit or has_others or len(fit) > _LONGEST:
        raise ConfigError(
            f"{text!r} cannot name a folder; use 1 to {_LONGEST} of a-z 0-9 . _ - and begin with "
            "a letter or digit"
        )
    return fit


class RunEntry:
    """A file or folder of a run directory; as an attribute of one, its path."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: RunDirectory, owner: type) -> Path:
        return directory.path / self._name


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of one run."""

    path: Path

    record = RunEntry("run.json")
    """What the run is: task, name, seed, versions, command, status."""
    config = RunEntry("config.toml")
    """The resolved config."""
    lock = RunEntry("lock")
    """Held by the trainer."""
    heartbeat = RunEntry("heartbeat.json")
    """Stage and progress of the trainer, rewritten every few seconds."""
    metrics = RunEntry("metrics.jsonl")
    """One row per iteration; nothing in it depends on a clock."""
    timings = RunEntry("timings.jsonl")
    """One row per iteration of values that depend on a clock, such as time/fps."""
    episodes = RunEntry("episodes.jsonl")
    """One row per finished episode."""
    events = RunEntry("events.jsonl")
    """One row per decision of the schedule."""
    sessions = RunEntry("sessions.jsonl")
    """Events of the processes: starts, resumes, signals, faults, ends."""
    resources = RunEntry("resources.jsonl")
    """Memory and CPU use of every process, every few seconds."""
    schema = RunEntry("schema.json")
    """The meaning of the names in the rows, and their version."""
    metrics_table = RunEntry("metrics.parquet")
    """The metrics in columns, kept current."""
    checkpoints = RunEntry("checkpoints")
    """One folder per checkpoint."""
    evaluations = RunEntry("evaluations")
    """Results of evaluations."""
    final_score = RunEntry("evaluations/final.json")
    """The score of the evaluation that ended the run."""
    media = RunEntry("media")
    """Videos and pictures."""
    film_notes = RunEntry("media/films.json")
    """What each film in `media` shows."""
    plots = RunEntry("plots")
    """Drawn curves."""
    panels = RunEntry("panels.json")
    """The panels the task asks for, for pages that do not import tasks."""
    tensorboard = RunEntry("tensorboard")
    """Event files of TensorBoard."""
    crash = RunEntry("crash")
    """Log lines set aside on resume, damaged logs, reproductions of faults."""
    report = RunEntry("report.html")
    """The report as one page."""
    notebook = RunEntry("notebook.md")
    """Notes by people."""

    def read_record(self) -> RunRecord:
        """Return run.json, or raise `ConfigError` if this is not a run directory."""
        try:
            content = read_small(self.record)
        except FileNotFoundError:
            raise ConfigError(f"{self.path} is not a run directory: it has no run.json") from None
        except OSError as error:
            raise ConfigError(f"{self.record} cannot be read: {error.strerror}") from error
        return decode_record(content, self.record)

    def check_plain(self) -> None:
        """Refuse a directory that holds links or special files.

        Opening files without following links is not enough: folders may be links as well.
        """
        top = self.path.resolve()
        for folder, folders, files in os.walk(top):
            for name in (*folders, *files):
                path = Path(folder, name)
                try:
                    mode = path.lstat().st_mode
                except FileNotFoundError:
                    continue  # a trainer replaces its files at any moment
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise link_error(path)
            if Path(folder) == top and WANDB in folders:
                folders.remove(WANDB)


def create_run(
    root: Path,
    record: RunRecord,
    config_text: str,
    fill: Callable[[Path], None] = lambda folder: None,
) -> RunDirectory:
    """Make `root/<task>/<time>-<name>-s<seed>` with run.json and config.toml, all or nothing.

    `fill` puts more into the folder before it has its name.
    """
    task_folder = root / slug(record.task)
    run_id = f"{record.created_at:%Y%m%d-%H%M%S}-{slug(record.name)}-s{record.seed}"
    if len(run_id) > _LONGEST:
        raise ConfigError(
            f"the run's name {record.name!r} is too long: {run_id!r} has more than {_LONGEST} "
            "characters"
        )
    made = [path for path in (task_folder, *task_folder.parents) if not path.exists()]
    temporary = task_folder / f".tmp-{uuid.uuid4().hex}"
    try:
        task_folder.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        write_durably(temporary / "run.json", [encode_record(record)])
        write_durably(temporary / "config.toml", [config_text.encode()])
        (temporary / "checkpoints").mkdir()
        fill(temporary)
        sync_directory(temporary)
        path = _rename_to_free_name(temporary, task_folder / run_id)
        sync_directory(task_folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        _remove_empty(made)
        kind = ResourceError if is_full(error) else ConfigError
        raise kind(
            f"cannot create a run in {root}: {error.strerror}; make that folder writable or "
            "choose another one for the runs"
        ) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        _remove_empty(made)
        raise
    return RunDirectory(path)


def _rename_to_free_name(temporary: Path, wanted: Path) -> Path:
    """Give the folder its name; a second run in the same second gets a number."""
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}.{number}")
    return temporary.rename(path)


def _remove_empty(folders: list[Path]) -> None:
    """Remove the folders this call made, innermost first, unless they are in use."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def list_run_directories(folder: Path) -> list[RunDirectory]:
    """Return the runs right inside `folder`, oldest first."""
    return [RunDirectory(record.parent) for record in sorted(folder.glob("[!.]*/run.json"))]


def runs_named(root: Path, task: str, name: str, seed: int) -> Iterator[RunDirectory]:
    """Yield the runs of this task, name and seed, newest first.

    A run whose run.json is unreadable is an error here: skipping it would hide it.
    """
    run_id = re.compile(rf"\d{{8}}-\d{{6}}-{re.escape(slug(name))}-s{seed}(\.\d+)?")
    for run in reversed(list_run_directories(root / slug(task))):
        if not run_id.fullmatch(run.path.name):
            continue
        record = run.read_record()
        if (record.task, record.name, record.seed) == (task, name, seed):
            yield run


def find_unfinished(root: Path, task: str, name: str, seed: int) -> RunDirectory | None:
    """Return the newest run of this task, name and seed that has not finished, if any."""
    for run in runs_named(root, task, name, seed):
        if run.read_record().status is not Status.FINISHED:
            return run
    return None

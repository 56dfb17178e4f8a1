"""The run directory: where everything about one run is."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path

import msgspec

from longhaul.core.errors import ConfigError, ResourceError
from longhaul.runs.durable import (
    is_full,
    link_error,
    replace_file,
    storage_errors,
    sync_directory,
    write_durably,
)
from longhaul.runs.lock import host_facts, installed_versions

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


_UNFIT = re.compile(r"[^a-z0-9._-]+")
_LONGEST = 80
WANDB = "wandb"
"""The folder of W&B, which keeps links to its newest run and logs; longhaul writes none of it."""


def slug(text: str) -> str:
    """Return `text` as a name of a-z 0-9 . _ - that is safe as a folder: gym:A-v1 is gym-a-v1.

    Letters lose their accents; one that no letter of a-z stands for is refused, not left out.
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


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of one run."""

    path: Path

    @property
    def record(self) -> Path:
        """What the run is: task, name, seed, versions, command, status."""
        return self.path / "run.json"

    @property
    def config(self) -> Path:
        """The resolved config."""
        return self.path / "config.toml"

    @property
    def lock(self) -> Path:
        """Held by the trainer."""
        return self.path / "lock"

    @property
    def heartbeat(self) -> Path:
        """What the trainer is doing, rewritten every few seconds."""
        return self.path / "heartbeat.json"

    @property
    def metrics(self) -> Path:
        """One row per iteration; nothing in it depends on a clock."""
        return self.path / "metrics.jsonl"

    @property
    def timings(self) -> Path:
        """One row per iteration of what does depend on a clock, such as time/fps."""
        return self.path / "timings.jsonl"

    @property
    def episodes(self) -> Path:
        """One row per finished episode."""
        return self.path / "episodes.jsonl"

    @property
    def events(self) -> Path:
        """One row per decision of the schedule."""
        return self.path / "events.jsonl"

    @property
    def sessions(self) -> Path:
        """What happened to the processes: starts, resumes, signals, faults, ends."""
        return self.path / "sessions.jsonl"

    @property
    def resources(self) -> Path:
        """What every process takes of memory and processors, every few seconds."""
        return self.path / "resources.jsonl"

    @property
    def schema(self) -> Path:
        """What the names in the rows mean, and which version of them it is."""
        return self.path / "schema.json"

    @property
    def metrics_table(self) -> Path:
        """The metrics in columns, kept current."""
        return self.path / "metrics.parquet"

    @property
    def checkpoints(self) -> Path:
        """One folder per checkpoint."""
        return self.path / "checkpoints"

    @property
    def evaluations(self) -> Path:
        """Results of evaluations."""
        return self.path / "evaluations"

    @property
    def final_score(self) -> Path:
        """The score of the evaluation that ended the run."""
        return self.evaluations / "final.json"

    @property
    def media(self) -> Path:
        """Videos and pictures."""
        return self.path / "media"

    @property
    def film_notes(self) -> Path:
        """What each film in `media` shows."""
        return self.media / "films.json"

    @property
    def plots(self) -> Path:
        """Drawn curves."""
        return self.path / "plots"

    @property
    def panels(self) -> Path:
        """What the task wants its readers to see, for pages that know no tasks."""
        return self.path / "panels.json"

    @property
    def tensorboard(self) -> Path:
        """Event files of TensorBoard."""
        return self.path / "tensorboard"

    @property
    def crash(self) -> Path:
        """Log lines set aside on resume, damaged logs, reproductions of faults."""
        return self.path / "crash"

    @property
    def report(self) -> Path:
        """The report as one page."""
        return self.path / "report.html"

    @property
    def notebook(self) -> Path:
        """Notes by people."""
        return self.path / "notebook.md"

    def read_record(self) -> RunRecord:
        """Return run.json, or raise `ConfigError` if this is no run directory."""
        try:
            content = self.record.read_bytes()
        except FileNotFoundError:
            raise ConfigError(f"{self.path} is not a run directory: it has no run.json") from None
        except OSError as error:
            raise ConfigError(f"{self.record} cannot be read: {error.strerror}") from error
        return decode_record(content, self.record)

    def check_plain(self) -> None:
        """Refuse to write into a directory with anything that leads out of it.

        Opening without following links alone would not do: folders may be links as well.
        """
        top = self.path.resolve()
        for folder, folders, files in os.walk(top):
            for name in (*folders, *files):
                path = Path(folder, name)
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise link_error(path)
            if Path(folder) == top and WANDB in folders:
                folders.remove(WANDB)


def create_run(root: Path, record: RunRecord, config_text: str) -> RunDirectory:
    """Make `root/<task>/<time>-<name>-s<seed>` with run.json and config.toml, or nothing at all."""
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
    return RunDirectory(path)


def _rename_to_free_name(temporary: Path, wanted: Path) -> Path:
    """Give the folder its name; a second run of the same second gets a number."""
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}.{number}")
    return temporary.rename(path)


def _remove_empty(folders: list[Path]) -> None:
    """Remove the folders this call made, innermost first, unless somebody else uses them."""
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

    A run whose run.json is unreadable is an error here: passing over it would hide it.
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

"""Repairing what another trainer of a task left in a folder; listed first, changed if asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.app.build.sources import find_kind, task_names
from longhaul.app.build.text import columns
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.tasks.kind import FolderRepair, MendedFile, MendRequest

BACKUP = ".bak"


@dataclass(frozen=True, slots=True)
class RepairedFolder:
    """The files of another trainer, and whether they were repaired."""

    folder: Path
    files: dict[str, str]
    """What is to be said of each file, by its path in the folder."""
    applied: bool
    is_sound: bool
    """Whether there was nothing to repair."""

    def as_text(self) -> str:
        """Return a table of the files."""
        lines = [columns(list(self.files.items()), header=("file", "global_step"))]
        if self.applied and not self.is_sound:
            lines.append(f"the old files are beside the new ones, as *{BACKUP}")
        elif not self.is_sound:
            lines.append("nothing was changed; --apply writes the counts and backs up the files")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return the same for programs."""
        facts = {"folder": str(self.folder), "sound": self.is_sound, "applied": self.applied}
        return json.dumps({**facts, "files": self.files})


def is_foreign(folder: Path) -> bool:
    """Whether a folder holds no run of longhaul, but files that a task can repair."""
    if RunDirectory(folder).record.exists() or not folder.is_dir():
        return False
    return any(True for _ in _files(folder))


def repair_folder(
    folder: Path, *, apply: bool, num_steps: int = 64, if_lower: bool = False
) -> RepairedFolder:
    """Examine the files of other trainers below a folder; if asked, repair them with backups."""
    if num_steps < 1:
        raise ConfigError(f"--num-steps must be at least 1, not {num_steps}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    request = MendRequest(num_steps, if_lower, now, _read_weights)
    files, is_sound = {}, True
    for path, repair in _files(folder):
        mended = repair.mend(path, request)
        is_sound = is_sound and mended.content is None
        if apply:
            _write(path, mended)
        files[str(path.relative_to(folder))] = _said(mended, applied=apply)
    return RepairedFolder(folder, files, apply, is_sound)


def _files(folder: Path) -> Iterator[tuple[Path, FolderRepair]]:
    for name in task_names():
        repair = find_kind(name).folder_repair
        if repair is not None:
            for path in sorted(folder.rglob(repair.pattern)):
                yield path, repair


def _read_weights(path: Path) -> Mapping[str, Any]:
    from longhaul.app.artifacts.import_torch import read_plain

    try:
        content = read_plain(path)
    except ConfigError:
        return {}
    return content if isinstance(content, Mapping) else {}


def _write(path: Path, mended: MendedFile) -> None:
    """Replace a file; its first content stays in a backup, however often it is repaired."""
    if mended.content is None:
        return
    backup = path.with_name(path.name + BACKUP)
    with storage_errors(path):
        if not backup.exists():
            replace_file(backup, path.read_bytes())
        replace_file(path, mended.content)


def _said(mended: MendedFile, *, applied: bool) -> str:
    if mended.content is None:
        return mended.status
    return f"{'updated' if applied else 'would_update'}:{mended.status}"

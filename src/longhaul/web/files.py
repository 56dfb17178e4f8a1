"""Finding runs and their files for the web page, without following links out of the folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.follow import is_regular, open_regular, signature

MOST_RUNS = 5000
MOST_FILES = 2000
SMALL_FILE = 4 * 1024 * 1024
"""Larger files are not read whole: they are not what their names say."""
_PLAIN_NAME = re.compile(r"[^\x00-\x1f/\\]{1,255}")


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """The folder of runs; names from a browser are only looked up, never joined to a path."""

    root: Path

    def runs(self) -> dict[str, RunDirectory]:
        """Return the runs by `task/run`; folders that lead out of the root are skipped."""
        found: dict[str, RunDirectory] = {}
        for task in self._folders(self.root):
            for run in self._folders(task):
                if len(found) < MOST_RUNS and is_regular(run / "run.json"):
                    found[f"{task.name}/{run.name}"] = RunDirectory(run)
        return found

    def files(self, folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
        """Return the regular files right inside `folder` by name, in the order of their names."""
        if not self.holds(folder):
            return {}
        try:
            with os.scandir(folder) as entries:
                names = sorted(
                    entry.name
                    for entry in entries
                    if entry.is_file(follow_symlinks=False)
                    and entry.name.lower().endswith(suffixes)
                    and _PLAIN_NAME.fullmatch(entry.name)
                )
        except OSError:
            return {}
        return {name: folder / name for name in names[:MOST_FILES]}

    def holds(self, folder: Path) -> bool:
        """Whether a folder, all links followed, is inside the root."""
        try:
            real = folder.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return real.is_dir() and real.is_relative_to(self.root)

    def _folders(self, folder: Path) -> list[Path]:
        try:
            with os.scandir(folder) as entries:
                names = sorted(
                    (entry.name, entry.is_symlink())
                    for entry in entries
                    if not entry.name.startswith(".") and _is_folder(entry)
                )
        except OSError:
            return []
        paths = ((folder / name, is_link) for name, is_link in names)
        return [path for path, is_link in paths if not is_link or self.holds(path)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link that leads to itself


def open_runs_folder(root: Path) -> RunsFolder:
    """Return the folder of runs, or raise `ConfigError` if it is none."""
    if not root.is_dir():
        raise ConfigError(
            f"{root} is not a folder; name the folder of runs, as in `longhaul serve runs`"
        )
    if (root / "run.json").is_file():
        raise ConfigError(
            f"{root} is one run; give the folder of all tasks, {root.parent.parent}, and pick the "
            "run on the page"
        )
    return RunsFolder(root.resolve())


def read_small(path: Path) -> bytes | None:
    """Return the content of a small regular file, None if it is anything else."""
    found = signature(path)
    if found is None or found[1] > SMALL_FILE:
        return None
    try:
        with open_regular(path) as file:
            return file.read(SMALL_FILE)
    except OSError:
        return None

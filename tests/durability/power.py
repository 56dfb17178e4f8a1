"""A disk that forgets: what a power cut leaves of a journal of changes.

Only what was synced is certain. The content of a file is certain once the file is synced, and its
name once the folder that holds the name is synced. Everything else may be there or not: of the
later writes of a file a first part, the rest lost or read as zeros; of the later names in a folder
a first part. Folders and files are independent of each other.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

Loss = Literal["everything", "some", "nothing"]
"""How much of what was not synced a power cut takes."""


@dataclass(frozen=True)
class Change:
    """One change as the journal holds it."""

    op: str
    path: str
    other: str
    length: int
    offset: int
    content: bytes = b""


@dataclass(eq=False)
class File:
    """A file: what is certain, and the writes since."""

    certain: bytes = b""
    later: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Offset and bytes of each write; no bytes for a truncation to the offset."""

    def content(self, kept: int, *, zeros: bool = False) -> bytes:
        """Return what it holds with the first `kept` later writes; the others may leave zeros."""
        held = bytearray(self.certain)
        for number, (offset, added) in enumerate(self.later):
            if number >= kept and not zeros:
                break
            if added is None:
                held[:] = held[:offset].ljust(offset, b"\0")
                continue
            if len(held) < offset:
                held.extend(bytes(offset - len(held)))
            held[offset : offset + len(added)] = added if number < kept else bytes(len(added))
        return bytes(held)

    def sync(self) -> None:
        """Make everything certain."""
        self.certain = self.content(len(self.later))
        self.later.clear()


@dataclass(eq=False)
class Folder:
    """A folder: the names that are certain, and the changes of names since."""

    certain: dict[str, File | Folder] = field(default_factory=dict)
    later: list[tuple[str, File | Folder | None]] = field(default_factory=list)
    """Name and what it now names; None for a name that was removed."""

    def names(self, kept: int | None = None) -> dict[str, File | Folder]:
        """Return the names with the first `kept` later changes; all of them by default."""
        found = dict(self.certain)
        for name, node in self.later[:kept]:
            if node is None:
                found.pop(name, None)
            else:
                found[name] = node
        return found

    def sync(self) -> None:
        """Make all names certain."""
        self.certain = self.names()
        self.later.clear()


class Disk:
    """Takes changes below one folder, and shows what each kind of power cut leaves."""

    def __init__(self, top: str) -> None:
        self._top = PurePosixPath(top)
        self._root = Folder()

    def restore(self, tree: dict[str, bytes | None]) -> None:
        """Hold these paths for certain."""
        self._root = Folder()
        for path, content in sorted(tree.items()):
            place = self._folder(str(self._top / path))
            place.certain[_name(path)] = Folder() if content is None else File(content)

    def damage(self, path: str, content: bytes) -> None:
        """Have a file hold something else, for certain."""
        self._file(path).certain = content

    def take(self, change: Change) -> None:
        """Do one change."""
        match change.op:
            case "open":
                self._open(change)
            case "write":
                self._file(change.path).later.append((change.offset, change.content))
            case "truncate":
                self._file(change.path).later.append((change.offset, None))
            case "fsync":
                self._find(change.path).sync()
            case "symlink":  # of a lock, of which only the name counts
                self._folder(change.path).later.append((_name(change.path), File()))
            case "mkdir":
                self._folder(change.path).later.append((_name(change.path), Folder()))
            case "unlink" | "rmdir":
                self._folder(change.path).later.append((_name(change.path), None))
            case "rename":
                moved = self._find(change.path)
                self._folder(change.path).later.append((_name(change.path), None))
                self._folder(change.other).later.append((_name(change.other), moved))

    def _open(self, change: Change) -> None:
        folder, flags = self._folder(change.path), change.length
        if _name(change.path) not in folder.names() and flags & os.O_CREAT:
            folder.later.append((_name(change.path), File()))
        if flags & os.O_TRUNC:
            self._file(change.path).later.append((0, None))

    def _find(self, path: str) -> File | Folder:
        node: File | Folder = self._root
        for part in PurePosixPath(path).relative_to(self._top).parts:
            assert isinstance(node, Folder), path
            node = node.names()[part]
        return node

    def _file(self, path: str) -> File:
        node = self._find(path)
        assert isinstance(node, File), path
        return node

    def _folder(self, path: str) -> Folder:
        node = self._find(str(PurePosixPath(path).parent))
        assert isinstance(node, Folder), path
        return node

    def after_power_cut(self, loss: Loss, chance: random.Random) -> dict[str, bytes | None]:
        """Return what is left: every path with its content, None for a folder."""
        return dict(_left(self._root, PurePosixPath(), loss, chance))


def _left(
    folder: Folder, place: PurePosixPath, loss: Loss, chance: random.Random
) -> Iterator[tuple[str, bytes | None]]:
    for name, node in folder.names(_kept(len(folder.later), loss, chance)).items():
        path = place / name
        if isinstance(node, Folder):
            yield str(path), None
            yield from _left(node, path, loss, chance)
        else:
            kept = _kept(len(node.later), loss, chance)
            yield str(path), node.content(kept, zeros=loss == "some" and chance.random() < 0.5)


def _kept(count: int, loss: Loss, chance: random.Random) -> int:
    """Return how many of the uncertain changes are kept."""
    if loss == "some":
        return chance.randint(0, count)
    return count if loss == "nothing" else 0


def _name(path: str) -> str:
    return PurePosixPath(path).name


def write_tree(tree: dict[str, bytes | None], top: Path) -> None:
    """Make these files and folders below `top`."""
    top.mkdir(parents=True)
    for path, content in tree.items():
        if content is None:
            (top / path).mkdir()
        else:
            (top / path).write_bytes(content)


def read_tree(top: Path) -> dict[str, bytes | None]:
    """Return every path below `top` with its content."""
    return {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None
        for path in sorted(top.rglob("*"))
    }


def disk_after(changes: Iterable[Change], top: str) -> Disk:
    """Return a disk that took these changes."""
    disk = Disk(top)
    for change in changes:
        disk.take(change)
    return disk


def scratch() -> str | None:
    """Return a folder in memory if there is one: what is synced there costs no time."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None

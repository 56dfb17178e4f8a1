"""A disk below one folder that forgets, fills up and loses its power, in one process.

The functions of `os` that change files pass through it. What it holds is really there, in a folder
that should be in memory; the model in `tests.durability.power` keeps what a power cut would leave.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.durability.power import Change, Disk, Loss, write_tree

CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
NAMES = (
    "open",
    "close",
    "write",
    "fsync",
    "ftruncate",
    "rename",
    "replace",
    "mkdir",
    "unlink",
    "remove",
    "rmdir",
)


class PowerCutError(BaseException):
    """Ends the trainer where it is."""


class SimulatedDisk:
    """Counts changes, and fails at the one it is told."""

    def __init__(self, top: Path) -> None:
        self.top = str(top)
        self.is_full = False
        self.is_off = False
        self.changes = 0
        self.cut_at = 0
        """The change at which the power goes, 0 for none."""
        self.cuts_after = False
        """Whether that change is still done."""
        self._model = Disk(self.top)
        self._real: dict[str, Any] = {}
        self._open: dict[int, str] = {}

    def cut(self, loss: Loss, chance: random.Random) -> None:
        """Leave what a power cut leaves, and switch the power on again."""
        self.release()
        tree = self._model.after_power_cut(loss, chance)
        with self.untouched():
            shutil.rmtree(self.top)
            write_tree(tree, Path(self.top))
        self._model = Disk(self.top)
        self._model.restore(tree)
        self.is_off = False

    def release(self) -> None:
        """Close what the trainer left open, as its end does."""
        for descriptor in list(self._open):
            with suppress(OSError):
                self._real["close"](descriptor)
        self._open.clear()

    def damage(self, path: Path, content: bytes) -> None:
        """Have a file hold something else, as a failing disk does."""
        self._model.damage(str(path), content)
        with self.untouched():
            path.write_bytes(content)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Let changes pass that are none of the trainer's."""
        patched = {name: getattr(os, name) for name in NAMES}
        self._put(self._real)
        try:
            yield
        finally:
            self._put(patched)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Stand between this process and its files."""
        self._real = {name: getattr(os, name) for name in NAMES}
        self._put({name: getattr(self, f"_{name}_") for name in NAMES})
        try:
            yield
        finally:
            self._put(self._real)

    def _put(self, functions: dict[str, Any]) -> None:
        for name, function in functions.items():
            setattr(os, name, function)

    def _path(self, path: Any, dir_fd: int | None = None) -> str:
        """Return the whole path if it is below the folder, else nothing."""
        if isinstance(path, int):
            return self._open.get(path, "")
        text = os.fspath(path)
        if dir_fd is not None:
            text = f"{self._open.get(dir_fd, '')}/{text}"
        return text if text == self.top or text.startswith(f"{self.top}/") else ""

    def _change(self, op: str, path: str, act: Callable[[], Any], **facts: Any) -> Any:
        if self.is_off:
            raise PowerCutError
        self.changes += 1
        is_cut = self.changes == self.cut_at
        if is_cut and not self.cuts_after:
            self.is_off = True
            raise PowerCutError
        takes_room = op in ("write", "mkdir") or (op == "open" and not Path(path).exists())
        if self.is_full and takes_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        found = act()
        other, content = facts.get("other", ""), facts.get("content", b"")
        length, offset = facts.get("length", len(content)), facts.get("offset", 0)
        self._model.take(Change(op, path, other, length, offset, content))
        if is_cut:
            self.is_off = True
            raise PowerCutError
        return found

    def _open_file(self, path: Any, flags: int, mode: int, dir_fd: int | None) -> int:
        found: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        if inside := self._path(path, dir_fd):
            self._open[found] = inside
        return found

    def _open_(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        inside = self._path(path, dir_fd)
        if not (inside and flags & CHANGES):
            return self._open_file(path, flags, mode, dir_fd)
        opened: int = self._change(
            "open", inside, lambda: self._open_file(path, flags, mode, dir_fd), length=flags
        )
        return opened

    def _close_(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        self._real["close"](descriptor)

    def _write_(self, descriptor: int, content: bytes) -> int:
        if not (inside := self._path(descriptor)):
            return int(self._real["write"](descriptor, content))
        # With O_APPEND the position is known only afterwards; nobody else writes here.
        offset = os.fstat(descriptor).st_size
        done: int = self._change(
            "write",
            inside,
            lambda: self._real["write"](descriptor, content),
            content=bytes(content),
            offset=offset,
        )
        return done

    def _fsync_(self, descriptor: int) -> None:
        if inside := self._path(descriptor):
            self._change("fsync", inside, lambda: None)

    def _ftruncate_(self, descriptor: int, size: int) -> None:
        act = partial(self._real["ftruncate"], descriptor, size)
        if inside := self._path(descriptor):
            self._change("truncate", inside, act, offset=size)
        else:
            act()

    def _rename_(self, path: Any, target: Any) -> None:
        act = partial(self._real["rename"], path, target)
        if inside := self._path(path):
            self._change("rename", inside, act, other=self._path(target))
        else:
            act()

    _replace_ = _rename_

    def _mkdir_(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._named("mkdir", path, dir_fd, lambda: self._real["mkdir"](path, mode, dir_fd=dir_fd))

    def _unlink_(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._named("unlink", path, dir_fd, lambda: self._real["unlink"](path, dir_fd=dir_fd))

    _remove_ = _unlink_

    def _rmdir_(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._named("rmdir", path, dir_fd, lambda: self._real["rmdir"](path, dir_fd=dir_fd))

    def _named(self, op: str, path: Any, dir_fd: int | None, act: Callable[[], Any]) -> None:
        if inside := self._path(path, dir_fd):
            self._change(op, inside, act)
        else:
            act()

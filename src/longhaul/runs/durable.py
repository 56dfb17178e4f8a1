"""Writing files atomically: a power cut leaves the old content or the new, never a mixture."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.errors import ConfigError, ResourceError
from longhaul.core.system import sync_file

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_BLOCK = 1 << 20
_LINK = {errno.ELOOP, errno.EMLINK}
"""Errors of opening a link with `O_NOFOLLOW`."""


def link_error(path: Path) -> ConfigError:
    """Return the error for a link or special file in a run directory."""
    return ConfigError(
        f"{path} is a symbolic link or a special file; everything in a run directory must be a "
        "regular file or folder, because a link in a run from elsewhere could redirect writes to "
        "any of your files. Replace it by its target, or remove it"
    )


@dataclass(frozen=True, slots=True)
class Digest:
    """The length and SHA-256 of a file."""

    length: int
    sha256: str


def is_full(error: OSError) -> bool:
    """Whether the disk, the quota or the allowed file size is used up."""
    return error.errno in _FULL


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise a failure to write `path` as a `ResourceError` with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in _LINK:
            raise link_error(Path(error.filename or path)) from error
        reason = error.strerror or str(error)
        if is_full(error):
            raise ResourceError(
                f"no room to write {path}: {reason}; free disk space or raise the quota, then "
                "start the same command again"
            ) from error
        raise ResourceError(
            f"cannot write {path}: {reason}; repair the disk or its permissions, then start the "
            "same command again"
        ) from error


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write all of `content`, however little the system takes at a time."""
    left = memoryview(content).cast("B") if len(content) else memoryview(b"")
    while left:
        left = left[os.write(descriptor, left[: 64 * _BLOCK]) :]


def sync_directory(path: Path) -> None:
    """Force the names in a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_place(path: Path) -> None:
    """Force the name of a folder to disk, and those of the folders above that may be new as well.

    Without this a power cut may take a folder whose files were all synced.
    """
    for folder in path.resolve().parents:
        # A folder that may not be listed was not made by this user.
        with suppress(PermissionError):
            sync_directory(folder)


def write_durably(path: Path, chunks: Iterable[bytes | memoryview]) -> Digest:
    """Create the file, force it to disk, and return the digest of what was meant to be written."""
    running = hashlib.sha256()
    length = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        for chunk in chunks:
            write_all(descriptor, chunk)
            running.update(chunk)
            length += memoryview(chunk).nbytes
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    return Digest(length, running.hexdigest())


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace the content of a file atomically."""
    beside = path.with_name(f".{path.name}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(beside, flags, 0o644)
    try:
        write_all(descriptor, content)
        if durable:
            sync_file(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(path)
    if durable:
        sync_directory(path.parent)


SMALL_FILE = 64 << 20
"""More bytes than any record, config, manifest or card has."""


def read_small(path: Path) -> bytes:
    """Return the content of a file that must be small: a sparse one could fill the memory."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > SMALL_FILE:
            words = f"{size:,} bytes are more than such a file ever has"
            raise OSError(errno.EFBIG, words, str(path))
        return file.read(SMALL_FILE)


def digest_file(path: Path) -> Digest:
    """Return the digest of what the file holds."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        return Digest(os.fstat(file.fileno()).st_size, found)

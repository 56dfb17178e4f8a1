"""Looking at checkpoints without loading them; needs no torch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from longhaul.runs.durable import Digest, digest_file
from longhaul.runs.manifest import DamagedError, ForeignError, Manifest, decode_manifest

MANIFEST_FILE = "manifest.json"
STATE_FILE = "state.json"
LATEST_FILE = "latest"
_NAME = re.compile(r"step-(\d{12,})((?:\.\d+)*)")
_PART = re.compile(r"[a-z0-9_-]{1,80}\.safetensors|state\.json")


def checkpoint_name(env_steps: int, *suffixes: int) -> str:
    """Return the folder name; suffixes tell apart checkpoints with the same number of steps."""
    return ".".join([f"step-{env_steps:012d}", *map(str, suffixes)])


def checkpoint_order(path: Path) -> tuple[int, ...]:
    """Return what checkpoints are sorted by; a name that is none of ours comes first."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return ()
    return (int(match[1]), *(int(suffix) for suffix in match[2].split(".")[1:]))


def list_checkpoints(folder: Path) -> list[Path]:
    """Return everything that looks like a checkpoint, newest first, sound or not."""
    return sorted(folder.glob("step-*"), key=checkpoint_order, reverse=True)


def read_latest(folder: Path) -> str | None:
    """Return the checkpoint name that `latest` holds; None if there is no such file."""
    try:
        return (folder / LATEST_FILE).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def read_manifest(path: Path) -> Manifest:
    """Return the manifest if it is sound and names exactly the files that are there."""
    order = checkpoint_order(path)
    if not order:
        raise DamagedError("its name is not step-<12 digits>")
    if path.is_symlink() or not path.is_dir():
        raise DamagedError("it is not a folder")
    try:
        entries = {entry.name: entry for entry in path.iterdir()}
        for entry in entries.values():
            if entry.is_symlink() or not entry.is_file():
                raise DamagedError(f"{entry.name} is not a regular file")
        if MANIFEST_FILE not in entries:
            raise DamagedError(f"{MANIFEST_FILE} is missing")
        manifest = decode_manifest(entries[MANIFEST_FILE].read_bytes())
    except OSError as error:
        raise DamagedError(f"it cannot be read: {error.strerror}") from error
    _check_names(set(entries), manifest)
    if manifest.progress.env_steps != order[0]:
        raise DamagedError(f"it was made at step {manifest.progress.env_steps} and then renamed")
    return manifest


def _check_names(entries: set[str], manifest: Manifest) -> None:
    """Refuse missing files, files nobody named, and names that lead elsewhere."""
    for name in manifest.parts:
        if not _PART.fullmatch(name):
            raise DamagedError(f"its manifest names the file {name!r}")
        if name not in entries:
            raise DamagedError(f"{name} is missing")
    if STATE_FILE not in manifest.parts:
        raise DamagedError(f"its manifest does not name {STATE_FILE}")
    for name in sorted(entries - {MANIFEST_FILE, *manifest.parts}):
        raise DamagedError(f"{name} is there but not in its manifest")


def check_part(name: str, found: Digest, expected: Digest) -> None:
    """Raise `DamagedError` if a file is not the one that was written."""
    if found.length != expected.length:
        raise DamagedError(f"{name} has {found.length} bytes instead of {expected.length}")
    if found.sha256 != expected.sha256:
        raise DamagedError(f"{name} does not match its hash")


def read_part(path: Path, name: str, expected: Digest) -> bytes:
    """Return a file's content after checking that very content."""
    try:
        content = (path / name).read_bytes()
    except OSError as error:
        raise DamagedError(f"{name} cannot be read: {error.strerror}") from error
    check_part(name, Digest(len(content), hashlib.sha256(content).hexdigest()), expected)
    return content


def verify(path: Path, digest: Callable[[Path], Digest] = digest_file) -> Manifest:
    """Return the manifest of a checkpoint all of whose bytes are as written."""
    manifest = read_manifest(path)
    for name, expected in manifest.parts.items():
        try:
            found = digest(path / name)
        except OSError as error:
            raise DamagedError(f"{name} cannot be read: {error.strerror}") from error
        check_part(name, found, expected)
    return manifest


def check_identity(manifest: Manifest, identity: Mapping[str, str]) -> None:
    """Raise `ForeignError` if the checkpoint was made by another task or config."""
    for key, expected in identity.items():
        found = manifest.identity.get(key)
        if found != expected:
            raise ForeignError(
                f"it was made with {key} {found!r}, and this run has {expected!r}; start a run "
                "of another name, or use the task and config it was made with"
            )

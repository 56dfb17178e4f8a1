"""Listing, verifying and removing checkpoints without loading them; needs no torch."""

from __future__ import annotations

import hashlib
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from longhaul.core.errors import CheckpointError
from longhaul.runs.checkpoints.manifest import DamagedError, ForeignError, Manifest, decode_manifest
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.durable import Digest, digest_file, read_small
from longhaul.runs.lock import RunLock

MANIFEST_FILE = "manifest.json"
STATE_FILE = "state.json"
LATEST_FILE = "latest"
_NAME = re.compile(r"step-(\d{12,})((?:\.\d+)*)")
_PART = re.compile(r"[a-z0-9_-]{1,80}\.safetensors|state\.json")


def checkpoint_name(env_steps: int, *suffixes: int) -> str:
    """Return the folder name; suffixes distinguish checkpoints with the same number of steps."""
    return ".".join([f"step-{env_steps:012d}", *map(str, suffixes)])


def checkpoint_order(path: Path) -> tuple[int, ...]:
    """Return the sort key of a checkpoint; an unknown name comes first."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return ()
    return (int(match[1]), *(int(suffix) for suffix in match[2].split(".")[1:]))


def list_checkpoints(folder: Path) -> list[Path]:
    """Return everything named like a checkpoint, newest first, damaged or not."""
    return sorted(folder.glob("step-*"), key=checkpoint_order, reverse=True)


def read_latest(folder: Path) -> str | None:
    """Return the checkpoint name that `latest` holds; None if there is no such file."""
    try:
        return read_small(folder / LATEST_FILE).decode().strip()
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
        manifest = decode_manifest(read_small(entries[MANIFEST_FILE]))
    except OSError as error:
        raise DamagedError(f"it cannot be read: {error.strerror}") from error
    _check_names(set(entries), manifest)
    if manifest.progress.env_steps != order[0]:
        raise DamagedError(f"it was made at step {manifest.progress.env_steps} and renamed later")
    return manifest


def _check_names(entries: set[str], manifest: Manifest) -> None:
    """Refuse missing files, files not in the manifest, and names that lead elsewhere."""
    for name in manifest.parts:
        if not _PART.fullmatch(name):
            raise DamagedError(f"its manifest names the file {name!r}")
        if name not in entries:
            raise DamagedError(f"{name} is missing")
    if STATE_FILE not in manifest.parts:
        raise DamagedError(f"its manifest does not name {STATE_FILE}")
    for name in sorted(entries - {MANIFEST_FILE, *manifest.parts}):
        raise DamagedError(f"{name} is not in its manifest")


def check_part(name: str, found: Digest, expected: Digest) -> None:
    """Raise `DamagedError` if a file is not the one that was written."""
    if found.length != expected.length:
        raise DamagedError(f"{name} has {found.length} bytes instead of {expected.length}")
    if found.sha256 != expected.sha256:
        raise DamagedError(f"{name} does not match its hash")


def read_part(path: Path, name: str, expected: Digest) -> bytes:
    """Return a file's content after checking its hash."""
    try:
        # Before it is read: a sparse file could fill the memory.
        length = (path / name).stat().st_size
        if length != expected.length:
            raise DamagedError(f"{name} has {length} bytes instead of {expected.length}")
        content = (path / name).read_bytes()
    except OSError as error:
        raise DamagedError(f"{name} cannot be read: {error.strerror}") from error
    check_part(name, Digest(len(content), hashlib.sha256(content).hexdigest()), expected)
    return content


def verify(path: Path, digest: Callable[[Path], Digest] = digest_file) -> Manifest:
    """Check every byte of a checkpoint and return its manifest."""
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
                f"it was made with {key} {found!r}, but this run has {expected!r}; start a run "
                "with another name, or use the task and config it was made with"
            )


"""Reasons to stop that sessions.jsonl names only after a checkpoint was written."""


def check_checkpoints(run: RunDirectory) -> None:
    """Raise if the run has saved checkpoints and none is left; nothing is changed."""
    if list_checkpoints(run.checkpoints) or not has_saved(run):
        return
    raise CheckpointError(
        f"{run.checkpoints} holds no checkpoint, but this run has saved some; restore the folder "
        "from a backup, or start a new run with `longhaul train ... --resume never`"
    )


def has_saved(run: RunDirectory) -> bool:
    """Whether the run ever saved a checkpoint, even if it was removed since."""
    record = run.read_record()
    if record.first_checkpoint or record.status is Status.FINISHED:
        return True
    return read_latest(run.checkpoints) is not None


_PREFIX = ".tmp-"


def temporary_folder(folder: Path) -> Path:
    """Return a name for a checkpoint that is being written or removed."""
    return folder / f"{_PREFIX}{uuid.uuid4().hex}"


def remove_leftovers(folder: Path, lock: RunLock) -> list[Path]:
    """Remove folders that a killed writer left; only for the holder of the run's lock."""
    # A search keeps the checkpoints of each goal one folder deeper than a run does.
    if not lock.is_held or lock.path.parent not in folder.parents[:2]:
        raise ValueError(f"{folder} may be cleaned only by the holder of its run's lock")
    removed = []
    for path in sorted(folder.glob(f"{_PREFIX}*")):
        suffix = path.name.removeprefix(_PREFIX)
        is_ours = len(suffix) == 32 and all(letter in "0123456789abcdef" for letter in suffix)
        if is_ours and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
            removed.append(path)
    return removed


def remove_surplus(
    folder: Path, config: CheckpointConfig, *, saved: Path, damaged: Collection[Path] = ()
) -> list[Path]:
    """Remove intact checkpoints that are neither among the newest, the best nor those spread out.

    `saved` is known to be intact and always stays. Damaged and foreign ones are not counted and
    not removed. A checkpoint is verified before it is removed, because a damaged one may still
    hold data worth saving.
    """
    sound = [(path, manifest) for path, manifest in _readable(folder) if path not in damaged]
    best = {path for _, path in _ranked(sound, config)[: config.keep_best]}
    steps = {path: manifest.progress.env_steps for path, manifest in sound}
    kept = {saved} | {path for path, _ in sound[: config.keep_last]} | best
    kept |= set(spread_out(steps, config.keep_spread))
    removed = []
    for path, _ in sound:
        if path in kept:
            continue
        try:
            verify(path)
        except (DamagedError, ForeignError):
            continue
        # Renamed first: an incomplete checkpoint must never have a checkpoint's name.
        condemned = temporary_folder(folder)
        path.rename(condemned)
        shutil.rmtree(condemned)
        removed.append(path)
    return removed


def spread_out(steps: Mapping[Path, int], count: int) -> list[Path]:
    """Return `count` checkpoints spread over the run as evenly as possible, in order of steps.

    The first and the last are kept; of the others, the one with the nearest neighbors is dropped
    until `count` are left.
    """
    if count < 1:
        return []
    chosen = sorted(steps, key=lambda path: steps[path])
    while len(chosen) > max(count, 2):
        around = zip(chosen[:-2], chosen[2:], strict=True)
        gaps = [steps[after] - steps[before] for before, after in around]
        del chosen[1 + gaps.index(min(gaps))]
    return chosen[-count:]


def rank_checkpoints(folder: Path, config: CheckpointConfig) -> list[tuple[float, Path]]:
    """Return the scored checkpoints, the best first; of equal ones the newest."""
    return _ranked(_readable(folder), config)


def _readable(folder: Path) -> list[tuple[Path, Manifest]]:
    """Return the checkpoints whose manifests are sound, newest first."""
    found: list[tuple[Path, Manifest]] = []
    for path in list_checkpoints(folder):
        try:
            found.append((path, read_manifest(path)))
        except (DamagedError, ForeignError):
            continue
    return found


def _ranked(
    sound: list[tuple[Path, Manifest]], config: CheckpointConfig
) -> list[tuple[float, Path]]:
    scored = [
        (manifest.score.value, path)
        for path, manifest in sound
        if manifest.score is not None and manifest.score.metric == config.best_metric
    ]
    # Sorting is stable and the list is newest first, so ties keep that order.
    scored.sort(key=lambda pair: -pair[0] if config.higher_is_better else pair[0])
    return scored

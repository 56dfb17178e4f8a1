"""Which checkpoints stay."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path

from longhaul.runs.config import CheckpointConfig
from longhaul.runs.inspection import list_checkpoints, read_manifest, verify
from longhaul.runs.lock import RunLock
from longhaul.runs.manifest import DamagedError, ForeignError, Manifest

_PREFIX = ".tmp-"


def temporary_folder(folder: Path) -> Path:
    """Return a name for a checkpoint that is being written or removed."""
    return folder / f"{_PREFIX}{uuid.uuid4().hex}"


def remove_leftovers(folder: Path, lock: RunLock) -> list[Path]:
    """Remove what a killed writer left; only the holder of the run's lock may."""
    if not lock.is_held or lock.path.parent != folder.parent:
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
    """Remove sound checkpoints that are neither among the newest, the best nor those spread out.

    `saved` is known to be sound and stays in any case. Damaged and foreign ones are not counted
    and not touched. A checkpoint is verified before it is removed, as a damaged one may still
    hold what somebody wants to save.
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
        # Half a checkpoint must never be found under a checkpoint's name.
        condemned = temporary_folder(folder)
        path.rename(condemned)
        shutil.rmtree(condemned)
        removed.append(path)
    return removed


def spread_out(steps: Mapping[Path, int], count: int) -> list[Path]:
    """Return so many checkpoints as evenly over the run as there are, in order of their steps.

    The first and the last are among them; of the others, the one with the nearest neighbours goes
    until few enough are left.
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

"""Writing checkpoints atomically and loading the newest intact one."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.control import Progress
from longhaul.core.errors import (
    CheckpointError,
    ConfigError,
    LonghaulError,
    NumericalError,
    ResourceError,
)
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.runs.checkpoints import manifest as exact_json
from longhaul.runs.checkpoints.inspect import (
    LATEST_FILE,
    MANIFEST_FILE,
    STATE_FILE,
    check_identity,
    checkpoint_name,
    list_checkpoints,
    rank_checkpoints,
    read_latest,
    read_manifest,
    read_part,
    remove_surplus,
    temporary_folder,
    verify,
)
from longhaul.runs.checkpoints.manifest import (
    CheckpointScore,
    DamagedError,
    ForeignError,
    Manifest,
    Stamp,
    encode_manifest,
)
from longhaul.runs.checkpoints.state_tree import (
    SplitState,
    join_state,
    parse_safetensors,
    safetensors_chunks,
    split_state,
)
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.durable import (
    Digest,
    replace_file,
    storage_errors,
    sync_directory,
    write_durably,
)
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import LogMark

_PART_NAME = re.compile(r"[a-z0-9_-]{1,80}")
_SUFFIX = ".safetensors"
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """The content of one checkpoint."""

    progress: Progress
    settings: Settings
    states: Mapping[str, State]
    logs: Mapping[str, LogMark]
    score: float | None = None  # value of the metric checkpoints are ranked by; None if unknown


@dataclass(frozen=True, slots=True)
class Damage:
    """A checkpoint that was skipped, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The newest intact checkpoint, and the newer damaged ones."""

    path: Path
    manifest: Manifest
    states: dict[str, State]
    damaged: tuple[Damage, ...] = ()


def load_checkpoint(path: Path) -> Loaded:
    """Return one checkpoint; every byte is checked before it is used."""
    manifest = read_manifest(path)
    contents = {name: read_part(path, name, expected) for name, expected in manifest.parts.items()}
    try:
        trees = exact_json.loads(contents.pop(STATE_FILE))
        arrays = {
            name.removesuffix(_SUFFIX): parse_safetensors(contents.pop(name))
            for name in list(contents)
        }
        states = {
            name: join_state(tree, arrays.pop(name, {})) for name, tree in dict(trees).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"its parts do not match: {error}") from error
    if arrays:
        raise DamagedError(f"{next(iter(arrays))}{_SUFFIX} belongs to no part")
    return Loaded(path, manifest, states)


def load_newest(folder: Path, identity: Mapping[str, str] | None = None) -> Loaded | None:
    """Return the newest intact checkpoint; None only if there has never been one.

    `identity`, if given, must be that of the checkpoint. Damaged checkpoints are reported and
    kept.
    """
    paths = list_checkpoints(folder)
    damaged: list[Damage] = []
    for path in paths:
        try:
            loaded = load_checkpoint(path)
            check_identity(loaded.manifest, identity or {})
        except DamagedError as error:
            damaged.append(Damage(path, str(error)))
        except ForeignError as error:
            raise ForeignError(f"checkpoint {path} cannot be used: {error}") from error
        else:
            return Loaded(loaded.path, loaded.manifest, loaded.states, tuple(damaged))
    if damaged:
        listed = "; ".join(f"{damage.path.name}: {damage.reason}" for damage in damaged)
        raise CheckpointError(
            f"no checkpoint in {folder} can be used ({listed}); restore one from a backup, or "
            "start a run with another name"
        )
    if (latest := read_latest(folder)) is not None:
        raise CheckpointError(
            f"{folder / LATEST_FILE} names {latest}, but there is no checkpoint; restore it from "
            "a backup, or start a run with another name"
        )
    return None


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class CheckpointStore:
    """Writes and finds the checkpoints of one run; the caller holds the run's lock."""

    def __init__(
        self,
        folder: Path,
        config: CheckpointConfig,
        stamp: Stamp,
        clocks: Clocks,
        *,
        free_bytes: Callable[[Path], int] = _free_bytes,
    ) -> None:
        self.folder = folder
        self.config = config
        self.stamp = stamp
        self._clocks = clocks
        self._free_bytes = free_bytes
        self._present: tuple[Progress, Path] | None = None
        self._damaged: frozenset[Path] = frozenset()

    def load_newest(self) -> Loaded | None:
        """Return the newest intact checkpoint of this run."""
        loaded = load_newest(self.folder, self.stamp.identity)
        if loaded is not None:
            self._present = (loaded.manifest.progress, loaded.path)
            self._damaged = frozenset(damage.path for damage in loaded.damaged)
        return loaded

    def save(self, snapshot: CheckpointContent) -> Path:
        """Write the checkpoint of this progress unless it exists; return its path."""
        if (saved := self._find(snapshot.progress)) is not None:
            return saved
        if snapshot.score is not None and not math.isfinite(snapshot.score):
            raise NumericalError(
                f"{self.config.best_metric} = {snapshot.score} cannot rank a checkpoint"
            )
        split = {
            _check_name(name): split_state(snapshot.states[name], name)
            for name in sorted(snapshot.states)
        }
        trees = exact_json.dumps({name: state.tree for name, state in split.items()})
        # The commit protocol. A crash at any point leaves the previous checkpoint valid:
        # before step 3 there is only a temporary folder, which loading ignores.
        with storage_errors(self.folder):
            # 1. Refuse to start without space for the whole checkpoint.
            self.folder.mkdir(exist_ok=True)
            self._check_space(sum(state.nbytes for state in split.values()) + len(trees))
            target = self._target(snapshot.progress)
            temporary = temporary_folder(self.folder)
            try:
                # 2. Write and fsync every part, then the manifest with their hashes.
                self._write(temporary, snapshot, split, trees)
                # 3. Commit: the rename is atomic.
                temporary.rename(target)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
            # 4. Make the rename itself durable, and read everything back.
            sync_directory(self.folder)
            self._confirm(target)
            # 5. Only now point LATEST at it and delete surplus checkpoints.
            replace_file(self.folder / LATEST_FILE, f"{target.name}\n".encode())
            self._present = (snapshot.progress, target)
            remove_surplus(self.folder, self.config, saved=target, damaged=self._damaged)
        return target

    def would_be_best(self, score: float) -> bool:
        """Whether no existing checkpoint has a better score; the newest of equal ones is best."""
        ranked = rank_checkpoints(self.folder, self.config)
        if not ranked:
            return True
        return score >= ranked[0][0] if self.config.higher_is_better else score <= ranked[0][0]

    def _find(self, progress: Progress) -> Path | None:
        """Return the checkpoint of this progress if it exists and is intact."""
        if self._present is not None and self._present[0] == progress:
            return self._present[1]
        for path in self.folder.glob(f"{checkpoint_name(progress.env_steps)}*"):
            try:
                manifest = verify(path)
                check_identity(manifest, self.stamp.identity)
            except CheckpointError:
                continue
            if manifest.progress == progress:
                return path
        return None

    def _write(
        self,
        temporary: Path,
        snapshot: CheckpointContent,
        split: dict[str, SplitState],
        trees: bytes,
    ) -> None:
        """Write all parts, then the manifest with their hashes."""
        temporary.mkdir()
        digests: dict[str, Digest] = {}
        for name, state in split.items():
            if state.arrays:
                file = name + _SUFFIX
                digests[file] = write_durably(temporary / file, safetensors_chunks(state.arrays))
        digests[STATE_FILE] = write_durably(temporary / STATE_FILE, [trees])
        manifest = Manifest(
            progress=snapshot.progress,
            settings=snapshot.settings.values(),
            identity=dict(self.stamp.identity),
            versions=dict(self.stamp.versions),
            facts=dict(self.stamp.facts),
            parts=digests,
            logs=dict(snapshot.logs),
            created=self._clocks.stamp(),
            score=(
                None
                if snapshot.score is None
                else CheckpointScore(self.config.best_metric, float(snapshot.score))
            ),
        )
        write_durably(temporary / MANIFEST_FILE, [encode_manifest(manifest)])
        sync_directory(temporary)

    def _target(self, progress: Progress) -> Path:
        """Return a name that is free.

        The plain name is taken if a damaged checkpoint of these steps was skipped, or if an
        iteration added no step. The name with a suffix sorts as the newer one.
        """
        suffixes: tuple[int, ...] = ()
        target = self.folder / checkpoint_name(progress.env_steps)
        while target.exists():
            suffixes = (*suffixes, progress.iteration)
            target = self.folder / checkpoint_name(progress.env_steps, *suffixes)
        return target

    def _check_space(self, size: int) -> None:
        needed = 2 * size + self.config.reserve_megabytes * _MEGABYTE
        free = self._free_bytes(self.folder)
        if free < needed:
            raise ResourceError(
                f"{free / _MEGABYTE:.1f} MB are free in {self.folder}, but a checkpoint needs "
                f"{needed / _MEGABYTE:.1f} MB (twice {size / _MEGABYTE:.1f} MB and a reserve of "
                f"{self.config.reserve_megabytes} MB); free disk space or lower "
                "checkpoint.reserve_megabytes, then start the same command again"
            )

    def _confirm(self, target: Path) -> None:
        try:
            verify(target)
        except LonghaulError as error:
            raise ResourceError(
                f"checkpoint {target} differs from what was written ({error}); the disk "
                "or the memory is faulty, and the previous checkpoint still exists"
            ) from error


def _check_name(name: str) -> str:
    if not _PART_NAME.fullmatch(name) or f"{name}.json" == STATE_FILE:
        raise ConfigError(
            f"invalid name {name!r} for a part of a checkpoint; use up to 80 characters of "
            "a-z 0-9 _ -, except 'state'"
        )
    return name

"""Logging iterations, saving checkpoints, and restoring a run from its newest checkpoint."""

from __future__ import annotations

import copy
import logging
import math
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from longhaul.core.control import Progress, View
from longhaul.core.env import Episode
from longhaul.core.errors import CheckpointError, ConfigError, LonghaulError
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Event, Recorded, RunListener
from longhaul.core.settings import Assignment, Settings
from longhaul.core.state import Stateful
from longhaul.runs.checkpoints.inspect import remove_leftovers
from longhaul.runs.checkpoints.state_tree import split_state
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore, Damage, Loaded
from longhaul.runs.directory import RunDirectory, write_first_checkpoint, write_running
from longhaul.runs.durable import storage_errors, sync_place
from longhaul.runs.lock import RunLock
from longhaul.runs.logs.jsonl import LOG_START, LogWriter, Row, SessionLog, encode_row
from longhaul.runs.logs.rewind import LogProblem, rewind_log

logger = logging.getLogger(__name__)
# Errors of a part that gets a state of another kind or size.
_MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError)

NEWCOMERS = frozenset({"hints", "listeners"})
"""Parts that a checkpoint may lack; they start empty."""
LEAVERS = frozenset({"listeners"})
"""Parts of a checkpoint that the run may be continued without, which is reported."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """How a process restored its run."""

    checkpoint: Path | None  # None for a run from the beginning
    damaged: tuple[Damage, ...] = ()
    set_aside: tuple[Path, ...] = ()
    problems: tuple[LogProblem, ...] = ()
    changed_versions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Parts of the checkpoint that this process lacks."""


KEEP_SECONDS = 5.0
KEEP_SHARE = 0.005  # most of the run's time that copies take
MOST_KEPT = 256 << 20
DEVICE, FALLBACK = "device", "device_fallback"
"""Facts of a stamp: what the parts compute on, and why if that is not the requested device."""
BACKEND, ACTING = "backend", "acting"
"""Facts of a stamp: what updates and what actions are computed with, `torch` or `native`."""


class Recorder:
    """Writes the logs and checkpoints of one run; needs the run's lock for as long as it lives."""

    def __init__(
        self,
        directory: RunDirectory,
        parts: Mapping[str, Stateful],
        store: CheckpointStore,
        lock: RunLock,
        sessions: SessionLog,
        *,
        rotate_bytes: int = 0,
    ) -> None:
        self._directory = directory
        self._parts = dict(parts)
        self._store = store
        self._lock = lock
        facts = store.stamp.facts
        self._device = "; ".join(facts[key] for key in (DEVICE, FALLBACK) if key in facts)
        self._backend = facts.get(BACKEND, "")
        self._clocks = sessions.clocks
        self._listeners: list[RunListener] = []
        self._rotate_bytes = rotate_bytes  # at which logs are sealed and compressed, 0 for never
        self._logs: dict[str, LogWriter] = {}
        self._sessions = sessions
        self._requested = False
        self._scored: tuple[int, float] | None = None  # iteration and score of the last measurement
        self.saved = Progress()  # that the last checkpoint holds
        self._saved_at = self._clocks.monotonic()
        self._save_seconds = 0.0  # that the last checkpoint took
        self._has_saved = False  # in this process
        self._kept: CheckpointContent | None = None
        self._kept_at = self._saved_at
        self._keep_seconds = 0.0  # that the last copy took; infinite if the state is too large
        self.restoration = Restoration(None)

    def restore(self, settings: Settings) -> tuple[Progress, Settings]:
        """Load the newest intact checkpoint, rewind the logs to it, and log a session event.

        Without a checkpoint the run starts from the beginning, and log lines of an attempt that
        never saved one are set aside.
        """
        removed = remove_leftovers(self._store.folder, self._lock)
        loaded = self._store.load_newest()
        progress = Progress() if loaded is None else loaded.manifest.progress
        if loaded is not None:
            settings = _restore_settings(settings, loaded)
            self._restore_parts(loaded)
        self.restoration = self._rewind_logs(loaded, progress)
        self.saved, self._saved_at = progress, self._clocks.monotonic()
        write_running(self._directory.record, self._device, self._backend)
        self._note_restoration(progress, removed)
        for listener in tuple(self._listeners):
            try:
                listener.begin(progress)
            except LonghaulError:
                raise
            except Exception as error:  # noqa: BLE001 - a listener must not end a run
                self._remove_listener(listener, error)
        return progress, settings

    def record(
        self,
        view: View,
        happened: Sequence[Event],
        episodes: Sequence[Episode],
        timings: Metrics,
    ) -> None:
        """Log one iteration; a number that is not finite is refused before anything is written."""
        progress = view.progress
        counters = asdict(progress)
        place = {"iteration": progress.iteration, "env_steps": progress.env_steps}
        lines = {
            "metrics": [encode_row({**counters, **view.metrics})],
            "episodes": [_episode_line(progress, episode) for episode in episodes],
            "events": [encode_row({**place, **event.as_row()}) for event in happened],
            "timings": [encode_row({"iteration": progress.iteration, **timings})],
        }
        for name, added in lines.items():
            for line in added:
                self._logs[name].append(line)
        for log in self._logs.values():
            log.flush()
        self._take_score(view)
        recorded = Recorded(progress, view.metrics, timings, view.settings, episodes)
        for listener in tuple(self._listeners):
            try:
                listener.iteration(recorded)
            except Exception as error:  # noqa: BLE001 - a listener must not end a run
                self._remove_listener(listener, error)

    def _take_score(self, view: View) -> None:
        """Keep the metric that ranks checkpoints; a new best value requests a checkpoint."""
        score = view.metrics.get(self._store.config.best_metric)
        if score is None:
            return
        self._scored = (view.progress.iteration, score)
        if self._store.config.keep_best and self._store.would_be_best(score):
            self.request()

    def request(self) -> None:
        """Request a checkpoint after the present iteration; safe in a signal handler."""
        self._requested = True

    def due(self, progress: Progress) -> bool:
        """Whether it is time for a checkpoint; saving never changes the results of the run."""
        config = self._store.config
        iterations = progress.iteration - self.saved.iteration
        seconds = self._clocks.monotonic() - self._saved_at
        affordable = config.most_share * (seconds + self._save_seconds)
        return (
            self._requested
            or 0 < config.every_iterations <= iterations
            or (0 < config.every_seconds <= seconds and self._save_seconds <= affordable)
        )

    def checkpoint(self, progress: Progress, settings: Settings) -> Path:
        """Save everything; the score counts only for the iteration it was measured in."""
        began = self._clocks.monotonic()
        # Cleared before the state is taken, so a request during the save is not lost.
        self._requested = False
        path = self._save(self._content(progress, settings))
        self._save_seconds = self._saved_at - began
        return path

    def keep(self, progress: Progress, settings: Settings) -> None:
        """Copy the state of a finished iteration in memory every few seconds, for `rescue`."""
        began = self._clocks.monotonic()
        if began - self._kept_at < max(KEEP_SECONDS, self._keep_seconds / KEEP_SHARE):
            return
        content = self._content(progress, settings)
        size = sum(split_state(state, name).nbytes for name, state in content.states.items())
        if size > MOST_KEPT:
            self._keep_seconds = math.inf
            return
        self._kept = replace(content, states=copy.deepcopy(content.states))
        self._kept_at = self._clocks.monotonic()
        self._keep_seconds = self._kept_at - began

    def rescue(self) -> str:
        """Write the kept state, after an exception; return which iteration the run goes on from.

        What the exception left behind is in the middle of an iteration and cannot be continued.
        """
        if self._kept is None:
            why = "no later state was kept"
            if math.isinf(self._keep_seconds):
                why = f"the state is larger than {MOST_KEPT >> 20} MiB, too large to be kept twice"
            return f"no checkpoint was written, because {why}; the last one is of iteration " + (
                f"{self.saved.iteration:,}"
            )
        path = self._save(self._kept)
        self.note("rescued", checkpoint=path.name, iteration=self.saved.iteration)
        return f"checkpoint {path.name} keeps the run up to iteration {self.saved.iteration:,}"

    def _content(self, progress: Progress, settings: Settings) -> CheckpointContent:
        is_scored = self._scored is not None and self._scored[0] == progress.iteration
        return CheckpointContent(
            progress=progress,
            settings=settings,
            states={name: part.state_dict() for name, part in self._parts.items()},
            logs={log.path.name: log.mark() for log in self._logs.values()},
            score=self._scored[1] if self._scored is not None and is_scored else None,
        )

    def _save(self, content: CheckpointContent) -> Path:
        for log in self._logs.values():
            log.sync()
        path = self._store.save(content)
        if not self._has_saved:
            with storage_errors(self._directory.path):
                sync_place(self._directory.path)
            write_first_checkpoint(self._directory.record, path.name)
            self._has_saved = True
        self.saved, self._saved_at = content.progress, self._clocks.monotonic()
        self._kept, self._kept_at = None, self._saved_at
        return path

    def add_listener(self, listener: RunListener) -> None:
        """Add a listener; call it before `restore`."""
        self._listeners.append(listener)

    def note(self, event: str, **facts: Any) -> None:
        """Write an event of this process into sessions.jsonl, with the time."""
        self._sessions.note(event, **facts)

    def close_listeners(self) -> None:
        """Close and remove all listeners; the logs stay open."""
        for listener in self._listeners:
            try:
                listener.close()
            except Exception:
                logger.exception("a listener failed to close")
        self._listeners.clear()

    def close(self) -> None:
        """Close all listeners and logs."""
        self.close_listeners()
        for log in self._logs.values():
            log.close()

    def _restore_parts(self, loaded: Loaded) -> None:
        empty = NEWCOMERS - set(loaded.states)
        if set(loaded.states) - self._left_out(loaded) != set(self._parts) - empty:
            raise CheckpointError(
                f"checkpoint {loaded.path} holds {', '.join(sorted(loaded.states))}, but this run "
                f"has {', '.join(sorted(self._parts))}; use the version that wrote it"
            )
        for name, part in self._parts.items():
            if name in empty:
                continue
            try:
                part.load_state_dict(loaded.states[name])
            except _MISFITS as error:
                raise CheckpointError(
                    f"{name} cannot continue from checkpoint {loaded.path}: {error!r}; use the "
                    "version and config that wrote it"
                ) from error

    def _left_out(self, loaded: Loaded) -> frozenset[str]:
        return (LEAVERS & set(loaded.states)) - set(self._parts)

    def _rewind_logs(self, loaded: Loaded | None, progress: Progress) -> Restoration:
        """Rewind every log to the checkpoint and open it for writing."""

        def belongs(row: Row) -> bool:
            iteration = row.get("iteration")
            return isinstance(iteration, int) and iteration <= progress.iteration

        for log in self._logs.values():
            log.close()
        directory = self._directory
        rewound = []
        for name, path in (
            ("metrics", directory.metrics),
            ("episodes", directory.episodes),
            ("events", directory.events),
            ("timings", directory.timings),
        ):
            mark = LOG_START if loaded is None else loaded.manifest.logs.get(path.name, LOG_START)
            rewound.append(rewind_log(path, mark, directory.crash, belongs))
            self._logs[name] = LogWriter(path, rotate_bytes=self._rotate_bytes)
        set_aside = tuple(one.set_aside for one in rewound if one.set_aside is not None)
        problems = tuple(one.problem for one in rewound if one.problem is not None)
        if loaded is None:
            return Restoration(None, set_aside=set_aside, problems=problems)
        now = self._store.stamp.versions
        changed = tuple(
            f"{name} {was} -> {now.get(name, 'absent')}"
            for name, was in loaded.manifest.versions.items()
            if now.get(name) != was
        )
        left_out = tuple(self._left_out(loaded))
        return Restoration(loaded.path, loaded.damaged, set_aside, problems, changed, left_out)

    def _note_restoration(self, progress: Progress, removed: Sequence[Path]) -> None:
        found = self.restoration
        facts: dict[str, Any] = {"host": socket.gethostname(), **asdict(progress)}
        if self._device:
            facts["device"] = self._device
        if found.checkpoint is not None:
            facts["checkpoint"] = found.checkpoint.name
        listed = {
            "damaged": [{"name": one.path.name, "reason": one.reason} for one in found.damaged],
            "log_problems": [
                {
                    "log": one.path.name,
                    "reason": one.reason,
                    "kept_lines": one.kept,
                    "copy": None if one.copy is None else one.copy.name,
                }
                for one in found.problems
            ],
            "set_aside": [path.name for path in found.set_aside],
            "removed_leftovers": [path.name for path in removed],
            "changed_versions": list(found.changed_versions),
        }
        facts |= {name: entries for name, entries in listed.items() if entries}
        self.note("started" if found.checkpoint is None else "resumed", **facts)

    def _remove_listener(self, listener: RunListener, error: Exception) -> None:
        """Log a listener that failed, and remove it."""
        logger.exception("a listener failed and is removed")
        self._listeners.remove(listener)
        self.note("sink_failed", sink=type(listener).__name__, error=repr(error))


def _episode_line(progress: Progress, episode: Episode) -> bytes:
    # Spelled out because thousands may end in an iteration, and `asdict` copies deeply.
    facts = {"facts": episode.facts} if episode.facts else {}
    return encode_row(
        {
            "iteration": progress.iteration,
            "env": episode.env,
            "number": episode.number,
            "seed": episode.seed,
            "length": episode.length,
            "episode_return": episode.episode_return,
            "reason": episode.reason,
            "metrics": episode.metrics,
            **facts,
        }
    )


def _restore_settings(settings: Settings, loaded: Loaded) -> Settings:
    values = loaded.manifest.settings.items()
    try:
        return settings.with_(Assignment(name, value) for name, value in values)
    except ConfigError as error:
        raise CheckpointError(f"checkpoint {loaded.path} does not fit: {error}") from error

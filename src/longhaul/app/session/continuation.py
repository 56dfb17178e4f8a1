"""Continuing a run in a new run directory: its checkpoints, with all state, and its logs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from longhaul.app.build.components import build_schedule, build_settings, identity
from longhaul.app.build.config import FREE_TO_CHANGE, RunConfig, setting_keys
from longhaul.app.build.sources import differences, find_kind, to_values
from longhaul.app.evaluation.load import Run, load_named
from longhaul.core.config import flatten, value_words
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.task import Task
from longhaul.runs.checkpoints.inspect import (
    LATEST_FILE,
    MANIFEST_FILE,
    checkpoint_order,
    list_checkpoints,
    verify,
)
from longhaul.runs.checkpoints.manifest import Manifest, encode_manifest
from longhaul.runs.checkpoints.store import Loaded
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import sync_directory, write_durably
from longhaul.runs.logs.jsonl import LOG_START
from longhaul.runs.logs.segments import feed_log, list_segments
from longhaul.schedule.schedule import Schedule

MAY_CHANGE = ("name", "total_iterations", "evaluate", "schedule")
"""Config keys that a continued run may change, beside those of a resumed one, of settings and of
the task's controllers."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that another one continues, at one of its checkpoints."""

    run: Run
    checkpoint: Loaded

    @staticmethod
    def find(path: Path) -> Origin:
        """Return the origin a run or a checkpoint stands for; of a run, its newest intact one."""
        if (path / MANIFEST_FILE).is_file():
            return Origin(Run(path.resolve().parents[1]), load_named(path.resolve()))
        run = Run(path)
        return Origin(run, run.checkpoint("latest"))

    @property
    def name(self) -> str:
        """The origin as `run.json` of the continued run names it."""
        return f"{self.run.path.resolve().name}/{self.checkpoint.path.name}"

    def is_that_of(self, run: RunDirectory) -> bool:
        """Whether a run continues this one, from any of its checkpoints."""
        kept = run.read_record().continued_from
        return kept.partition("/")[0] == self.name.partition("/")[0]

    def check(self, config: RunConfig) -> None:
        """Raise if a run of this config cannot go on with the origin's state."""
        kind = find_kind(config.task)
        if config.name == self.run.config.name:
            raise ConfigError(
                f"--continue-from starts a new run, and {config.name!r} is the name of the run it "
                "continues; give another --name, or use `longhaul resume` to stay in that run"
            )
        own = (*setting_keys(kind).values(), *kind.controller_keys.values())
        before, now = to_values(self.run.config), to_values(config)
        if changed := differences(before, now, ignore=(*FREE_TO_CHANGE, *MAY_CHANGE, *own)):
            listed = ", ".join(
                f"{key}: {value_words(old)} -> {value_words(new)}"
                for key, (old, new) in changed.items()
            )
            raise ConfigError(
                f"the state of {self.run.path} does not fit another {listed}; keep these values, "
                "or take only its weights with --set start_from=RUN"
            )

    def check_schedule(self, schedule: Schedule) -> None:
        """Raise if the controllers cannot go on with the states the origin's were in."""
        try:
            schedule.load_state_dict(self.checkpoint.states["schedule"])
        except CheckpointError as error:
            raise ConfigError(f"the schedule cannot be continued: {error}") from error

    def copy(self, folder: Path, config: RunConfig, task: Task) -> None:
        """Copy checkpoints and logs, up to the one continued from, into a new run's folder."""
        self.check_schedule(build_schedule(config, task, build_settings(config, task)))
        last = checkpoint_order(self.checkpoint.path)
        for path in list_checkpoints(self.run.directory.checkpoints):
            if checkpoint_order(path) > last:
                continue
            try:
                manifest = verify(path)
            except CheckpointError:
                continue  # it stays where it is
            self._copy_checkpoint(path, manifest, folder / path.parent.name / path.name, config)
        latest = folder / self.run.directory.checkpoints.name / LATEST_FILE
        write_durably(latest, [f"{self.checkpoint.path.name}\n".encode()])
        sync_directory(latest.parent)
        self._copy_logs(folder)

    def _copy_checkpoint(
        self, path: Path, manifest: Manifest, target: Path, config: RunConfig
    ) -> None:
        """Copy a checkpoint; its manifest gets the new run's identity and changed settings."""
        target.mkdir()
        for name in manifest.parts:
            write_durably(target / name, [(path / name).read_bytes()])
        stamped = replace(
            manifest,
            identity=identity(config),
            settings={**manifest.settings, **self._changed_settings(config)},
        )
        write_durably(target / MANIFEST_FILE, [encode_manifest(stamped)])
        sync_directory(target)

    def _changed_settings(self, config: RunConfig) -> Mapping[str, Any]:
        """Return the settings whose values were changed in the config."""
        before, now = flatten(to_values(self.run.config)), flatten(to_values(config))
        keys = setting_keys(find_kind(config.task))
        return {name: now[key] for name, key in keys.items() if before.get(key) != now.get(key)}

    def _copy_logs(self, folder: Path) -> None:
        """Copy each log up to the checkpoint, and the schema of their rows."""
        directory, marks = self.run.directory, self.checkpoint.manifest.logs
        for log in (directory.metrics, directory.episodes, directory.events, directory.timings):
            mark = marks.get(log.name, LOG_START)
            if not (log.exists() or list_segments(log)):
                continue
            pieces: list[bytes] = []
            feed_log(log, pieces.append, mark.offset)
            write_durably(folder / log.name, pieces)
        if directory.schema.exists():
            shutil.copyfile(directory.schema, folder / directory.schema.name)

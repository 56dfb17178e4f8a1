"""What a finished run leaves behind for people: films, plots, a report, a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from longhaul.app.assemble import build_task
from longhaul.app.cases import played_cases
from longhaul.app.config import RunConfig
from longhaul.app.report import report_run
from longhaul.app.snapshots import SnapshotRequest, snapshot_run
from longhaul.app.study import StudyRequest, study_run
from longhaul.app.trained import load_trained
from longhaul.app.watch import FilmRequest, film_cases
from longhaul.core.errors import LonghaulError
from longhaul.runs.clocks import Clocks
from longhaul.runs.directory import RunDirectory
from longhaul.runs.jsonl import LogWriter, encode_row

Tell = Callable[[str], None]


def leave_media(run: RunDirectory, config: RunConfig, checkpoint: str, tell: Tell) -> None:
    """Make films, snapshots and studies; what fails is told in one line and fails nothing else.

    `checkpoint` is the one whose final evaluation is filmed; none is filmed if it is empty.
    """
    if checkpoint and config.report.films:
        attempt(run, "film", tell, lambda: _films(run, config, checkpoint))
    if config.report.snapshots:
        shots = SnapshotRequest(
            config.report.snapshots, config.report.snapshot_step, config.report.snapshot_seed
        )
        attempt(run, "snapshots", tell, lambda: snapshot_run(run, shots))
    if checkpoint and config.report.study and build_task(config).study is not None:
        request = StudyRequest(checkpoint, config.report.study)
        attempt(run, "study", tell, lambda: study_run(run.path, request))


def leave_report(run: RunDirectory, tell: Tell) -> None:
    """Write the report; if that fails it is told in one line."""
    attempt(run, "report", tell, lambda: report_run(run.path).as_text())


def attempt(run: RunDirectory, what: str, tell: Tell, make: Callable[[], str]) -> None:
    """Make one thing and tell where it is, or tell and write down why it could not be made."""
    try:
        tell(make())
    except Exception as error:  # noqa: BLE001 - a picture is never worth a run that went well
        words = str(error) if isinstance(error, LonghaulError) else repr(error)
        reason = " ".join(words.split())
        tell(f"no {what}: {reason}")
        note(run, f"{what}_failed", reason)


def note(run: RunDirectory, event: str, reason: str) -> None:
    """Write how something ended into the run's sessions, if the disk still takes it."""
    row = {"time": Clocks().stamp(), "event": event, "pid": os.getpid(), "reason": reason}
    try:
        log = LogWriter(run.sessions)
        log.append(encode_row(row))
        log.sync()
        log.close()
    except (LonghaulError, OSError):
        return


def _films(run: RunDirectory, config: RunConfig, checkpoint: str) -> str:
    trained = load_trained(run, checkpoint)
    cases = played_cases(run, trained)
    told = []
    for episode in config.report.films:
        (filmed,) = film_cases(run, trained, cases, FilmRequest(checkpoint, episode))
        told.append(f"film      {_beside(filmed.film.path)} ({episode} episode)")
    return "\n".join(told)


def _beside(path: Path) -> Path:
    """Return a path as short as the working directory allows."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

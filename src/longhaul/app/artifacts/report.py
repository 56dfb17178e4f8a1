"""The report of a run: plots, a page, a notebook, and all artifacts of a finished run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.artifacts.films import FilmRequest, film_cases, filmed_cases
from longhaul.app.artifacts.records import SnapshotRequest, snapshot_run, study_run
from longhaul.app.build.sources import differences, find_kind, from_values, read_preset, to_values
from longhaul.app.evaluation.load import Run
from longhaul.core.errors import LonghaulError
from longhaul.core.settings import Settings
from longhaul.core.task import Task
from longhaul.report.notebook import NotebookText, section, write_notebook
from longhaul.report.page import Extras, make_page, write_plots
from longhaul.report.run_data import RunData, gather
from longhaul.report.snapshots import write_curve_films
from longhaul.report.style import Drawn, PlotError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.logs.jsonl import WriteNote


@dataclass(frozen=True, slots=True)
class Reported:
    """The files of a report."""

    page: Path
    notebook: Path
    plots: tuple[str, ...]
    why_no_plots: str = ""

    def as_text(self) -> str:
        """Return one line per file or folder."""
        lines = [f"report    {self.page}", f"notebook  {self.notebook}"]
        if self.plots:
            lines.append(f"plots     {self.page.parent / 'plots'} ({len(self.plots)})")
        else:
            lines.append(f"plots     none: {self.why_no_plots or 'nothing was measured yet'}")
        return "\n".join(lines)


def keep_panels(run: RunDirectory, task: Task, settings: Settings) -> None:
    """Write the task's panels to a file, for pages that know no tasks."""
    numbers = {n: v for n, v in settings.values().items() if isinstance(v, (int, float))}
    shown = {
        "score": task.evaluation.metric,
        "target": task.evaluation.solved,
        "suite": task.evaluation.during,
        "settings": numbers,
        "panels": msgspec.to_builtins(task.panels),
    }
    with storage_errors(run.panels):
        replace_file(run.panels, msgspec.json.format(msgspec.json.encode(shown), indent=1) + b"\n")


def report_run(path: Path) -> Reported:
    """Write plots, the page and the notebook of a run so far."""
    run = gather(path)
    run.directory.check_plain()
    drawn: list[Drawn] = []
    why = ""
    try:
        drawn = write_plots(run)
        run = replace(run, films=sorted({*run.films, *write_curve_films(run)}))
    except PlotError as error:
        why = str(error)
    changed, preset = preset_differences(run)
    page = make_page(run, Extras(drawn, why, changed, preset))
    notes = _background(run, changed, preset, tuple(one.chart.name for one in drawn))
    before = run.directory.notebook.read_text("utf-8") if run.directory.notebook.exists() else ""
    notebook = write_notebook(run, notes, before)
    with storage_errors(run.directory.report):
        replace_file(run.directory.report, page.encode())
        replace_file(run.directory.notebook, notebook.encode())
    return Reported(
        run.directory.report,
        run.directory.notebook,
        tuple(one.chart.name for one in drawn),
        why,
    )


def preset_differences(run: RunData) -> tuple[dict[str, tuple[Any, Any]], str]:
    """Return the config keys that differ from the run's preset, and the preset's name."""
    record = run.state.record
    try:
        kind = find_kind(record.task)
        name = preset_name(record.command)
        values = read_preset(kind, record.task, name)
        base = to_values(from_values({**values, "task": record.task}))
        own = to_values(Run(run.directory).config)
    except LonghaulError:
        return {}, ""  # a task or preset of another version; the report shows the whole config
    changed = differences(base, own, ignore=("name", "seed"))
    return changed, f"the preset {name!r}" if name else "the task's preset"


def preset_name(command: tuple[str, ...]) -> str:
    """Return the preset that a command named, empty if it used the default."""
    return _flag(command, "--preset")


def _flag(command: tuple[str, ...], flag: str) -> str:
    """Return the value of a flag in a command, empty if it is absent."""
    for position, word in enumerate(command):
        if word == flag and position + 1 < len(command):
            return command[position + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return ""


def _background(
    run: RunData, changed: dict[str, tuple[Any, Any]], preset: str, plots: tuple[str, ...]
) -> NotebookText:
    """Return the experiment's notes, if `longhaul new-experiment` created it."""
    config = _flag(run.state.record.command, "--config")
    notes = Path(config).with_suffix(".md") if config else None
    text = notes.read_text("utf-8") if notes is not None and notes.is_file() else ""
    return NotebookText(
        goal=section(text, "Goal"),
        plan=section(text, "Plan"),
        start=section(text, "Start"),
        differences=changed,
        preset=preset,
        plots=plots,
    )


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Writes films, snapshots, studies and the report; a failure is reported and stops no other."""

    run: Run
    notify: Callable[[str], None]
    note: WriteNote

    def write_media(self, checkpoint: str) -> None:
        """Write films, snapshots and studies.

        Films show the final evaluation of `checkpoint`; if that is empty, there are none.
        """
        run, config = self.run, self.run.config.report
        if checkpoint and config.films:
            self._attempt("film", lambda: self._films(checkpoint))
        if config.snapshots:
            shots = SnapshotRequest(config.snapshots, config.snapshot_step, config.snapshot_seed)
            self._attempt("snapshots", lambda: snapshot_run(run, shots))
        if checkpoint and config.study and run.task.study is not None:
            self._attempt("study", lambda: study_run(run, checkpoint, config.study))

    def write_report(self) -> None:
        """Write plots, page and notebook."""
        self._attempt("report", lambda: report_run(self.run.path).as_text())

    def _attempt(self, what: str, make: Callable[[], str]) -> None:
        try:
            self.notify(make())
        except Exception as error:  # noqa: BLE001 - an artifact must not fail a finished run
            words = str(error) if isinstance(error, LonghaulError) else repr(error)
            reason = " ".join(words.split())
            self.notify(f"no {what}: {reason}")
            self.note(f"{what}_failed", reason=reason)

    def _films(self, checkpoint: str) -> str:
        agent = self.run.agent(checkpoint)
        cases = filmed_cases(self.run, agent)
        made = []
        for episode in self.run.config.report.films:
            (filmed,) = film_cases(self.run, agent, cases, FilmRequest(checkpoint, episode))
            made.append(f"film      {_shortened(filmed.film.path)} ({episode} episode)")
        return "\n".join(made)


def _shortened(path: Path) -> Path:
    """Return a path as short as the working directory allows."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

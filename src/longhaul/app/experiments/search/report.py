"""The results of a search: a table, the best values as a config, plots and a page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from longhaul.app.build.text import columns
from longhaul.app.experiments.search.plan import STAGES, SearchRequest
from longhaul.app.experiments.search.runner import OWN_VALUES, Findings, search
from longhaul.app.experiments.search.space import Dimension, Range
from longhaul.app.experiments.search.study import TrialRecord
from longhaul.report.page import make_search
from longhaul.report.search import Axis, SearchData, Tried, search_charts, trial_table
from longhaul.report.style import Drawn, PlotError, draw
from longhaul.report.summary import duration, figure
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.toml import write_toml

BEST, PAGE, PLOTS = "best.toml", "search.html", "plots"
LONGEST_REMARK = 60


@dataclass(frozen=True, slots=True)
class Searched:
    """The results of a search and its files."""

    findings: Findings
    data: SearchData
    best_file: Path | None
    page: Path
    why_no_plots: str = ""

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return self.findings.exit_code

    def as_text(self) -> str:
        """Return the table of trials, notes and the next command."""
        table = trial_table(self.data)
        rows = [(*row[:-1], _shortened(row[-1])) for row in table.rows]
        lines = [columns(rows, header=table.header), "", *self.data.notes]
        if self.findings.importances:
            shares = self.findings.importances.items()
            listed = ", ".join(f"{key} {share:.0%}" for key, share in shares)
            lines.append(f"importance: {listed}")
        if self.best_file is not None:
            lines.append(f"best      {self.best_file}")
        lines.append(f"page      {self.page}{self.why_no_plots and f' ({self.why_no_plots})'}")
        lines += [f"{what}: {command}" for what, command in next_commands(self)]
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return everything for programs."""
        best = self.findings.best
        return json.dumps(
            {
                "task": self.findings.plan.request.task,
                "objective": self.data.metric,
                "direction": self.findings.plan.request.direction,
                "best": None if best is None else best.number,
                "best_file": None if self.best_file is None else str(self.best_file),
                "page": str(self.page),
                "seconds": round(self.findings.seconds, 1),
                "reason": self.findings.reason,
                "importances": self.findings.importances,
                "trials": [asdict(record) for record in self.findings.records],
            },
            allow_nan=False,
        )


def next_commands(searched: Searched) -> list[tuple[str, str]]:
    """Return the command that trains with the best values, if there are any."""
    if searched.best_file is None:
        return []
    task = searched.findings.plan.request.task
    command = shlex.join(["longhaul", "train", task, "--config", str(searched.best_file)])
    return [("train with the best values", command)]


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_REMARK else text[: LONGEST_REMARK - 3] + "..."


def search_and_report(request: SearchRequest, notify: Callable[[str], None]) -> Searched:
    """Run the trials of a search and write its results, also if it was stopped."""
    return write_findings(search(request, notify))


def write_findings(findings: Findings) -> Searched:
    """Write the best values, the plots and the page of a search into its folder."""
    folder = findings.plan.request.folder
    data = search_data(findings)
    best = _write_best(findings)
    drawn: list[Drawn] = []
    why = ""
    try:
        drawn = [draw(chart) for chart in search_charts(data)]
    except PlotError as error:
        why = str(error)
    searched = Searched(findings, data, best, folder / PAGE, why)
    with storage_errors(folder):
        (folder / PLOTS).mkdir(exist_ok=True)
        for one in drawn:
            replace_file(folder / PLOTS / f"{one.chart.name}.png", one.png, durable=False)
        page = make_search(data, next_commands(searched), drawn)
        replace_file(folder / PAGE, page.encode(), durable=False)
    return searched


def _write_best(findings: Findings) -> Path | None:
    best, plan = findings.best, findings.plan
    if best is None or best.value is None:
        return None
    path = plan.request.folder / BEST
    head = (
        f"# Trial {best.number} of the search {plan.request.name!r}: {plan.metric} "
        f"{figure(best.value)}.\n# What differs from {plan.request.task} without a search.\n"
    )
    with storage_errors(path):
        replace_file(path, (head + write_toml(plan.best_values(best.params))).encode())
    return path


def search_data(findings: Findings) -> SearchData:
    """Return the data of a search's page."""
    plan, best = findings.plan, findings.best
    return SearchData(
        title=f"{plan.request.task} · {plan.request.name}",
        metric=plan.metric,
        is_maximized=plan.request.direction == "maximize",
        axes=tuple(map(_axis, plan.space.values())),
        trials=tuple(map(_tried, findings.records)),
        importances=findings.importances,
        best=None if best is None else best.number,
        stage_count=STAGES,
        notes=tuple(_notes(findings)),
    )


def _axis(dimension: Dimension) -> Axis:
    if isinstance(dimension, Range):
        return Axis(dimension.key, is_log=dimension.is_log, low=dimension.low, high=dimension.high)
    return Axis(dimension.key, options=dimension.options)


def _tried(record: TrialRecord) -> Tried:
    notes = record.notes
    remark = str(notes.get("note", ""))
    if record.failure:
        remark = f"{record.failure}: {record.words}"
    return Tried(
        number=record.number,
        state=record.state,
        params=dict(record.params),
        value=record.value,
        stages=record.stages,
        steps=float(notes.get("steps", 0.0)),
        seconds=float(notes.get("seconds", 0.0)),
        run=str(notes.get("run", "")),
        remark=remark,
    )


def _notes(findings: Findings) -> list[str]:
    """Return the search in a few sentences."""
    plan, records, best = findings.plan, findings.records, findings.best
    counts = {
        state: sum(record.state == state for record in records)
        for state in ("complete", "pruned", "failed", "running")
    }
    listed = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    lines = [f"{listed or 'no trial yet'}; {duration(findings.seconds)} in total."]
    if best is not None and best.value is not None:
        lines.append(f"The best is trial {best.number} with {plan.metric} {figure(best.value)}.")
        own = [r for r in records if r.notes.get("note") == OWN_VALUES and r.value is not None]
        if own and own[0].number != best.number and own[0].state == "complete":
            value = own[0].value
            assert value is not None, "it was selected for having one"
            lines.append(f"With the config's own values, trial {own[0].number}: {figure(value)}.")
    if findings.reason:
        lines.append(f"The search stopped early: {findings.reason}; the same command continues it.")
    return lines

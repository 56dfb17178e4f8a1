"""Replaying a recorded run: with a changed schedule, or with the rules for hints."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.hints import build_hints
from longhaul.app.build.metrics import TIMINGS, declares
from longhaul.app.build.sources import from_values, parse_override, put_on, read_toml, to_values
from longhaul.app.build.text import columns, short
from longhaul.app.evaluation.load import Run
from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.hint import HINT_EVENT, Hint
from longhaul.core.metrics import Metrics
from longhaul.hints.advisor import replay as replay_rules
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.reader import read_checkpoints, read_events, read_metrics, read_sessions
from longhaul.schedule.config import frozen
from longhaul.schedule.schedule import CHANGE_EVENT, Change, Move, Schedule

Agreement = Literal["same", "differs", "only replayed", "only recorded", "explains", "opening"]
"""Whether the run did the same. `explains`: the decision changed nothing. `opening`: a value the
first iteration began with, which a run does not record as a change."""


@dataclass(frozen=True, slots=True)
class RecordedMove:
    """A setting's change as a run recorded it."""

    iteration: int
    controller: str
    move: Move
    why: str = ""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One line of a replay: what was decided, and whether the recorded run did the same."""

    iteration: int
    controller: str
    move: Move | None  # None: the decision changed nothing and only explains
    why: str
    agreement: Agreement
    recorded: Move | None  # what the run did to this setting, None: nothing


def recorded_moves(events: Iterable[Mapping[str, Any]]) -> tuple[RecordedMove, ...]:
    """Return the moves among a run's events: rows of `Change.as_row` with their `iteration`."""
    found: list[RecordedMove] = []
    for event in events:
        if event.get("event") != CHANGE_EVENT:
            continue
        try:
            found += [
                RecordedMove(
                    int(event["iteration"]),
                    str(event["controller"]),
                    Move(
                        str(move["setting"]),
                        frozen(move["old"], "old"),
                        frozen(move["new"], "new"),
                    ),
                    str(event.get("why", "")),
                )
                for move in event["moves"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the recorded change {dict(event)!r} cannot be read") from error
    return tuple(found)


def replay(
    schedule: Schedule,
    rows: Iterable[Mapping[str, Any]],
    recorded: Iterable[RecordedMove] = (),
) -> Iterator[Replayed]:
    """Run a fresh schedule over recorded rows and yield its decisions in order.

    A row holds `iteration`, `env_steps`, `episodes` and, beside them, the metrics. They are those
    of the recorded run; the effect of other settings on them is unknown. Metrics that the
    controllers emit are computed again, not read.
    """
    by_iteration: dict[int, list[RecordedMove]] = {}
    for recorded_move in recorded:
        by_iteration.setdefault(recorded_move.iteration, []).append(recorded_move)
    own = schedule.emits
    settings, changes = schedule.begin(schedule.settings)
    yield from _opening(changes)
    for row in rows:
        progress, metrics = _row(row)
        measured = {name: value for name, value in metrics.items() if name not in own}
        settings, changes = schedule.step(View(progress, measured, settings))
        iteration = progress.iteration
        yield from _compared(iteration, changes, by_iteration.pop(iteration, ()))


def _opening(changes: Iterable[Change]) -> Iterator[Replayed]:
    for change in changes:
        for move in change.moves:
            yield Replayed(0, change.controller, move, change.why, "opening", None)


def _row(row: Mapping[str, Any]) -> tuple[Progress, Metrics]:
    try:
        progress = Progress(int(row["iteration"]), int(row["env_steps"]), int(row["episodes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"a recorded row needs whole numbers iteration, env_steps and episodes; it has "
            f"{', '.join(map(str, row))}"
        ) from error
    return progress, {name: value for name, value in row.items() if "/" in name}


def _compared(
    iteration: int, changes: Iterable[Change], recorded: Sequence[RecordedMove]
) -> Iterator[Replayed]:
    did = {entry.move.setting: entry for entry in recorded}
    for change in changes:
        if not change.moves:
            yield Replayed(iteration, change.controller, None, change.why, "explains", None)
        for move in change.moves:
            entry = did.pop(move.setting, None)
            then = None if entry is None else entry.move
            agreement = _agreement(move, then)
            yield Replayed(iteration, change.controller, move, change.why, agreement, then)
    for entry in did.values():
        yield Replayed(iteration, entry.controller, None, entry.why, "only recorded", entry.move)


def _agreement(replayed: Move, recorded: Move | None) -> Agreement:
    if recorded is None:
        return "only replayed"
    return "same" if replayed.new == recorded.new else "differs"


def replay_run(run: Run, *, file: Path | None, overrides: Sequence[str], as_json: bool) -> str:
    """Return the decisions of a changed schedule over a run's metrics, and the recorded ones."""
    values = to_values(run.config)
    task_name = run.config.task
    if file is not None:
        values = put_on(values, read_toml(file), task_name)
    for override in overrides:
        values = put_on(values, parse_override(override), task_name)
    config = from_values(values)
    task = build_task(config)
    schedule = build_schedule(config, task, build_settings(config, task))
    rows = read_rows(run.directory.metrics).rows
    decided = list(replay(schedule, rows, recorded_moves(read_rows(run.directory.events).rows)))
    if as_json:
        return json.dumps([asdict(line) for line in decided])
    if not decided:
        return f"{len(rows)} iterations replayed: this schedule would have changed nothing"
    counts = Counter(line.agreement for line in decided)
    agreements = ", ".join(f"{count} {agreement}" for agreement, count in counts.items())
    header = ("iteration", "controller", "setting", "would be", "was", "verdict", "why")
    table = columns([_cells(line) for line in decided], header=header)
    return f"{table}\n\n{len(rows)} iterations replayed: {agreements}"


def _cells(line: Replayed) -> tuple[str, ...]:
    moves = (line.move, line.recorded)
    setting = next((move.setting for move in moves if move is not None), "")
    would, was = (
        "" if move is None else f"{short(move.old)} -> {short(move.new)}" for move in moves
    )
    return (str(line.iteration), line.controller, setting, would, was, line.agreement, line.why)


WIDTH = 96


@dataclass(frozen=True, slots=True)
class ReplayedHints:
    """Hints that the rules give for a run's logs, and those recorded during the run."""

    run: str
    rules: int
    iterations: int
    hints: tuple[tuple[Progress, Hint], ...]
    recorded: frozenset[tuple[int, str]]
    """Iteration and rule of every hint in the run's own logs."""

    @property
    def differences(self) -> list[str]:
        """Hints that only the replay gives, and hints that only the run gave."""
        found = {(progress.iteration, hint.rule) for progress, hint in self.hints}
        return [
            f"{words}: {', '.join(f'{rule} at {iteration}' for iteration, rule in sorted(hints))}"
            for words, hints in (
                ("not given during the run", found - self.recorded),
                ("given during the run, but not by these rules and logs", self.recorded - found),
            )
            if hints
        ]

    def as_text(self) -> str:
        """Return the hints in the order they came."""
        head = f"{self.run}: {self.rules} rules over {self.iterations:,} iterations"
        if not self.hints:
            return "\n".join([f"{head}: no hints", *self.differences])
        blocks = [head]
        for progress, hint in self.hints:
            place = f"iteration {progress.iteration:,}, {progress.env_steps:,} steps: {hint.rule}"
            text = textwrap.fill(
                hint.text, WIDTH, initial_indent="  ", subsequent_indent="  ",
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
            blocks.append(f"{place}\n{text}")
        return "\n\n".join([*blocks, *self.differences])

    def as_json(self) -> str:
        """Return the hints for programs."""
        rows: list[dict[str, Any]] = [
            {"iteration": progress.iteration, "env_steps": progress.env_steps, **hint.as_row()}
            for progress, hint in self.hints
        ]
        return json.dumps(
            {"run": self.run, "rules": self.rules, "hints": rows, "differences": self.differences}
        )


def replay_hints(run: Run) -> ReplayedHints:
    """Return the hints that the rules of a run's config give for its recorded metrics."""
    directory = run.directory
    hints = build_hints(run.config, run.task, device_of(directory, run.config.device))
    rows = list(read_metrics(directory).rows)
    logged = (*read_events(directory).rows, *read_sessions(directory).rows)
    return ReplayedHints(
        run=str(run.path),
        rules=len(hints.rules),
        iterations=len(rows),
        hints=tuple(replay_rules(hints, rows, is_timing)),
        recorded=frozenset(
            (int(row.get("iteration", 0)), str(row.get("rule", "")))
            for row in logged
            if row.get("event") == HINT_EVENT
        ),
    )


def is_timing(name: str) -> bool:
    """Whether a metric depends on a clock."""
    return any(declares(metric, name) for metric in TIMINGS)


def device_of(run: RunDirectory, otherwise: str) -> str:
    """Return the device of the run's newest checkpoint."""
    for entry in read_checkpoints(run):
        if entry.manifest is not None:
            return entry.manifest.facts.get("device", otherwise)
    return otherwise

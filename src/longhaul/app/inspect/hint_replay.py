"""What the rules say of a run's records, whether or not it was said while the run went on."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Any

from longhaul.app.build.hints import build_hints
from longhaul.app.build.metrics import TIMINGS, declares
from longhaul.app.evaluation.load import Run
from longhaul.core.control import Progress
from longhaul.core.hint import HINT_EVENT, Hint
from longhaul.hints.advisor import replay
from longhaul.runs.directory import RunDirectory
from longhaul.runs.reader import read_checkpoints, read_events, read_metrics, read_sessions

WIDTH = 96


@dataclass(frozen=True, slots=True)
class ReplayedHints:
    """The hints of a run by its records, and those it recorded itself."""

    run: str
    rules: int
    iterations: int
    hints: tuple[tuple[Progress, Hint], ...]
    recorded: frozenset[tuple[int, str]]
    """Iteration and rule of every hint in the run's own logs."""

    @property
    def unsaid(self) -> list[str]:
        """What the records say but the run did not, and the other way round."""
        found = {(progress.iteration, hint.rule) for progress, hint in self.hints}
        told = [f"{rule} at {iteration}" for iteration, rule in sorted(found - self.recorded)]
        gone = [f"{rule} at {iteration}" for iteration, rule in sorted(self.recorded - found)]
        lines = []
        if told:
            lines.append(f"not said while the run went on: {', '.join(told)}")
        if gone:
            lines.append(f"said then, but not by these rules and records: {', '.join(gone)}")
        return lines

    def as_text(self) -> str:
        """Return the hints in the order they came."""
        head = f"{self.run}: {self.rules} rules over {self.iterations:,} iterations"
        if not self.hints:
            return "\n".join([f"{head}: nothing to say", *self.unsaid])
        blocks = [head]
        for progress, hint in self.hints:
            place = f"iteration {progress.iteration:,}, {progress.env_steps:,} steps: {hint.rule}"
            text = textwrap.fill(
                hint.text, WIDTH, initial_indent="  ", subsequent_indent="  ",
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
            blocks.append(f"{place}\n{text}")
        return "\n\n".join([*blocks, *self.unsaid])

    def as_json(self) -> str:
        """Return the hints for programs."""
        rows: list[dict[str, Any]] = [
            {"iteration": progress.iteration, "env_steps": progress.env_steps, **hint.as_row()}
            for progress, hint in self.hints
        ]
        return json.dumps(
            {"run": self.run, "rules": self.rules, "hints": rows, "differences": self.unsaid}
        )


def replay_hints(run: Run) -> ReplayedHints:
    """Show a run's recorded metrics to the rules of its config and return what they say."""
    directory = run.directory
    hints = build_hints(run.config, run.task, device_of(directory, run.config.device))
    rows = list(read_metrics(directory).rows)
    logged = (*read_events(directory).rows, *read_sessions(directory).rows)
    return ReplayedHints(
        run=str(run.path),
        rules=len(hints.rules),
        iterations=len(rows),
        hints=tuple(replay(hints, rows, is_timing)),
        recorded=frozenset(
            (int(row.get("iteration", 0)), str(row.get("rule", "")))
            for row in logged
            if row.get("event") == HINT_EVENT
        ),
    )


def is_timing(name: str) -> bool:
    """Whether a metric is one of those that depend on a clock."""
    return any(declares(metric, name) for metric in TIMINGS)


def device_of(run: RunDirectory, otherwise: str) -> str:
    """Return the device the run's newest checkpoint was made on."""
    for entry in read_checkpoints(run):
        if entry.manifest is not None:
            return entry.manifest.facts.get("device", otherwise)
    return otherwise

"""A run in words: training, scores, evaluations, faults and other events."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from longhaul.core.config import value_words
from longhaul.report.run_data import RunData
from longhaul.report.statistics import Row, column, is_number
from longhaul.runs.score import EPISODES, MEAN_RETURN, Measure, Score, Source

SPOKEN = {"schedule", "evaluated", "hint"}
"""Events with a separate section."""
ORDINARY = {"started", "finished"}
FIGURES = {
    "eval/std_reward": "standard deviation of returns",
    "eval/min_reward": "lowest return",
    "eval/max_reward": "highest return",
    "eval/mean_ep_length": "mean length",
}
"""The meanings of evaluation metrics."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    own: tuple[int, ...] = ()
    """Indices of the rows of the trained policy."""


@dataclass(frozen=True, slots=True)
class SummaryColumn:
    """A metric of a suite, as the suite's file names it."""

    title: str
    metric: str
    form: str = ".3f"


def figure(value: float) -> str:
    """Return a number with as many digits as a reader needs."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e5 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 90:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def trained_seconds(run: RunData) -> float:
    """Return the time all iterations took, over all sessions."""
    return math.fsum(column(run.rows, "time/iteration_seconds", over="iteration").values)


def summary(run: RunData) -> list[str]:
    """Return the run in a few sentences."""
    record = run.state.record
    last = run.last
    if not last:
        return [
            f"The run of {record.task} is {run.state.status} and has not finished an iteration."
        ]
    steps, seconds = int(last.get("env_steps", 0)), trained_seconds(run)
    speed = f", {figure(round(steps / seconds))} steps per second" if seconds else ""
    sentences = [
        f"{record.task} was trained for {steps:,} steps in {last.get('iteration', 0)} iterations "
        f"and {last.get('episodes', 0):,} episodes; that took {duration(seconds)}{speed}.",
        _status_sentence(run),
    ]
    found = (_score_sentence(run), _learning_sentence(run), _history_sentence(run))
    sentences += [sentence for sentence in found if sentence]
    resumes = sum(row.get("event") == "resumed" for row in run.sessions)
    if resumes:
        times = "once" if resumes == 1 else f"{resumes} times"
        sentences.append(f"It was interrupted and continued {times}.")
    return sentences


def _status_sentence(run: RunData) -> str:
    reason = run.state.record.reason
    because = f": {reason}" if reason else ""
    if run.state.status == "finished":
        return f"It is finished{because}."
    return f"It is {run.state.status}{because}; these results are preliminary."


def verdict(score: Score) -> str:
    """Return whether the target was reached, in words; empty without a target."""
    if score.target is None:
        return ""
    if score.is_solved is None:
        return f"target {figure(score.target)}; a training return does not count"
    return f"target {figure(score.target)} {'reached' if score.is_solved else 'not reached'}"


def _score_sentence(run: RunData) -> str:
    score = run.reached
    if score is None or score.source is Source.TRAINING:
        return ""
    suite = f" on the suite {score.suite}" if score.suite else ""
    facts = "; ".join(fact for fact in (score.interval, verdict(score)) if fact)
    return (
        f"The {'last ' if score.source is Source.EVALUATION else ''}{score.source}{suite} had "
        f"{score.metric} {figure(score.value)}{f' ({facts})' if facts else ''}."
    )


def _learning_sentence(run: RunData) -> str:
    returns = column(run.rows, "rollout/ep_rew_mean").values
    if len(returns) < 2:
        return ""
    return (
        f"The mean return of training episodes went from {figure(returns[0])} to "
        f"{figure(returns[-1])}, its highest was {figure(returns.max())}."
    )


def _history_sentence(run: RunData) -> str:
    scores = column(run.rows, run.score, over="iteration")
    suite = f" on the suite {run.measure.suite}" if run.measure.suite else ""
    if not len(scores):
        return ""
    best = int(scores.values.argmax())
    if len(scores) == 1:
        return (
            f"The one evaluation during training{suite}, at iteration {int(scores.steps[0])}, had "
            f"{run.score} {figure(scores.values[0])}."
        )
    return (
        f"Of {len(scores)} evaluations during training{suite} the best had "
        f"{run.score} {figure(scores.values[best])}, at iteration {int(scores.steps[best])}; the "
        f"last had {figure(scores.values[-1])}."
    )


def evaluation_tables(run: RunData) -> list[Table]:
    """Return a table for every kept evaluation; its figures are those of the file."""
    tables: list[Table] = []
    for found in run.evaluations.values():
        if "suites" in found:
            tables += [_suite_table(found, suite) for suite in found["suites"]]
        elif isinstance(found.get("metrics"), Mapping):
            tables.append(_plain_table(found))
    return tables


def _plain_table(found: Mapping[str, Any]) -> Table:
    metrics = found["metrics"]
    count = len(found.get("episodes", []))
    solved = found.get("solved")
    target = float(solved) if isinstance(solved, (int, float)) else None
    score = Measure(target=target).of({EPISODES: count, **metrics}, 0)
    rows = []
    if score is not None:
        rows.append(("mean return", figure(score.value)))
        if score.low is not None and score.high is not None:
            span = f"{figure(score.low)} to {figure(score.high)}"
            rows.append(("95 % confidence interval of the mean", span))
    rows += [
        (FIGURES.get(name, name.removeprefix("eval/").replace("_", " ")), figure(value))
        for name, value in metrics.items()
        if name != MEAN_RETURN
    ]
    if score is not None and score.target is not None:
        reached = "reached" if score.is_solved else "not reached"
        rows.append(("target", f"{figure(score.target)}: {reached}"))
    return Table(_evaluation_title(found, f"{count} episodes"), ("figure", "value"), tuple(rows))


def _evaluation_title(found: Mapping[str, Any], what: str) -> str:
    acts = "most likely actions" if found.get("greedy") else "drawn actions"
    return f"{what}, checkpoint {found.get('checkpoint', '?')}, {acts}"


def _suite_table(found: Mapping[str, Any], suite: Mapping[str, Any]) -> Table:
    """Return policies as rows, the suite's figures as columns."""
    metrics: Mapping[str, float] = suite.get("metrics", {})
    intervals: Mapping[str, Sequence[float]] = suite.get("intervals", {})
    references: Mapping[str, Mapping[str, float]] = suite.get("references", {})
    shown = _suite_columns(suite, metrics, intervals)
    rows = [(name, *_cells(shown, known)) for name, known in references.items()]
    own = (len(rows), len(rows) + 1)
    rows.append(("trained", *_cells(shown, metrics)))
    rows.append(("95 % interval of trained", *(_interval(column, intervals) for column in shown)))
    if suite.get("bounds"):
        rows.append(("bound", *_cells(shown, suite["bounds"])))
    title = f"{suite.get('suite', '?')}, {len(suite.get('episodes', []))} episodes"
    header = ("policy", *(column.title for column in shown))
    return Table(_evaluation_title(found, title), header, tuple(rows), own)


def _suite_columns(
    suite: Mapping[str, Any],
    metrics: Mapping[str, float],
    intervals: Mapping[str, Sequence[float]],
) -> list[SummaryColumn]:
    """Return the columns the task names, or those with intervals."""
    try:
        named = msgspec.convert(suite.get("columns", []), list[SummaryColumn])
    except msgspec.ValidationError:
        named = []  # written by another version
    if not named:
        plain = (
            (name.removeprefix("eval/").replace("_", " "), name) for name in intervals or metrics
        )
        named = [SummaryColumn(title, name, ".4g") for title, name in plain]
    return [column for column in named if column.metric in metrics]


def _cells(shown: Sequence[SummaryColumn], found: Mapping[str, float]) -> list[str]:
    return [f"{found[c.metric]:{c.form}}" if c.metric in found else "" for c in shown]


def _interval(column: SummaryColumn, intervals: Mapping[str, Sequence[float]]) -> str:
    if column.metric not in intervals:
        return ""
    low, high = intervals[column.metric]
    return f"{low:{column.form}} to {high:{column.form}}"


def other_events(run: RunData) -> list[tuple[str, str, str]]:
    """Return events other than decisions: when, what, and the facts in words."""
    listed = []
    for row in (*run.events, *run.sessions):
        event = str(row.get("event", ""))
        if event in SPOKEN or event in ORDINARY:
            continue
        when = str(row["time"]) if "time" in row else f"iteration {row.get('iteration', '?')}"
        left_out = ("event", "time", "iteration", "env_steps", "pid", "host", "episodes")
        facts = {name: value for name, value in row.items() if name not in left_out}
        listed.append(
            (when, event, ", ".join(f"{name} {short(value)}" for name, value in facts.items()))
        )
    return listed


def faults(run: RunData) -> list[str]:
    """Return the faults that the run recovered from, in sentences."""
    listed = []
    for name in dict.fromkeys(
        name for row in run.rows for name in row if name.startswith("fault/")
    ):
        values = column(run.rows, name).values
        total = values[-1] if name in ("fault/skipped_updates", "fault/rollbacks") else values.sum()
        if total:
            listed.append(f"{name}: {figure(float(total))} over the run")
    counts = Counter(event for _, event, _ in other_events(run) if event != "resumed")
    listed += [
        f"{event}: {count} times" if count > 1 else f"{event}: once"
        for event, count in counts.items()
    ]
    if run.skipped:
        listed.append(f"{run.skipped} unreadable log lines were skipped")
    damaged = [entry for entry in run.checkpoints if entry.manifest is None]
    listed += [f"checkpoint {entry.path.name} is damaged: {entry.problem}" for entry in damaged]
    return listed


def hints(run: RunData) -> list[str]:
    """Return the hints of the run, newest last, each once."""
    rows = [row for row in (*run.events, *run.sessions) if row.get("event") == "hint"]
    texts = [str(row.get("text") or row.get("why") or row.get("hint") or "") for row in rows]
    return list(dict.fromkeys(text for text in texts if text))


def short(value: object) -> str:
    """Return a value as text of at most one line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else value_words(value)
    return text if len(text) <= 160 else text[:157] + "..."


def commands(run: RunData) -> list[tuple[str, str]]:
    """Return the commands that repeat, continue, evaluate and show the run."""
    record = run.state.record
    path = shlex.quote(str(run.directory.path))
    task = shlex.quote(record.task)
    config = shlex.quote(str(run.directory.config))
    going_on = ("continue it", f"longhaul resume {path}")
    if run.state.status == "finished" and not run.config.get("total_iterations"):
        if further := 2 * int(run.config.get("total_episodes", 0)):
            more = f"--set total_episodes={further}"
        else:
            further = int(run.last.get("env_steps", 0)) * 2
            more = f"--total-timesteps {further}"
        if further:
            going_on = ("train it for longer", f"longhaul resume {path} {more}")
    return [
        ("train the same again", f"longhaul train {task} --config {config} --name again"),
        going_on,
        ("evaluate it", f"longhaul evaluate {path}"),
        ("watch its worst episode", f"longhaul watch {path} --episode worst"),
        ("start the next experiment", f"longhaul new-experiment --from {path}"),
    ]


def machine_fact(name: str, value: str) -> tuple[str, str]:
    """Return a fact about the machine as text."""
    if name == "memory_bytes" and value.isdigit():
        return "memory", f"{int(value) / 2**30:.1f} GiB"
    return name, value


def original_command(run: RunData) -> str:
    """Return the command the run was started with, by the program's name."""
    arguments = list(run.state.record.command)
    return shlex.join(["longhaul", *arguments[1:]]) if arguments else ""


def rows_of(row: Row, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return some metrics of a row as text."""
    return [(name, figure(row[name])) for name in names if is_number(row.get(name))]

"""The notebook of an experiment: facts of the run are filled in, text of a person is kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.report import summary as words
from longhaul.report.run_data import RunData
from longhaul.report.steering import turns

HEADINGS = (
    "Start",
    "Goal",
    "Plan",
    "Run",
    "Observations",
    "Results",
    "Tail and gate",
    "Artifacts",
    "Learning",
    "Next steps",
)
"""The parts of a record, in order."""
ASKED = {
    "Goal": "What should be better afterwards, and how will it be seen?",
    "Plan": "What is changed, and what is expected of it?",
    "Learning": "What turned out as expected, what did not, and why?",
    "Next steps": "What should be tried next? `longhaul new-experiment --from` takes this over.",
}
"""Parts that only a person can write, with their questions."""

_BLOCK = re.compile(
    r"<!-- longhaul:(?P<name>[a-z-]+) (?P<digest>[0-9a-f]{12}) -->\n(?P<body>.*?)"
    r"<!-- longhaul:end -->\n",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class NotebookText:
    """Text of a notebook that is not in the run directory."""

    goal: str = ""
    plan: str = ""
    start: str = ""
    differences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    preset: str = ""
    plots: Sequence[str] = ()


def write_notebook(run: RunData, background: NotebookText, before: str = "") -> str:
    """Return the notebook; in an earlier one only the generated blocks are renewed.

    A generated block has the digest of its text. A block that a person has changed stays, and the
    new text is put below it.
    """
    blocks = filled(run, background)
    if not before.strip():
        return _fresh(run, background, blocks)
    seen: set[str] = set()
    last = {match["name"]: match.end() for match in _BLOCK.finditer(before)}

    def renew(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in blocks:
            return match[0]
        if digest(match["body"]) == match["digest"]:
            if name in seen:
                return ""
            seen.add(name)
            return block(name, blocks[name])
        if match.end() == last[name] and name not in seen:
            seen.add(name)
            kept = match["body"]
            return f"{kept}\n{block(name, blocks[name])}"
        return match["body"]

    return _BLOCK.sub(renew, before)


def digest(body: str) -> str:
    """Return the digest that shows whether a person changed a block."""
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def block(name: str, body: str) -> str:
    """Return a generated text between comments that Markdown hides."""
    body = body.rstrip("\n") + "\n"
    return f"<!-- longhaul:{name} {digest(body)} -->\n{body}<!-- longhaul:end -->\n"


def _fresh(run: RunData, background: NotebookText, blocks: Mapping[str, str]) -> str:
    record = run.state.record
    written = {"Goal": background.goal, "Plan": background.plan}
    parts = [f"# {record.task}: {record.name}, seed {record.seed}\n"]
    for heading in HEADINGS:
        name = slug(heading)
        if name in blocks:
            body = block(name, blocks[name])
        else:
            body = f"{written.get(heading) or f'_{ASKED[heading]}_'}\n"
        parts.append(f"## {heading}\n\n{body}")
    return "\n".join(parts)


def slug(heading: str) -> str:
    """Return a heading as a block's name."""
    return heading.lower().replace(" ", "-")


def filled(run: RunData, background: NotebookText) -> dict[str, str]:
    """Return the generated parts, by the names of their blocks."""
    return {
        "start": _start(run, background),
        "run": _run(run, background),
        "observations": "\n".join(f"- {sentence}" for sentence in words.summary(run)),
        "results": _results(run),
        "tail-and-gate": _steering(run),
        "artifacts": _artifacts(run, background),
    }


def _start(run: RunData, background: NotebookText) -> str:
    made = f"Started {run.state.record.created}."
    return f"{background.start} {made}".strip()


def _run(run: RunData, background: NotebookText) -> str:
    lines = ["```", words.original_command(run), "```", "", f"Status: {run.state.status}"]
    if run.state.status != "finished":
        lines[-1] += "; these results are preliminary"
    lines[-1] += f". {run.state.record.reason}".rstrip() if run.state.record.reason else "."
    changed = background.differences
    preset = background.preset or "the defaults"
    if changed:
        rows = [(key, words.short(old), words.short(new)) for key, (old, new) in changed.items()]
        lines += ["", table(("key", preset, "this run"), rows)]
    else:
        lines += ["", f"The config is that of {preset}."]
    return "\n".join(lines)


def _results(run: RunData) -> str:
    parts = []
    history = [row for row in run.rows if run.score in row]
    if history:
        best = max(history, key=lambda row: float(row[run.score]))
        shown = [*history[-8:]] if best in history[-8:] else [best, *history[-7:]]
        rows = [
            (
                str(row.get("iteration", "")),
                f"{int(row.get('env_steps', 0)):,}",
                words.figure(float(row[run.score])) + (" (best)" if row is best else ""),
                words.figure(float(row.get("eval/mean_reward", 0.0))),
            )
            for row in shown
        ]
        parts.append(table(("iteration", "steps", run.score, "mean return"), rows))
    parts += [
        f"{found.title}:\n\n{table(found.header, found.rows)}"
        for found in words.evaluation_tables(run)
    ]
    return "\n\n".join(parts) or "No evaluation was made."


def _steering(run: RunData) -> str:
    moved = turns(run.events)
    if not moved:
        return "No schedule changed a setting."
    counts: dict[tuple[str, str], int] = {}
    for turn in moved:
        key = (turn.controller, turn.setting)
        counts[key] = counts.get(key, 0) + 1
    last = {(turn.controller, turn.setting): turn for turn in moved}
    rows = [
        (
            controller,
            setting,
            str(count),
            words.short(last[controller, setting].new),
            last[controller, setting].why,
        )
        for (controller, setting), count in counts.items()
    ]
    return table(("controller", "setting", "changes", "last value", "last reason"), rows)


def _artifacts(run: RunData, background: NotebookText) -> str:
    folder = run.directory.path
    lines = [f"- [plots/{name}.png](plots/{name}.png)" for name in background.plots]
    for film in run.films:
        place = film.relative_to(folder).as_posix()
        lines.append(f"- [{place}]({place})")
    lines += [f"- checkpoints/{entry.path.name}" for entry in run.checkpoints]
    lines += [f"- evaluations/{name}" for name in run.evaluations]
    return "\n".join(lines) or "None yet."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    every = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in every
    )


def section(text: str, heading: str) -> str:
    """Return the text under a heading of a notebook, without the placeholder question."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        return ""
    body = found[1].strip()
    return "" if body == f"_{ASKED.get(heading, '')}_" else body

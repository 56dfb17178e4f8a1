"""The reference page of hints, written by the rules it describes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator

from docs.tools.fields import field_docs
from docs.tools.wording import default_of, default_words, sentence, table

from longhaul.core.config import field_types
from longhaul.core.hint import Rule
from longhaul.core.task import Task
from longhaul.hints.advisor import GENERAL

ABOUT = (
    "What each rule looks at and its thresholds, which a config changes: "
    "`hints.rules.returns-flat.window = 100`. The meaning of hints and how to write a rule are "
    "described in [Hints](../guide/hints.md)."
)
FIXED = ("name", "timed", "settings", "setting")


def rule_blocks(tasks: Iterable[Task]) -> Iterator[str]:
    """Return one section per rule: those of every run, then those of single tasks."""
    yield ABOUT
    general = {rule.name for rule in GENERAL}
    for rule in GENERAL:
        yield from _section(rule)
    own = {rule.name: rule for task in tasks for rule in task.hints if rule.name not in general}
    for rule in own.values():
        yield from _section(rule)


def _section(rule: Rule) -> Iterator[str]:
    yield f"## {rule.name}"
    summary = (inspect.getdoc(type(rule)) or "").partition("\n")[0]
    reads = ", ".join(f"`{name}`" for name in rule.reads)
    timed = " It depends on a clock and is described in the sessions." if rule.timed else ""
    yield f"{sentence(summary)} Reads {reads}.{timed}"
    assert dataclasses.is_dataclass(rule)
    kind = type(rule)
    types, docs = field_types(kind), field_docs(kind)
    rows = [
        (
            f"`{field.name}`",
            default_words(default_of(field), types[field.name]),
            sentence(docs[field.name]),
        )
        for field in dataclasses.fields(kind)
        if field.name not in FIXED
    ]
    yield table(("threshold", "default", "meaning"), rows)

"""Writes the reference pages from the code: `python -m docs.tools.reference docs/reference`."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docs.tools.commands import commands_page
from docs.tools.fields import field_docs
from docs.tools.hints import rule_blocks
from docs.tools.wording import code, default_of, default_words, page, sentence, table, type_words
from docs.tools.zoo import zoo_page

import longhaul
from longhaul.app.build.components import build_settings, build_task
from longhaul.app.build.config import FREE_TO_CHANGE, RunConfig
from longhaul.app.build.metrics import GENERAL, TIMINGS
from longhaul.app.build.sources import find_kind, from_values, task_names
from longhaul.core.config import field_types
from longhaul.core.errors import EXIT_CODES
from longhaul.core.metrics import Alias, Metric
from longhaul.core.settings import Setting
from longhaul.core.task import Task
from longhaul.learn.config import CONFIGS, OnPolicyConfig
from longhaul.schedule.config import KINDS
from longhaul.tasks.kind import TaskKind


def reference_pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {
        "python.md": python_page(),
        "commands.md": commands_page(),
        "config.md": config_page(),
        "settings.md": settings_page(),
        "metrics.md": metrics_page(),
        "old-names.md": old_names_page(),
        "schedule.md": schedule_page(),
        "hints.md": page("Hints", *rule_blocks(example_tasks().values())),
        "zoo.md": zoo_page(),
        "exit-codes.md": exit_codes_page(),
    }


PYTHON_FIRST = (
    *("train", "resume", "load", "evaluate", "compare", "register_env"),
    *("SessionOptions", "Run", "Agent"),
)
"""What most users need, in the order of use."""


def python_page() -> str:
    """Return the page of the public Python names; mkdocstrings fills in their docstrings."""
    others = [name for name in longhaul.__all__ if name not in PYTHON_FIRST]
    return page(
        "Python",
        "Everything below is available as `longhaul.NAME`. Importing `longhaul` loads neither "
        "torch nor NumPy; names are imported when they are first used.",
        *(f"::: {getattr(longhaul, name).__module__}.{name}" for name in (*PYTHON_FIRST, *others)),
    )


def own_kinds() -> tuple[TaskKind, ...]:
    """Return the task kinds that come with longhaul; others have their own documentation."""
    kinds = [find_kind(name) for name in task_names()]
    return tuple(kind for kind in kinds if kind.options.__module__.startswith("longhaul."))


def example_tasks() -> dict[str, Task]:
    """Return one task for every example of every kind, by its name."""
    examples = [example for kind in own_kinds() for example in kind.examples]
    return {example: build_task(from_values({"task": example})) for example in examples}


def config_page() -> str:
    """Return the page of all config keys."""
    free = ", ".join(f"`{key}`" for key in FREE_TO_CHANGE)
    blocks = [
        "A config holds the values that are fixed for a run. `longhaul config TASK` shows the one "
        "a task would train with; how presets, files and `--set` add up is described in "
        "[Configuration](../guide/config.md). What may change while a run is going on is a "
        "[setting](settings.md).",
        f"A run that goes on must have the config it was started with. Free to change are {free}.",
        "## Top level",
        *_tables(RunConfig, ""),
        *_learner_tables(),
        "## [[schedule]]",
        "One table per controller; their kinds and fields are on [a separate page](schedule.md).",
    ]
    for kind in own_kinds():
        presets = ", ".join(f"`{name}`" for name in kind.preset_names())
        about = f"{sentence(kind.summary)} Presets: {presets or 'none'}."
        blocks += [f"## [options] of `{kind.name}`", about]
        blocks += _tables(kind.options, "options.")
    return page("Config", *blocks)


def _tables(kind: type, prefix: str, defaults: object = None) -> Iterator[str]:
    """Yield the table of a config class, then those of the config classes in it.

    `defaults` is the instance that the class around it begins with, whose values may differ from
    those of a bare one.
    """
    inner = {
        name: hint for name, hint in field_types(kind).items() if dataclasses.is_dataclass(hint)
    }
    yield field_table(kind, prefix, leave_out=inner, defaults=defaults)
    docs, begun = field_docs(kind), _defaults(kind, defaults)
    for name, hint in inner.items():
        yield f"## [{prefix}{name}]"
        yield sentence(docs[name])
        yield from _tables(typing.cast(type, hint), f"{prefix}{name}.", begun[name])
    for hint in field_types(kind).values():
        element = next(iter(typing.get_args(hint)), None)
        if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(element):
            element = typing.cast(type, element)
            yield f"## {element.__name__}"
            yield inspect.getdoc(element) or ""
            yield field_table(element)


def _learner_tables() -> Iterator[str]:
    """Yield the keys of `[learn]` that only one of the learners has."""
    shared = set(field_types(OnPolicyConfig))
    for name, kind in CONFIGS.items():
        if set(field_types(kind)) - shared:
            yield f'## [learn] of `algorithm = "{name}"`'
            yield field_table(kind, "learn.", leave_out=shared)


def _defaults(kind: type, instance: object) -> dict[str, Any]:
    """Return the values of an instance of a dataclass, or what a new one begins with."""
    if dataclasses.is_dataclass(instance):
        return {field.name: getattr(instance, field.name) for field in dataclasses.fields(kind)}
    return {field.name: default_of(field) for field in dataclasses.fields(kind)}


def field_table(
    kind: type, prefix: str = "", *, leave_out: Iterable[str] = (), defaults: object = None
) -> str:
    """Return the fields of a dataclass with type, default and meaning."""
    hints, docs, absent = field_types(kind), field_docs(kind), set(leave_out)
    begun = _defaults(kind, defaults)
    rows = [
        (
            f"`{prefix}{field.name}`",
            type_words(hints[field.name]),
            default_words(begun[field.name], hints[field.name]),
            sentence(docs[field.name]),
        )
        for field in dataclasses.fields(kind)
        if field.name not in absent
    ]
    return table(("key", "type", "default", "meaning"), rows)


def settings_page() -> str:
    """Return the page of all settings."""
    declared: dict[str, dict[str, Setting[Any]]] = {}
    for example, task in example_tasks().items():
        settings = build_settings(from_values({"task": example}), task)
        declared[example] = {name: settings.declaration(name) for name in settings}
    first, *others = declared.values()
    shared = [name for name in first if all(name in other for other in others)]
    blocks = [
        "A setting is a value that may change during a run, between two iterations, by at most one "
        "controller of the [schedule](schedule.md). Its first value is its default. A setting that "
        "is a [config](config.md) key as well begins with the value configured there.",
        "## Every task",
        _setting_table(first[name] for name in shared),
        "A task's policy may bring its own losses; the weight of each is the setting "
        "`loss.<loss>` if the task declares it, and 1 if not.",
    ]
    for example, own in declared.items():
        if extra := [setting for name, setting in own.items() if name not in shared]:
            blocks += [f"## `{example}`", _setting_table(extra)]
    return page("Settings", *blocks)


def _setting_table(settings: Iterable[Setting[Any]]) -> str:
    rows = [
        (
            f"`{setting.name}`",
            type_words(type(setting.default)) if setting.default != () else "list of values",
            code(setting.default),
            _range(setting),
            sentence(setting.meaning),
        )
        for setting in settings
    ]
    return table(("setting", "type", "default", "range", "meaning"), rows)


def _range(setting: Setting[Any]) -> str:
    match setting.low, setting.high:
        case None, None:
            return ""
        case low, None:
            return f"{low:g} or more"
        case None, high:
            return f"{high:g} or less"
        case low, high:
            return f"{low:g} to {high:g}"


def metrics_page() -> str:
    """Return the page of all metrics, by group."""
    blocks = [
        "Every line of a run's `metrics.jsonl` holds the counters `iteration`, `env_steps` and "
        "`episodes` and the metrics of one iteration. A metric that cannot be computed is absent: "
        "there is no NaN and no made-up zero. Names in `<angle brackets>` stand for the name of a "
        "reward term, a controller, and so on. Many names are known from Stable-Baselines3; what "
        "counts is the meaning given here.",
    ]
    for group in dict.fromkeys(metric.group for metric in GENERAL):
        blocks.append(f"## {group}/")
        blocks.append(_metric_table(metric for metric in GENERAL if metric.group == group))
    for example, task in example_tasks().items():
        if task.metrics:
            blocks += [f"## Of `{example}` alone", _metric_table(task.metrics)]
    blocks += [
        "## In timings.jsonl",
        "What depends on a clock is kept apart, so the metrics of an interrupted run equal "
        "those of one that was left alone; see [the decision]"
        "(../decisions/0001-logs-without-clocks.md). No controller can read these.",
        _metric_table(TIMINGS),
    ]
    return page("Metrics", *blocks)


def old_names_page() -> str:
    """Return the page of names people know from the trainers before, each with today's."""
    blocks = [
        "Some tasks were trained before longhaul. Their users find here what a name of then is "
        "called now. Curves are drawn under their old names as well, beside the new ones, with "
        "`--track`; fields of logs are not written twice. Where there is more than a name, the "
        "old value is the formula's. Names with a slash are [metrics](metrics.md), `iteration`, "
        "`env_steps` and `episodes` are counters of every row, `file: key` is a place in the run "
        "directory, and everything else is a [setting](settings.md) or a key of the config.",
    ]
    shown: set[object] = set()
    for example, task in example_tasks().items():
        if not task.aliases or task.aliases in shown:
            continue
        shown.add(task.aliases)
        for kind, title in (("curve", "curves"), ("field", "fields of log rows")):
            rows = [
                (f"`{alias.old}`", f"`{alias.new}`" if alias.new else "", _difference(alias))
                for alias in task.aliases
                if alias.kind == kind
            ]
            if rows:
                blocks += [f"## `{example}`: {title}", table(("then", "now", "remarks"), rows)]
    return page("Old names", *blocks)


def _difference(alias: Alias) -> str:
    words = [f"no counterpart, because {alias.none}"] if alias.none else []
    words += [alias.note] if alias.note else []
    words += [f"`<value>` is that of `{alias.by}`"] if alias.by else []
    return sentence("; ".join(words)) if words else ""


def _metric_table(metrics: Iterable[Metric]) -> str:
    rows = [(f"`{metric.name}`", metric.unit, _meaning(metric)) for metric in metrics]
    return table(("metric", "unit", "meaning"), rows)


def _meaning(metric: Metric) -> str:
    # Outside code an angle bracket would begin an HTML tag.
    return sentence(metric.meaning).replace("<", "&lt;")


def schedule_page() -> str:
    """Return the page of all controllers and the tables inside them."""
    blocks = [
        "A schedule is a list of controllers. Each is one `[[schedule]]` table with a `kind`, a "
        "`name` and the fields of its kind, and decides in the order of the list, after every "
        "iteration, from the [metrics](metrics.md) of that iteration. A metric that is absent "
        "changes nothing. How to write one and try it on a recorded run is described in "
        "[Configuration](../guide/config.md).",
    ]
    for name, kind in KINDS.items():
        blocks += [f"## {name}", _told(kind), field_table(kind)]
    for part in dict.fromkeys(part for kind in KINDS.values() for part in _parts(kind)):
        blocks += [f"## {part.__name__}", _told(part), field_table(part)]
    return page("Schedule", *blocks)


def _told(kind: type) -> str:
    return inspect.getdoc(kind) or ""


def _parts(kind: type) -> Iterator[type]:
    """Yield the dataclasses a controller's fields hold, innermost included."""
    for hint in field_types(kind).values():
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part) and _is_table(part):
                yield typing.cast(type, part)
                yield from _parts(typing.cast(type, part))


def _is_table(part: Any) -> bool:
    return bool(part.__module__.startswith("longhaul.schedule."))


def exit_codes_page() -> str:
    """Return the page of exit codes."""
    return page(
        "Exit codes",
        table(("code", "meaning"), [(str(number), text) for number, text in EXIT_CODES.items()]),
        "An error is one line on the error stream that names what is wrong and what would be "
        "right; arguments a command does not take are shown with its usage. After 130 and 143, in "
        "whatever stage the run was stopped, the same command continues it. 1 is left for what "
        "should not happen: an error inside longhaul, shown with its traceback, and "
        "`longhaul verify-resume` when the two runs differ.",
    )


def write_reference(folder: Path) -> None:
    """Write all reference pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in reference_pages().items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write_reference(Path(sys.argv[1]))

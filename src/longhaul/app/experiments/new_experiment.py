"""Creating the next experiment from a run: a short config and notes to fill in."""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.app.artifacts.report import preset_differences, preset_name
from longhaul.app.build.sources import (
    ConfigSources,
    find_kind,
    parse_override,
    put_on,
    read_preset,
    resolve,
    task_names,
)
from longhaul.core.config import merge, unflatten
from longhaul.core.errors import ConfigError
from longhaul.report import summary as words
from longhaul.report.notebook import ASKED, section
from longhaul.report.run_data import RunData, gather
from longhaul.runs.directory import slug
from longhaul.runs.durable import storage_errors
from longhaul.runs.toml import write_toml
from longhaul.tasks.kind import TEMPLATE, TEMPLATE_NAME


@dataclass(frozen=True, slots=True)
class Begun:
    """The files of the next experiment and the command that runs it."""

    config: Path
    notes: Path
    command: str

    def as_text(self) -> str:
        """Return one line for each."""
        return f"config    {self.config}\nnotes     {self.notes}\nrun it    {self.command}"


def begin_experiment(path: Path, name: str, overrides: Sequence[str], out: Path) -> Begun:
    """Write the config and the notes of the experiment after a run; overwrite nothing."""
    run = gather(path)
    record = run.state.record
    name = slug(name or next_name(record.name))
    values = unflatten({key: new for key, (_, new) in preset_differences(run)[0].items()})
    preset = preset_name(record.command)
    values = with_changes(values, overrides, task=record.task, preset=preset)
    config, notes = out / f"{name}.toml", out / f"{name}.md"
    for file in (config, notes):
        if file.exists():
            raise ConfigError(f"{file} exists; give the experiment another --name")
    call = ["longhaul", "train", record.task, "--name", name, "--config", str(config)]
    command = shlex.join([*call, *(["--preset", preset] if preset else [])])
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        config.write_text(f"# What differs from the preset of {record.task}.\n{write_toml(values)}")
        notes.write_text(make_notes(run, name, command, overrides))
    return Begun(config, notes, command)


def with_changes(
    values: dict[str, Any], overrides: Sequence[str], *, task: str, preset: str
) -> dict[str, Any]:
    """Return the values updated by overrides; raise if they are not a valid config."""
    before = merge(read_preset(find_kind(task), task, preset), values)
    after = before
    for override in overrides:
        change = parse_override(override)
        values, after = merge(values, change), put_on(after, change, task)
    if after.get("schedule") != before.get("schedule"):
        values = {**values, "schedule": after["schedule"]}
    resolve(ConfigSources(task, preset=preset, flags=values))  # raises if it is not valid
    return values


def next_name(name: str) -> str:
    """Return the next name: v7 becomes v8, `default` becomes default-2."""
    found = re.fullmatch(r"(.*?)(\d+)", name)
    return f"{found[1]}{int(found[2]) + 1}" if found else f"{name}-2"


def make_notes(run: RunData, name: str, command: str, overrides: Sequence[str]) -> str:
    """Return the notes, with the sections Learning and Next steps of the last run's notebook."""
    notebook = run.directory.notebook
    before = notebook.read_text("utf-8") if notebook.exists() else ""
    learned, steps = section(before, "Learning"), section(before, "Next steps")
    read = [f"Read: {run.directory.path}", *(f"- {line}" for line in words.summary(run))]
    changed = "\n".join(f"- `{override}`" for override in overrides)
    parts = {
        "Start": "\n".join(read) + (f"\n\nLearned there:\n\n{learned}" if learned else ""),
        "Goal": f"_{ASKED['Goal']}_",
        "Plan": "\n\n".join(filter(None, (steps, changed))) or f"_{ASKED['Plan']}_",
        "Run": f"```\n{command}\n```",
    }
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts.items())
    return f"# {run.state.record.task}: {name}\n\n{body}\n"


NAME = re.compile(r"[a-z][a-z0-9_]{1,40}")


def new_task(name: str, folder: Path) -> str:
    """Write the package to `folder`/`name`; return the next commands."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"invalid task name {name!r}; use lower-case letters, digits and _, a letter first"
        )
    if name in task_names():
        raise ConfigError(f"task {name!r} already exists; choose another name")
    package = folder / name
    if package.exists():
        raise ConfigError(f"{package} exists; choose another name or another --out")
    with storage_errors(package):
        for source, target in TEMPLATE.items():
            place = package / target.replace(TEMPLATE_NAME, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(renamed(source.read_text("utf-8"), name), encoding="utf-8")
    return (
        f"{package}: a task that can be trained now\n"
        f"install it  pip install -e {package}\n"
        f"test it     python -m pytest {package}\n"
        f"train it    longhaul train {name}\n"
        f"change      {package / name / 'env.py'}, then task.py and presets/default.toml"
    )


def renamed(text: str, name: str) -> str:
    """Return a file of the template with the new task's name."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    home = re.compile(rf"longhaul\.tasks\.\w+\.(?:template\.)?({TEMPLATE_NAME}|task)\b")
    text = home.sub(lambda m: f"{name}.{'env' if m[1] == TEMPLATE_NAME else m[1]}", text)
    return text.replace(TEMPLATE_NAME.capitalize(), camel).replace(TEMPLATE_NAME, name)

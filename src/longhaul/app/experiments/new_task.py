"""Creating a new task as a package: a copy of the template, which trains and has tests."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from longhaul.app.build.sources import task_names
from longhaul.core.errors import ConfigError
from longhaul.runs.durable import storage_errors
from longhaul.tasks.kind import TEMPLATE, TEMPLATE_NAME

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

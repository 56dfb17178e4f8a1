"""Names: no part of the program outside a task's own folder names a task."""

from __future__ import annotations

import re

import pytest

from tests.test_layout import SOURCE, modules, shown

FOLDERS = (
    *("core", "engine", "learn", "nets", "schedule", "envs", "runs"),
    *("app", "cli", "report", "web", "cluster", "hints"),
)
TASK_NAMES = re.compile(
    r"mario|(?<![a-z])fish|nethack|(?<![a-z])nle(?![a-z])|standin(?!g)|FreePixels|longhaul\.tasks\.probe"
    r"|probe:",
    re.IGNORECASE,
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_task_is_named_outside_the_tasks(folder: str) -> None:
    named = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in modules(SOURCE / folder)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if TASK_NAMES.search(line)
    ]
    assert not named, "\n".join(named)

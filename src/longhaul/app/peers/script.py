"""Running a peer's measurement in an interpreter of its own and reading what it found."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longhaul.core.errors import ConfigError

LIST_MISSING = """
import sys
from importlib.util import find_spec
print(", ".join(name for name in sys.argv[1:] if find_spec(name) is None))
"""


def isolated(python: Path, script: str) -> list[str]:
    """Return the command that runs a file of longhaul by a Python that need not have longhaul."""
    # Isolated: beside the script lie modules with names of the standard library.
    return [str(python), "-I", "-W", "ignore", script]


def missing(python: Path, modules: Sequence[str]) -> str:
    """Return why this interpreter cannot run what needs these modules; empty if it can."""
    if not python.exists():
        return f"there is no {python}"
    command = [str(python), "-I", "-c", LIST_MISSING, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"{python} cannot be run"
    return f"{python} has no {done.stdout.strip()}" if done.stdout.strip() else ""


def run_peer_script(name: str, command: Sequence[str], *, limit_seconds: float) -> dict[str, Any]:
    """Return the JSON object a peer's script writes as its last line."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"peer {name} did not end within {error.timeout:.0f} s") from error
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"peer {name} cannot be measured with {command[0]}: {last}")
    return read_result(name, lines[-1])


def read_result(name: str, line: str) -> dict[str, Any]:
    """Return a peer's last line as an object, or say what it wrote instead."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"peer {name} wrote {line[:80]!r} where its speeds were expected")
    return found

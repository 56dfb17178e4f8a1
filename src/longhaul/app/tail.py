"""The end of a run's logs, and what comes after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from longhaul.core.errors import ConfigError, suggestion
from longhaul.runs.directory import RunDirectory
from longhaul.runs.jsonl import Row, read_rows
from longhaul.runs.reader import read_run

POLL_SECONDS = 1.0
SHOWN = (
    ("return", "rollout/ep_rew_mean", ".4g"),
    ("length", "rollout/ep_len_mean", ".4g"),
    ("evaluation", "eval/mean_reward", ".4g"),
    ("kl", "train/approx_kl", ".2g"),
    ("value loss", "train/value_loss", ".3g"),
)
LOGS = ("metrics", "timings", "episodes", "events", "sessions", "resources")


def tail_run(
    path: Path,
    log: str,
    *,
    lines: int,
    follow: bool,
    as_json: bool = False,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yield the last lines of a log; following it, also those that come, until the run is over."""
    run = RunDirectory(path)
    run.read_record()
    if log not in LOGS:
        raise ConfigError(f"there is no log {log!r}{suggestion(log, LOGS)} ({', '.join(LOGS)})")
    file = path / f"{log}.jsonl"
    found = read_rows(file)
    for row in found.rows[-lines:] if lines else []:
        yield _line(row, as_json=as_json)
    offset = found.offset
    while follow:
        # Asked before reading: what the run wrote last is there when it is no longer alive.
        is_alive = read_run(run).is_alive
        found = read_rows(file, offset)
        offset = found.offset
        for row in found.rows:
            yield _line(row, as_json=as_json)
        if not is_alive:
            return
        wait(POLL_SECONDS)


def _line(row: Row, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(row)
    if "train/loss" not in row and "rollout/episodes" not in row:
        return "  ".join(f"{name}={_said(value)}" for name, value in row.items())
    words = [f"iteration {row.get('iteration')}", f"{row.get('env_steps', 0):,} steps"]
    words += [f"{label} {row[name]:{form}}" for label, name, form in SHOWN if name in row]
    return "  ".join(words)


def _said(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

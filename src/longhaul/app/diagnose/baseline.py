"""Comparing the trials of an environment with those of an earlier day."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.app.build.memory import machine_kind
from longhaul.app.diagnose.trials import Trials
from longhaul.core.errors import ConfigError
from longhaul.runs.durable import replace_file, storage_errors

SLOWER = 2.0
"""A stage that takes this many times as long as before is a regression."""
NOISE_SECONDS = 0.1
"""Differences below this are not one."""


@dataclass(frozen=True, slots=True)
class TrialsVerdict:
    """What became of the comparison with a baseline."""

    file: Path
    was_written: bool = False
    """Whether there was none: these trials are the baseline from now on."""
    regressions: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Return one line per regression and notice."""
        if self.was_written:
            return f"baseline written to {self.file}; later trials are compared with it"
        lines = [f"WORSE than {self.file}: {one}" for one in self.regressions]
        return "\n".join([*(lines or [f"as good as {self.file}"]), *self.notices])


def compare_trials(task: str, num_envs: int, trials: Trials, file: Path) -> TrialsVerdict:
    """Return what is worse than in the baseline; without one, these trials become it."""
    now = _facts(task, num_envs, trials)
    if not file.exists():
        with storage_errors(file):
            replace_file(file, (json.dumps(now, indent=2) + "\n").encode())
        return TrialsVerdict(file, was_written=True)
    then = _read(file)
    for key in ("task", "num_envs"):
        if then[key] != now[key]:
            raise ConfigError(
                f"--baseline {file} was measured with {key} = {then[key]!r}, not {now[key]!r}; "
                "give another file, or repeat its command"
            )
    is_same_machine = then["machine"] == now["machine"]
    found: list[str] = []
    for mode, before in then["modes"].items():
        if mode in now["modes"]:
            found += _worse(mode, before, now["modes"][mode], times=is_same_machine)
    untried = ", ".join(mode for mode in then["modes"] if mode not in now["modes"])
    notices = [f"not compared, since not tried now: {untried}"] if untried else []
    if not is_same_machine:
        notices.append(f"times were not compared: the baseline is of {then['machine']}")
    return TrialsVerdict(file, regressions=tuple(found), notices=tuple(notices))


def _facts(task: str, num_envs: int, trials: Trials) -> dict[str, Any]:
    modes = {
        mode: {
            "trials": len(rows),
            "ok": sum(row.outcome == "ok" for row in rows),
            "digest": next((row.digest for row in rows if row.outcome == "ok"), ""),
            "median_seconds": {
                stage: spread["median"]
                for stage, spread in trials.as_values()[mode]["seconds"].items()
            },
        }
        for mode, rows in trials.by_mode().items()
    }
    return {"task": task, "num_envs": num_envs, "machine": machine_kind(), "modes": modes}


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
        missing = {"task", "num_envs", "machine", "modes"} - found.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"--baseline {file} cannot be read: {error}") from error
    if missing:
        raise ConfigError(f"--baseline {file} is not a baseline: it has no {min(missing)}")
    assert isinstance(found, dict)
    return found


def _worse(mode: str, then: dict[str, Any], now: dict[str, Any], *, times: bool) -> list[str]:
    """Return what is worse in one runtime."""
    found = []
    if now["ok"] * then["trials"] < then["ok"] * now["trials"]:
        shares = (f"{one['ok']} of {one['trials']}" for one in (now, then))
        found.append(f"{mode}: {' trials succeed, before '.join(shares)}")
    if now["digest"] and then["digest"] and now["digest"] != then["digest"]:
        found.append(f"{mode}: the same seeds and actions show something else than before")
    for stage, before in then["median_seconds"].items() if times else ():
        after = now["median_seconds"].get(stage, before)
        if after > SLOWER * before and after - before > NOISE_SECONDS:
            found.append(f"{mode}: {stage} takes {after:.3f} s, before {before:.3f} s")
    return found

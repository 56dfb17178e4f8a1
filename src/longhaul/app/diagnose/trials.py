"""`doctor --trials`: making, resetting and stepping environments many times in fresh processes."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longhaul.app.build.text import columns
from longhaul.core.env import EnvSource, SingleEnvs, VectorEnv
from longhaul.core.errors import ConfigError, EnvError, LonghaulError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.checks import allowed_actions, random_actions
from longhaul.envs.config import EnvConfig, Runtime
from longhaul.envs.faults import Fault, Listeners
from longhaul.envs.guard import SlotGuard
from longhaul.envs.processes.isolated import Aftermath, Enter, call_isolated

TrialOutcome = Literal["ok", "failed", "died", "stuck"]

STEPS = 32
REPORT = "doctor-report.jsonl"
SUMMARY = "doctor-summary.txt"
WORKER_SHARE = 0.8  # of a trial's deadline: a stuck worker is reported by its supervisor first
MOST_ERRORS = 5


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What to try, how often, and how long each may take."""

    trials: int
    num_envs: int = 8
    runtime: str = "both"
    deadline_seconds: float = 60.0
    output: Path = Path()
    baseline: Path | None = None
    """Where the trials to compare with are stored, or are to be stored."""

    def __post_init__(self) -> None:
        for flag, value in (("--trials", self.trials), ("--num-envs", self.num_envs)):
            if value < 1:
                raise ConfigError(f"{flag} must be at least 1, not {value}")
        if not self.deadline_seconds > 0:
            raise ConfigError(f"--deadline must be more than 0, not {self.deadline_seconds}")


@dataclass(frozen=True, slots=True)
class DoctorTrial:
    """One construction to be tried; everything a fresh process needs to know."""

    source: EnvSource
    mode: Runtime
    num_envs: int
    env: EnvConfig
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """What a trial saw."""

    outcome: TrialOutcome = "ok"
    error: str = ""
    stage: str = ""  # where it failed, if a worker reported that
    detail: str = ""  # a traceback, or the end of what the process wrote
    digest: str = ""  # of every observation, reward and flag
    starts_differ: bool = True


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One line of the report."""

    mode: str
    trial: int
    outcome: TrialOutcome
    seconds: dict[str, float]  # per stage
    total_seconds: float
    stuck_stage: str = ""
    error: str = ""
    detail: str = ""
    digest: str = ""
    starts_differ: bool = True


def modes(source: EnvSource, runtime: str) -> tuple[Runtime, ...]:
    """Return the runtimes to try: the two a source offers, or the one that is named."""
    offered: tuple[Runtime, ...] = (
        ("serial", "processes") if isinstance(source, SingleEnvs) else ("serial", "batched")
    )
    if runtime == "both":
        return offered
    named = tuple(mode for mode in offered if mode == runtime)
    if not named:
        raise ConfigError(
            f"--runtime {runtime!r} does not run {source.spec.id}; use both or one of "
            + ", ".join(offered)
        )
    return named


def run_trials(
    source: EnvSource,
    env: EnvConfig,
    request: TrialRequest,
    *,
    reproducible: bool,
    notify: Callable[[str], None] = lambda line: None,
) -> Trials:
    """Try every mode and write each trial to the report as soon as it is over.

    With the same seeds all trials of a `reproducible` env must see the same, whatever the mode.
    """
    chosen = modes(source, request.runtime)
    try:
        ForkingPickler.dumps(source)
    except Exception as error:
        raise ConfigError(
            f"{source.spec.id} cannot be tried in a separate process: its factory cannot be "
            f"pickled ({error}); use a function or class at the top level of a module"
        ) from error
    rows: list[TrialRow] = []
    expected = ""
    path = _report_path(request.output)
    with path.open("w", encoding="utf-8") as report:
        for mode in chosen:
            trial = DoctorTrial(source, mode, request.num_envs, env)
            for number in range(1, request.trials + 1):
                row = _attempt(trial, number, request.deadline_seconds)
                if reproducible:
                    row = _compare(row, expected)
                    expected = expected or row.digest
                rows.append(row)
                report.write(json.dumps(asdict(row)) + "\n")
                report.flush()
                if number % max(1, request.trials // 10) == 0:
                    bad = sum(row.outcome != "ok" for row in rows if row.mode == mode)
                    notify(f"{mode}: {number} of {request.trials} trials, {bad} not ok")
    done = Trials(tuple(rows), str(path))
    (request.output / SUMMARY).write_text(done.as_text() + "\n", encoding="utf-8")
    return done


def _report_path(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).touch()
    except OSError as error:
        raise ConfigError(f"--output {str(folder)!r} cannot be used: {error.strerror}") from error
    return folder / REPORT


def _attempt(trial: DoctorTrial, number: int, deadline_seconds: float) -> TrialRow:
    trial = replace(trial, env=_impatient(trial.env, deadline_seconds * WORKER_SHARE))
    aftermath = call_isolated(partial(observe, trial), seconds=deadline_seconds)
    seen = _seen(aftermath)
    return TrialRow(
        trial.mode,
        number,
        seen.outcome,
        aftermath.seconds,
        round(sum(aftermath.seconds.values()), 4),
        stuck_stage=seen.stage if seen.outcome == "stuck" else "",
        error=seen.error,
        detail=seen.detail,
        digest=seen.digest,
        starts_differ=seen.starts_differ,
    )


def _impatient(env: EnvConfig, most_seconds: float) -> EnvConfig:
    """Return the settings with deadlines below the trial's, and without retries."""
    limits = env.processes
    capped = replace(
        limits,
        construct_seconds=min(limits.construct_seconds, most_seconds),
        reset_seconds=min(limits.reset_seconds, most_seconds),
        step_seconds=min(limits.step_seconds, most_seconds),
        construct_restarts=0,
        restarts_in_a_row=0,
        seed_strikes=1,
    )
    return replace(env, processes=capped)


def _seen(aftermath: Aftermath) -> Seen:
    if aftermath.fate == "returned":
        seen: Seen = aftermath.returned
        return seen
    outcome: TrialOutcome = "failed" if aftermath.fate == "raised" else aftermath.fate
    error = f"in {aftermath.stage}: {aftermath.error}"
    return Seen(outcome, error, aftermath.stage, aftermath.output)


def _compare(row: TrialRow, expected: str) -> TrialRow:
    if row.outcome != "ok" or not expected or row.digest == expected:
        return row
    return replace(
        row,
        outcome="failed",
        error="observations, rewards or endings differ from those of the first trial, "
        "with the same seeds and actions",
    )


def observe(trial: DoctorTrial, enter: Enter) -> Seen:
    """Make, reset and step the environments once, and return what was seen."""
    faults: list[Fault] = []
    try:
        found = _exercise(trial, enter, Listeners(on_fault=faults.append))
    except LonghaulError as error:
        found = Seen("failed", str(error))
    return _worst(faults) or found


def _worst(faults: Sequence[Fault]) -> Seen | None:
    """Return the first failure of a worker, even if the runtime recovered from it."""
    outcomes: dict[str, TrialOutcome] = {"hung": "stuck", "died": "died"}
    for fault in faults:
        # Slow workers are not faulty, and replacements are not failures.
        if fault.kind not in ("stuck", "replaced", "retired"):
            outcome = outcomes.get(fault.kind, "failed")
            return Seen(outcome, str(fault), fault.stage, fault.traceback)
    return None


def _exercise(trial: DoctorTrial, enter: Enter, listeners: Listeners) -> Seen:
    enter("construct")
    vector = make_vector_env(
        trial.source,
        count=trial.num_envs,
        seeds=DerivedSeeds(Seeds(trial.seed), "doctor"),
        runtime=trial.mode,
        threads=trial.env.threads,
        supervision=Supervision.of(trial.env, listeners),
    )
    guard = SlotGuard(vector.spec, vector.slots)
    try:
        enter("reset")
        digest = hashlib.blake2b(digest_size=16)
        starts: set[bytes] = set()
        for _ in range(2):
            vector.reset()
            _refuse_bad_row(guard)
            starts.update(_looks(vector))
            digest.update(b"".join(_looks(vector)))
        enter("step")
        _walk(vector, guard, trial.seed, digest)
        enter("close")
    finally:
        vector.close()
    return Seen(digest=digest.hexdigest(), starts_differ=len(starts) > 1)


def _walk(vector: VectorEnv, guard: SlotGuard, seed: int, digest: Any) -> None:
    """Take random steps; raise if nothing changes in any of them."""
    everybody = replace(vector.spec, rows=vector.rows)
    before = b"".join(_looks(vector))
    has_moved = False
    for wished in random_actions(everybody, STEPS, seed):
        step = vector.step(allowed_actions(vector.spec, vector.slots, wished))
        for event in step.events:
            raise EnvError(f"env {event.env}: {event.event}: {event.facts.get('error', '')}")
        _refuse_bad_row(guard)
        slots, after = step.slots, b"".join(_looks(vector))
        has_moved = has_moved or after != before or bool(slots.reward.any() or step.episodes)
        for array in (slots.reward, slots.terminated, slots.truncated):
            digest.update(array.tobytes())
        digest.update(after)
    if not has_moved:
        raise EnvError(f"nothing changed in {STEPS} steps: the same observations, no reward")


def _refuse_bad_row(guard: SlotGuard) -> None:
    if (fault := guard.fault()) is not None:
        raise EnvError(fault.problem)


def _looks(vector: VectorEnv) -> Iterator[bytes]:
    """Yield the observation of each env."""
    rows = vector.spec.rows
    for env in range(vector.count):
        parts = vector.slots.obs.values()
        yield b"".join(part[env * rows : (env + 1) * rows].tobytes() for part in parts)


@dataclass(frozen=True, slots=True)
class Trials:
    """All trials that were made."""

    rows: tuple[TrialRow, ...]
    report: str  # the file with one line per trial

    @property
    def all_ok(self) -> bool:
        """Whether none failed."""
        return all(row.outcome == "ok" for row in self.rows)

    def by_mode(self) -> dict[str, list[TrialRow]]:
        """Return the trials of each mode."""
        found: dict[str, list[TrialRow]] = {}
        for row in self.rows:
            found.setdefault(row.mode, []).append(row)
        return found

    def as_text(self) -> str:
        """Return counts, timings and the commonest errors."""
        counts, timings = [], []
        for mode, found in self.as_values().items():
            where = ", ".join(
                f"{stage} ({times})" for stage, times in found["stuck_stages"].most_common()
            )
            bad = (str(found.get(outcome, 0)) for outcome in ("failed", "died", "stuck"))
            counts.append((mode, f"{found.get('ok', 0)} of {found['trials']}", *bad, where or "-"))
            for stage, spread in found["seconds"].items():
                timings.append((mode, stage, *(f"{seconds:.3f}" for seconds in spread.values())))
        blocks = [
            columns(counts, header=("trials", "ok", "failed", "died", "stuck", "stuck in")),
            columns(timings, header=("seconds", "stage", "median", "p95", "max")),
        ]
        if errors := Counter(f"{row.mode}: {row.error}" for row in self.rows if row.error):
            blocks.append(
                "\n".join(f"{count} x {error}" for error, count in errors.most_common(MOST_ERRORS))
            )
        ok = [row for row in self.rows if row.outcome == "ok"]
        if ok and not any(row.starts_differ for row in ok):
            blocks.append("every episode starts in the same state, whatever its seed")
        return "\n\n".join([*blocks, f"one line per trial: {self.report}"])

    def as_values(self) -> dict[str, Any]:
        """Return counts and timings for programs."""
        return {
            mode: {
                "trials": len(rows),
                **Counter(row.outcome for row in rows),
                "stuck_stages": Counter(row.stuck_stage for row in rows if row.stuck_stage),
                "seconds": _spreads(rows),
            }
            for mode, rows in self.by_mode().items()
        }


def _spreads(rows: Sequence[TrialRow]) -> dict[str, dict[str, float]]:
    """Return median, 95th percentile and maximum of each stage and of whole trials."""
    stages = dict.fromkeys(stage for row in rows for stage in row.seconds)
    spent = {
        stage: [row.seconds[stage] for row in rows if stage in row.seconds] for stage in stages
    }
    spent["all"] = [row.total_seconds for row in rows]
    return {
        stage: {
            "median": statistics.median(values),
            "p95": float(np.quantile(values, 0.95, method="higher")),
            "max": max(values),
        }
        for stage, values in spent.items()
    }

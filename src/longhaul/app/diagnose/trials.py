"""Making, resetting and stepping environments again and again, each time from nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.app.diagnose.isolation import Aftermath, Enter, call_isolated
from longhaul.app.diagnose.trial_report import Outcome, TrialRow, Trials
from longhaul.core.env import Array, EnvSource, SingleEnvs, Step, StepBuffers, VectorEnv
from longhaul.core.errors import ConfigError, EnvError, LonghaulError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.spaces import EnvSpec
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.checks import allowed_actions, random_actions
from longhaul.envs.config import EnvConfig, ProcessesConfig, Runtime
from longhaul.envs.faults import Fault, Listeners

STEPS = 32
REPORT = "doctor-report.jsonl"
SUMMARY = "doctor-summary.txt"
WORKER_SHARE = 0.8  # of a trial's deadline, so that a stuck worker is named by its supervisor


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

    outcome: Outcome = "ok"
    error: str = ""
    stage: str = ""  # where it went wrong, if a worker said so
    traceback: str = ""
    digest: str = ""  # of every observation, reward and flag
    starts_differ: bool = True


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What to try, how often, and how long each may take."""

    trials: int
    num_envs: int = 8
    runtime: str = "both"
    deadline_seconds: float = 60.0
    output: Path = Path()

    def __post_init__(self) -> None:
        for flag, value in (("--trials", self.trials), ("--num-envs", self.num_envs)):
            if value < 1:
                raise ConfigError(f"{flag} must be at least 1, not {value}")
        if not self.deadline_seconds > 0:
            raise ConfigError(f"--deadline must be more than 0, not {self.deadline_seconds}")


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
    """Try every mode and write each trial down as soon as it is over.

    With the same seeds all trials of a `reproducible` env must see the same, whatever the mode.
    """
    chosen = modes(source, request.runtime)
    try:
        ForkingPickler.dumps(source)
    except Exception as error:
        raise ConfigError(
            f"{source.spec.id} cannot be tried in a process of its own: what makes it cannot be "
            f"sent there ({error}); use a function or class at the top level of a module"
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
                    notify(_progress(mode, number, request.trials, rows))
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


def _progress(mode: str, number: int, trials: int, rows: Sequence[TrialRow]) -> str:
    bad = sum(row.outcome != "ok" for row in rows if row.mode == mode)
    return f"{mode}: {number} of {trials} trials, {bad} not ok"


def _attempt(trial: DoctorTrial, number: int, deadline_seconds: float) -> TrialRow:
    aftermath = call_isolated(
        observe,
        replace(trial, env=_impatient(trial.env, deadline_seconds * WORKER_SHARE)),
        deadline_seconds=deadline_seconds,
    )
    return _row(trial.mode, number, aftermath)


def _impatient(env: EnvConfig, most_seconds: float) -> EnvConfig:
    """Return the settings with deadlines below the trial's, and nothing tried twice."""
    processes = env.processes
    capped: ProcessesConfig = replace(
        processes,
        construct_seconds=min(processes.construct_seconds, most_seconds),
        reset_seconds=min(processes.reset_seconds, most_seconds),
        step_seconds=min(processes.step_seconds, most_seconds),
        construct_restarts=0,
        restarts_in_a_row=0,
        seed_strikes=1,
    )
    return replace(env, processes=capped)


def _row(mode: str, number: int, aftermath: Aftermath) -> TrialRow:
    total = round(sum(aftermath.seconds.values()), 4)
    if aftermath.fate == "returned":
        seen: Seen = aftermath.returned
        return TrialRow(
            mode, number, seen.outcome, aftermath.seconds, total,
            stuck_stage=seen.stage if seen.outcome == "stuck" else "",
            error=seen.error, detail=seen.traceback,
            digest=seen.digest, starts_differ=seen.starts_differ,
        )  # fmt: skip
    outcome: Outcome = "failed" if aftermath.fate == "raised" else aftermath.fate
    return TrialRow(
        mode, number, outcome, aftermath.seconds, total,
        stuck_stage=aftermath.stage if outcome == "stuck" else "",
        error=f"in {aftermath.stage}: {aftermath.error}", detail=aftermath.output,
    )  # fmt: skip


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
    """Make, reset and step the environments once, and say what was seen."""
    faults: list[Fault] = []
    try:
        digest, starts_differ = _exercise(trial, enter, Listeners(on_fault=faults.append))
    except LonghaulError as error:
        return _worst(faults) or Seen("failed", str(error))
    return _worst(faults) or Seen(digest=digest, starts_differ=starts_differ)


def _worst(faults: Sequence[Fault]) -> Seen | None:
    """Return the first thing a worker did wrong, even if the runtime got over it."""
    told: dict[str, Outcome] = {"hung": "stuck", "died": "died"}
    for fault in faults:
        # A worker that was only slow is not at fault, and a replacement is no news.
        if fault.kind not in ("stuck", "replaced", "retired"):
            outcome = told.get(fault.kind, "failed")
            return Seen(outcome, str(fault), fault.stage, fault.traceback)
    return None


def _exercise(trial: DoctorTrial, enter: Enter, listeners: Listeners) -> tuple[str, bool]:
    enter("construct")
    vector = make_vector_env(
        trial.source,
        count=trial.num_envs,
        seeds=DerivedSeeds(Seeds(trial.seed), "doctor"),
        runtime=trial.mode,
        threads=trial.env.threads,
        supervision=Supervision.of(trial.env, listeners),
    )
    try:
        enter("reset")
        digest = hashlib.blake2b(digest_size=16)
        starts: set[bytes] = set()
        for _ in range(2):
            vector.reset()
            check_slots(vector.spec, vector.slots)
            starts.update(_looks(vector))
            digest.update(b"".join(_looks(vector)))
        enter("step")
        _walk(vector, trial.seed, digest)
        enter("close")
    finally:
        vector.close()
    return digest.hexdigest(), len(starts) > 1


def _walk(vector: VectorEnv, seed: int, digest: Any) -> None:
    """Take random steps; raise unless something can be seen to happen."""
    everybody = replace(vector.spec, rows=vector.rows)
    before = b"".join(_looks(vector))
    has_moved = False
    for wished in random_actions(everybody, STEPS, seed):
        step = vector.step(allowed_actions(vector.spec, vector.slots, wished))
        _refuse_losses(step)
        slots = step.slots
        check_slots(vector.spec, slots)
        after = b"".join(_looks(vector))
        has_moved = has_moved or after != before or bool(slots.reward.any() or step.episodes)
        for array in (slots.reward, slots.terminated, slots.truncated):
            digest.update(array.tobytes())
        digest.update(after)
    if not has_moved:
        raise EnvError(f"nothing changed in {STEPS} steps: the same observations, no reward")


def _refuse_losses(step: Step) -> None:
    for event in step.events:
        raise EnvError(f"env {event.env}: {event.event}: {event.facts.get('error', '')}")


def _looks(vector: VectorEnv) -> Iterator[bytes]:
    """Yield what each env shows."""
    rows = vector.spec.rows
    for env in range(vector.count):
        parts = vector.slots.obs.values()
        yield b"".join(part[env * rows : (env + 1) * rows].tobytes() for part in parts)


def check_slots(spec: EnvSpec, slots: StepBuffers) -> None:
    """Raise unless everything a policy is given is as declared, finite, and leaves it a choice."""
    for name, part in spec.observation.items():
        array = slots.obs[name]
        if array.shape[1:] != part.shape or array.dtype != np.dtype(part.dtype):
            raise EnvError(
                f"observation {name!r} is {array.dtype} {array.shape[1:]}, "
                f"declared {part.dtype} {part.shape}"
            )
        _refuse_nonfinite(f"observation {name!r}", array)
    _refuse_nonfinite("the reward", slots.reward)
    if slots.mask is not None and not slots.mask[slots.active].any(axis=-1).all():
        raise EnvError("the action mask allows nothing at all in some row")


def _refuse_nonfinite(what: str, array: Array) -> None:
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise EnvError(f"{what} is not finite")

"""Proving that an interrupted run equals an uninterrupted one, byte for byte."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from longhaul.app.build.components import build_task, check_task
from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.sources import ConfigSources, find_kind, parse_override, read_toml
from longhaul.app.build.text import columns
from longhaul.app.diagnose.controls import Controls, without_each_part
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.seeds import Seeds
from longhaul.core.spaces import Tier
from longhaul.core.task import Task
from longhaul.engine.stop import after_iterations
from longhaul.runs.checkpoints.inspect import MANIFEST_FILE, list_checkpoints
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import digest_file
from longhaul.runs.logs.jsonl import read_rows

QUIET = SessionOptions(quiet=True)
ODD_ENVS = 7
"""Environments of an overlapped trial: sums over so few rows depend on the number of threads."""
FIRST_BACKWARD_IMPORTS = "torch.fx.experimental.symbolic_shapes"


@dataclass(frozen=True, slots=True)
class Interruption:
    """How the second run is interrupted."""

    iterations: int = 12
    interruptions: int = 3
    kill: bool = False
    seed: int = 0
    """Where the moments of interruption come from."""
    controls: bool = False
    """Whether each part of a checkpoint is also left out, which must be noticed."""

    def __post_init__(self) -> None:
        for flag, value, low in (
            ("--iterations", self.iterations, 2),
            ("--interruptions", self.interruptions, 1),
        ):
            if value < low:
                raise ConfigError(f"{flag} must be at least {low} to prove anything, not {value}")


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """One file of both runs."""

    file: str
    size: int
    equal: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """The compared files and the verdict."""

    task: str
    interruptions: tuple[str, ...]
    files: tuple[ComparedFile, ...]
    tier: str
    controls: Controls | None = None

    @property
    def sound(self) -> bool:
        """Whether the runs are equal, and losses were noticed if any were tried."""
        noticed = self.controls is None or self.controls.parts("different", "refused")
        return self.equal and bool(noticed)

    @property
    def equal(self) -> bool:
        """Whether every file is byte-equal."""
        return all(file.equal for file in self.files)

    def as_text(self) -> str:
        """Return a table of the files and the verdict."""
        rows = [(f.file, f"{f.size:,}", "equal" if f.equal else "DIFFERENT") for f in self.files]
        table = columns(rows, header=("file", "bytes", "after resume"))
        verdict = "bit for bit the same run" if self.equal else "NOT the same run"
        how = "; ".join(self.interruptions)
        text = f"{table}\n\n{self.task} (tier {self.tier}), {how}: {verdict}"
        return text if self.controls is None else f"{text}\n\n{self.controls.as_text()}"

    def as_json(self) -> str:
        """Return the comparison for programs."""
        return json.dumps(
            {
                "task": self.task,
                "tier": self.tier,
                "equal": self.equal,
                "interruptions": self.interruptions,
                "files": {file.file: file.equal for file in self.files},
                **({} if self.controls is None else {"left_out": self.controls.as_values()}),
            }
        )


def odd_sized(config: RunConfig, sources: ConfigSources) -> RunConfig:
    """Return the configuration to verify; an overlapped run of no given size gets an odd one.

    An overlapped run collects in another thread than it learns in. If that thread computes
    differently, the results differ with few rows, but not with 8, 16 or 32.
    """
    if not config.collect.overlap or config.cluster.address or _sets_num_envs(sources):
        return config
    return replace(config, num_envs=ODD_ENVS)


def _sets_num_envs(sources: ConfigSources) -> bool:
    """Whether the user gave a number of environments; a preset's number does not count."""
    given = [parse_override(override) for override in sources.overrides]
    if sources.file is not None:
        given.append(read_toml(sources.file))
    return sources.flags.get("num_envs") is not None or any("num_envs" in one for one in given)


def verify(config: RunConfig, trial: Interruption) -> Verification:
    """Train the same run twice, once interrupted, and compare everything that was written."""
    if config.env.order == "first-come":
        raise ConfigError(
            "env.order = 'first-come' depends on timing: no two runs are bit for bit the same; "
            "verify with env.order = 'lockstep'"
        )
    found: list[str] = []
    task = check_task(config, build_task(config), found.append)
    tier = task.envs.spec.tier
    if tier in (Tier.RESTART, Tier.NONE):
        raise EnvError(
            f"{config.task} is tier {tier.value}: its state cannot be restored in mid-episode, so "
            "a resumed run is statistically the same but not bit for bit"
            + "".join(f" ({report})" for report in found)
        )
    if config.learn.replay.enabled and not config.learn.replay.saved:
        raise ConfigError(
            "learn.replay.saved = false: a resumed run starts with an empty replay and is not bit "
            "for bit the same; set it to true to verify the rest"
        )
    config = _lengthened(config, task, trial)
    with TemporaryDirectory(prefix="longhaul-verify-") as folder:
        whole = begin_run(config, Path(folder) / "whole").directory
        cut = begin_run(config, Path(folder) / "cut").directory
        interrupt = _kill if trial.kill else _stop
        moments = interrupt(config, whole, cut, trial)
        files = compare(whole, cut)
        if not trial.controls:
            return Verification(task.name, moments, files, tier.value)

        def differing(run: RunDirectory) -> list[str]:
            return [file.file for file in compare(whole, run) if not file.equal]

        controls = without_each_part(
            config, task, Path(folder) / "controls", trial.iterations, differing
        )
        return Verification(task.name, moments, files, tier.value, controls)


def _lengthened(config: RunConfig, task: Task, trial: Interruption) -> RunConfig:
    """Return the configuration of a run that is long enough and saves when the trial needs it."""
    if 0 < config.total_iterations <= trial.iterations:
        raise ConfigError(
            f"--iterations {trial.iterations} reaches the end of a run of total_iterations = "
            f"{config.total_iterations}; give a smaller number"
        )
    every = 1 if trial.kill else 0
    steps = trial.iterations * config.collect.num_steps * config.num_envs * task.envs.spec.rows
    return replace(
        config,
        # A run that finishes before its interruptions would prove nothing about resuming.
        total_timesteps=max(config.total_timesteps, steps + 1),
        total_episodes=config.total_episodes and max(config.total_episodes, steps + 1),
        checkpoint=replace(config.checkpoint, every_iterations=every, every_seconds=0.0),
    )


def _stop(
    config: RunConfig, whole: RunDirectory, cut: RunDirectory, trial: Interruption
) -> tuple[str, ...]:
    """Stop and rebuild the second run after random iterations."""
    run_session(whole, config, QUIET, also_until=after_iterations(trial.iterations))
    generator = Seeds(trial.seed).generator("interruptions")
    count = min(trial.interruptions, trial.iterations - 1)
    chosen = generator.choice(trial.iterations - 1, size=count, replace=False) + 1
    for iteration in [*sorted(int(i) for i in chosen), trial.iterations]:
        run_session(cut, config, QUIET, also_until=after_iterations(iteration))
    return tuple(f"stopped after iteration {i}" for i in sorted(int(i) for i in chosen))


def _kill(
    config: RunConfig, whole: RunDirectory, cut: RunDirectory, trial: Interruption
) -> tuple[str, ...]:
    """Kill the second run's process with SIGKILL at random moments, each time later in the run."""
    processes = multiprocessing.get_context("forkserver")
    # Imports before the first update take longer than the update: without preloading, most kills
    # would hit an import and few the training.
    task_module = find_kind(config.task).build.__module__
    processes.set_forkserver_preload([__name__, task_module, FIRST_BACKWARD_IMPORTS])

    def start(run: RunDirectory) -> multiprocessing.process.BaseProcess:
        process = processes.Process(
            target=_train_to, args=(run.path, config, trial.iterations), daemon=True
        )
        process.start()
        return process

    _finish(start(whole))
    seconds = _duration(whole)
    generator = Seeds(trial.seed).generator("interruptions")
    moments = []
    for number in range(trial.interruptions):
        process = start(cut)
        _wait_for_session(cut, number + 1, process.is_alive)
        delay = float(generator.uniform(0.0, 1.5 * seconds / trial.interruptions))
        process.join(delay)
        process.kill()
        process.join()
        moments.append(f"killed {delay:.2f} s into session {number + 1}")
    _finish(start(cut))
    return tuple(moments)


def _finish(process: multiprocessing.process.BaseProcess) -> None:
    """Wait for a process that is to train to the end."""
    process.join()
    if process.exitcode:
        raise EnvError(f"the training process ended with exit code {process.exitcode}")


def _train_to(path: Path, config: RunConfig, iterations: int) -> None:
    run_session(RunDirectory(path), config, QUIET, also_until=after_iterations(iterations))


def _duration(run: RunDirectory) -> float:
    """Return the seconds a finished run spent in its loop."""
    return float(read_rows(run.timings).rows[-1]["time/session_seconds"])


def _wait_for_session(run: RunDirectory, number: int, alive: Callable[[], bool]) -> None:
    """Wait until the process has restored the run for the `number`-th time."""
    while alive():
        rows = read_rows(run.sessions).rows if run.sessions.exists() else []
        if sum(row.get("event") in ("started", "resumed") for row in rows) >= number:
            return
        time.sleep(0.005)


def compare(whole: RunDirectory, cut: RunDirectory) -> tuple[ComparedFile, ...]:
    """Compare the three logs and every part of the last checkpoint of two runs."""
    pairs = [
        (whole.metrics, cut.metrics),
        (whole.episodes, cut.episodes),
        (whole.events, cut.events),
    ]
    first, second = list_checkpoints(whole.checkpoints)[0], list_checkpoints(cut.checkpoints)[0]
    names = {path.name for path in (*first.iterdir(), *second.iterdir())} - {MANIFEST_FILE}
    pairs += [(first / name, second / name) for name in sorted(names)]
    return tuple(_compare(a, b) for a, b in pairs)


def _compare(a: Path, b: Path) -> ComparedFile:
    name = a.name if a.suffix == ".jsonl" else f"{a.parent.name}/{a.name}"
    if not (a.exists() and b.exists()):
        return ComparedFile(name, 0, equal=False)
    return ComparedFile(name, a.stat().st_size, equal=digest_file(a) == digest_file(b))

"""Training the arms of an experiment, each with several seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.child_process import longhaul_command
from longhaul.app.configure import ConfigSources, resolve
from longhaul.app.search.outcome import failure
from longhaul.app.train import changed_keys
from longhaul.app.trial_place import HERE, Launch, Process, TrialPlace, end_all
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.runs.directory import list_run_directories, slug
from longhaul.runs.durable import storage_errors
from longhaul.runs.record import Status

LOOK_SECONDS = 0.2
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of training: a preset and changed keys, under a name."""

    name: str
    preset: str = ""
    overrides: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Arm:
        """Return `preset`, or `name:key=value;key=value` as an arm; `default` is the task's own."""
        name, colon, rest = text.partition(":")
        if not name.strip():
            raise ConfigError(f"--arms: {text!r} has no name; write name:key=value;key=value")
        if colon:
            changed = tuple(part.strip() for part in rest.split(";") if part.strip())
            return Arm(name.strip(), overrides=changed)
        return Arm(name.strip(), preset="" if name.strip() == "default" else name.strip())


@dataclass(frozen=True, slots=True)
class Experiment:
    """Arms times seeds on one task."""

    task: str
    arms: tuple[Arm, ...]
    seeds: int
    root: Path
    overrides: tuple[str, ...] = ()
    """Changes all arms share."""
    name: str = "compare"
    place: TrialPlace = HERE

    @property
    def folder(self) -> Path:
        """Where the words of its runs go."""
        return self.root / slug(self.task) / f"{slug(self.name)}.compare"

    def run_name(self, arm: Arm) -> str:
        """Return the name of an arm's runs."""
        return f"{self.name}-{slug(arm.name)}"

    def sources(self, arm: Arm, seed: int) -> ConfigSources:
        """Return where the config of a run comes from."""
        flags = {"name": self.run_name(arm), "seed": seed}
        overrides = (*self.overrides, *arm.overrides)
        return ConfigSources(self.task, preset=arm.preset, flags=flags, overrides=overrides)


@dataclass(frozen=True, slots=True)
class _Job:
    """One run to be made."""

    arm: Arm
    seed: int
    words: str


@dataclass(frozen=True, slots=True)
class _LiveJob:
    job: _Job
    process: Process
    log: Path


def train_arms(
    experiment: Experiment, tell: Tell, *, rest: Callable[[float], None] = time.sleep
) -> list[Path]:
    """Train every arm with every seed and return the runs.

    A run that is there already is not made again, one that was cut off goes on.
    """
    if experiment.seeds < 1 or len(experiment.arms) < 2:
        raise ConfigError("--arms needs at least two arms, and --seeds at least 1")
    if len({arm.name for arm in experiment.arms}) < len(experiment.arms):
        raise ConfigError("--arms: two arms have the same name")
    for arm in experiment.arms:
        resolve(experiment.sources(arm, 1))  # a wrong key is told before anything is trained
    experiment.place.check()
    both = [(arm, seed) for seed in range(1, experiment.seeds + 1) for arm in experiment.arms]
    jobs = [
        _Job(arm, seed, f"{number} of {len(both)}: {arm.name}, seed {seed}")
        for number, (arm, seed) in enumerate(both, start=1)
    ]
    with experiment.place.open() as launch:
        _train(experiment, jobs, launch, tell, rest)
    return [_demand_finished(experiment, job) for job in jobs]


def _train(
    experiment: Experiment,
    jobs: Sequence[_Job],
    launch: Launch,
    tell: Tell,
    rest: Callable[[float], None],
) -> None:
    """Make the runs that are not there yet, so many side by side as may."""
    waiting = list(jobs)
    live: list[_LiveJob] = []
    try:
        while waiting or live:
            while waiting and len(live) < experiment.place.jobs:
                job = waiting.pop(0)
                tell(job.words)
                if _finished(experiment, job) is None:
                    live.append(_begin(experiment, job, launch))
            rest(LOOK_SECONDS if live else 0.0)
            for one in tuple(live):
                code = one.process.poll()
                if code is not None:
                    live.remove(one)
                    _demand_success(one, code)
    finally:
        end_all([one.process for one in live])


def _begin(experiment: Experiment, job: _Job, launch: Launch) -> _LiveJob:
    """Begin or go on with a run in a process of its own."""
    arm, seed = job.arm, job.seed
    name = experiment.run_name(arm)
    words = ["train", experiment.task, "--quiet", "--no-report", "--name", name]
    words += ["--seed", str(seed), "--runs-root", str(experiment.root.resolve())]
    words += ["--preset", arm.preset] if arm.preset else []
    for override in experiment.sources(arm, seed).overrides:
        words += ["--set", override]
    log = experiment.folder / f"{name}-s{seed}.log"
    with storage_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
    return _LiveJob(job, launch(longhaul_command(*words), log), log)


def _demand_success(one: _LiveJob, code: int) -> None:
    if code != 0:
        said = one.log.read_text(errors="replace") if one.log.is_file() else ""
        raise LonghaulError(
            f"{one.job.arm.name}, seed {one.job.seed}, ended with exit code {code}: "
            f"{failure(code, said).words}; the same command goes on from here"
        )


def _demand_finished(experiment: Experiment, job: _Job) -> Path:
    found = _finished(experiment, job)
    if found is None:
        raise LonghaulError(
            f"{job.arm.name}, seed {job.seed}, has finished but is not in {experiment.root}; "
            "on a cluster all nodes must share that folder"
        )
    return found


def _finished(experiment: Experiment, job: _Job) -> Path | None:
    config = resolve(experiment.sources(job.arm, job.seed))
    for run in reversed(list_run_directories(experiment.root / slug(experiment.task))):
        record = run.read_record()
        same = (record.name, record.seed) == (config.name, job.seed)
        if same and record.status is Status.FINISHED and not changed_keys(run, config):
            return run.path
    return None

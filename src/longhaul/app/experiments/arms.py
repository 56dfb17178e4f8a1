"""Training the arms of an experiment, each with several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.experiments.jobs import (
    HERE,
    Job,
    Launch,
    TrialPlace,
    longhaul_command,
    run_jobs,
)
from longhaul.app.experiments.search.trial import failure
from longhaul.app.session.start import changed_keys
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.runs.directory import Status, list_run_directories, slug
from longhaul.runs.durable import storage_errors


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: a preset and changed keys, under a name."""

    name: str
    preset: str = ""
    overrides: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Arm:
        """Return `preset` or `name:key=value;key=value` as an arm; `default` is the default."""
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
    """Changes that all arms share."""
    name: str = "compare"
    place: TrialPlace = HERE

    @property
    def folder(self) -> Path:
        """The folder for the output of its runs."""
        return self.root / slug(self.task) / f"{slug(self.name)}.compare"

    def run_name(self, arm: Arm) -> str:
        """Return the name of an arm's runs."""
        return f"{self.name}-{slug(arm.name)}"

    def sources(self, arm: Arm, seed: int) -> ConfigSources:
        """Return the config sources of a run."""
        flags = {"name": self.run_name(arm), "seed": seed}
        overrides = (*self.overrides, *arm.overrides)
        return ConfigSources(self.task, preset=arm.preset, flags=flags, overrides=overrides)


@dataclass(frozen=True, slots=True)
class _Planned:
    """One run to train."""

    arm: Arm
    seed: int
    words: str


@dataclass(slots=True)
class _ArmJob(Job):
    planned: _Planned


def train_arms(experiment: Experiment, notify: Callable[[str], None]) -> list[Path]:
    """Train every arm with every seed and return the runs.

    Finished runs are not trained again, and interrupted ones are continued.
    """
    if experiment.seeds < 1 or len(experiment.arms) < 2:
        raise ConfigError("--arms needs at least two arms, and --seeds at least 1")
    if len({arm.name for arm in experiment.arms}) < len(experiment.arms):
        raise ConfigError("--arms: two arms have the same name")
    for arm in experiment.arms:
        resolve(experiment.sources(arm, 1))  # reports wrong keys before anything is trained
    experiment.place.check()
    both = [(arm, seed) for seed in range(1, experiment.seeds + 1) for arm in experiment.arms]
    jobs = [
        _Planned(arm, seed, f"{number} of {len(both)}: {arm.name}, seed {seed}")
        for number, (arm, seed) in enumerate(both, start=1)
    ]
    with experiment.place.open() as launch:
        run_jobs(_Arms(experiment, jobs, launch, notify), experiment.place.jobs)
    return [_demand_finished(experiment, job) for job in jobs]


class _Arms:
    """Trains unfinished runs in order; the first failure stops all."""

    def __init__(
        self,
        experiment: Experiment,
        planned: Sequence[_Planned],
        launch: Launch,
        notify: Callable[[str], None],
    ) -> None:
        self._experiment, self._launch, self._notify = experiment, launch, notify
        self._waiting = list(planned)

    def begin(self, live: Sequence[_ArmJob]) -> _ArmJob | None:
        """Start or continue the next run that is not finished."""
        while self._waiting:
            planned = self._waiting.pop(0)
            self._notify(planned.words)
            if _finished(self._experiment, planned) is None:
                return self._start(planned)
        return None

    def _start(self, planned: _Planned) -> _ArmJob:
        experiment, arm, seed = self._experiment, planned.arm, planned.seed
        name = experiment.run_name(arm)
        words = ["train", experiment.task, "--quiet", "--no-report", "--name", name]
        words += ["--seed", str(seed), "--runs-root", str(experiment.root.resolve())]
        words += ["--preset", arm.preset] if arm.preset else []
        for override in experiment.sources(arm, seed).overrides:
            words += ["--set", override]
        log = experiment.folder / f"{name}-s{seed}.log"
        with storage_errors(log):
            log.parent.mkdir(parents=True, exist_ok=True)
        return _ArmJob(self._launch(longhaul_command(*words), log), log, planned)

    def look(self, job: _ArmJob, code: int | None) -> None:
        """Raise if a run has failed."""
        if code:
            planned = job.planned
            raise LonghaulError(
                f"{planned.arm.name}, seed {planned.seed}, ended with exit code {code}: "
                f"{failure(code, job.output()).message}; the same command continues from here"
            )

    def stop_reason(self) -> str:
        """Return no reason: a comparison needs all of its runs."""
        return ""


def _demand_finished(experiment: Experiment, job: _Planned) -> Path:
    found = _finished(experiment, job)
    if found is None:
        raise LonghaulError(
            f"{job.arm.name}, seed {job.seed}, has finished but is not in {experiment.root}; "
            "on a cluster, all nodes must share that folder"
        )
    return found


def _finished(experiment: Experiment, job: _Planned) -> Path | None:
    config = resolve(experiment.sources(job.arm, job.seed))
    for run in reversed(list_run_directories(experiment.root / slug(experiment.task))):
        record = run.read_record()
        same = (record.name, record.seed) == (config.name, job.seed)
        if same and record.status is Status.FINISHED and not changed_keys(run, config):
            return run.path
    return None

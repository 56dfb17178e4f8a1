"""Checking the machine, the versions and a task's environment before a long run."""

from __future__ import annotations

import json
import platform
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from longhaul.app.build.components import build_env, build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import ConfigSources, resolve, task_names
from longhaul.app.build.text import columns
from longhaul.app.diagnose.api_check import check_api
from longhaul.app.diagnose.baseline import TrialsVerdict, compare_trials
from longhaul.app.diagnose.trials import TrialRequest, Trials, run_trials
from longhaul.core.env import EnvSource, SingleEnvs
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.system import cores
from longhaul.envs.checks import check_seeds, random_actions
from longhaul.envs.guard import FOLDER, printable
from longhaul.envs.processes.isolated import Enter, call_isolated
from longhaul.learn.backend import compile_ahead
from longhaul.runs.lock import DISTRIBUTION

GIGABYTE = 1 << 30
CHECK_SECONDS = 120.0
LONGEST_EXAMPLE = 80
PACKAGES = (DISTRIBUTION, "torch", "numpy", "gymnasium", "numba", "safetensors", "msgspec")


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check."""

    what: str
    good: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all checks."""

    findings: tuple[DoctorFinding, ...]
    trials: Trials | None = None  # if any were asked for and could be made
    verdict: TrialsVerdict | None = None  # if they were to be compared with a baseline

    @property
    def healthy(self) -> bool:
        """Whether every check and every trial passed, and none is worse than before."""
        is_good = all(finding.good for finding in self.findings)
        is_worse = self.verdict is not None and self.verdict.regressions
        return is_good and not is_worse and (self.trials is None or self.trials.all_ok)

    def as_text(self) -> str:
        """Return one line per finding, then the trials and how they compare."""
        rows = [("ok" if f.good else "BAD", f.what, f.detail) for f in self.findings]
        further = (part.as_text() for part in (self.trials, self.verdict) if part is not None)
        return "\n\n".join([columns(rows), *further])

    def as_json(self) -> str:
        """Return the findings for programs."""
        values: dict[str, object] = {
            "healthy": self.healthy,
            "findings": [asdict(finding) for finding in self.findings],
        }
        if self.trials is not None:
            values |= {"trials": self.trials.as_values(), "report": self.trials.report}
        if self.verdict is not None:
            values["regressions"] = self.verdict.regressions
        return json.dumps(values)


@dataclass(frozen=True, slots=True)
class TaskExamination:
    """The checks of a task, and its environments if they can be made."""

    findings: tuple[DoctorFinding, ...]
    source: EnvSource | None = None
    reproducible: bool = False


def examine(
    task: str,
    request: TrialRequest | None = None,
    *,
    deadline_seconds: float = CHECK_SECONDS,
    notify: Callable[[str], None] = lambda line: None,
) -> Examination:
    """Check the machine and, if one is named, a task."""
    machine = (*_versions(), *_machine())
    if not task:
        if request is not None:
            raise ConfigError("--trials needs a task, for example gym:CartPole-v1")
        return Examination(machine)
    try:
        config = resolve(ConfigSources(task=task))
    except LonghaulError as error:
        return Examination((*machine, DoctorFinding(task, good=False, detail=str(error))))
    found = examine_apart(config, deadline_seconds)
    findings = (*machine, *found.findings)
    if request is None or found.source is None:
        return Examination(findings)
    trials = run_trials(
        found.source, config.env, request, reproducible=found.reproducible, notify=notify
    )
    if request.baseline is None:
        return Examination(findings, trials)
    verdict = compare_trials(config.task, request.num_envs, trials, request.baseline)
    return Examination(findings, trials, verdict)


def examine_apart(config: RunConfig, deadline_seconds: float) -> TaskExamination:
    """Check a task in a separate process: an environment may hang or crash."""
    aftermath = call_isolated(partial(examine_task, config), seconds=deadline_seconds)
    if aftermath.fate == "returned":
        found: TaskExamination = aftermath.returned
        return replace(found, findings=(*found.findings, *_prints(aftermath.output)))
    detail = f"{aftermath.fate} in {aftermath.stage}: {aftermath.error}"
    if aftermath.output:
        detail += f"; it wrote: {aftermath.output.strip()}"
    return TaskExamination((DoctorFinding(config.task, good=False, detail=detail),))


def _prints(output: str) -> tuple[DoctorFinding, ...]:
    """Return a finding if the environment prints."""
    if not (said := printable(output)):
        return ()
    example = said if len(said) <= LONGEST_EXAMPLE else f"{said[:LONGEST_EXAMPLE]}..."
    detail = f"the environment prints, for example {example!r}; a run keeps it in {FOLDER}/"
    return (DoctorFinding("output", good=True, detail=detail),)


def _versions() -> list[DoctorFinding]:
    findings = [DoctorFinding("python", good=True, detail=platform.python_version())]
    for package in PACKAGES:
        try:
            findings.append(DoctorFinding(package, good=True, detail=version(package)))
        except PackageNotFoundError:
            findings.append(DoctorFinding(package, good=False, detail="not installed"))
    return findings


def _machine() -> list[DoctorFinding]:
    memory = psutil.virtual_memory()
    disk = shutil.disk_usage(Path.cwd())
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return [
        DoctorFinding("cores", good=True, detail=str(cores())),
        DoctorFinding(
            "memory",
            good=memory.available > GIGABYTE,
            detail=f"{memory.available / GIGABYTE:.1f} of {memory.total / GIGABYTE:.1f} GiB free",
        ),
        DoctorFinding(
            "disk",
            good=disk.free > GIGABYTE,
            detail=f"{disk.free / GIGABYTE:.1f} GiB free here",
        ),
        DoctorFinding("open files", good=files >= 256, detail=f"limit {files}"),
    ]


def examine_task(config: RunConfig, enter: Enter) -> TaskExamination:
    """Make a task's environments and check their API and their seeds."""
    enter("construct")
    try:
        built = build_task(config)
    except LonghaulError as error:
        return TaskExamination((DoctorFinding(config.task, good=False, detail=str(error)),))
    spec = built.envs.spec
    findings = [
        DoctorFinding("task", good=True, detail=f"{built.name}: {spec.in_words()}"),
        DoctorFinding("state", good=True, detail=f"tier {spec.tier.value}"),
    ]
    enter("API")
    if (conformity := check_api(config)) is not None:
        findings.append(DoctorFinding("API", good=conformity.good, detail=conformity.detail))
    enter("seeds")
    try:
        check = check_seeds(built.envs)
    except LonghaulError as error:
        findings.append(DoctorFinding("episodes", good=False, detail=str(error)))
        return TaskExamination(tuple(findings), built.envs)
    findings.append(DoctorFinding("seeds", good=check.honest, detail=check.report()))
    return TaskExamination(tuple(findings), check.source, check.honest)


def warm_up(tasks: Sequence[str], notify: Callable[[str], None]) -> None:
    """Compile each task's environments by stepping one of them once, and the learner.

    Without tasks, all that need no argument are taken; one that is not available is reported.
    """
    for name in tasks or task_names():
        begin = time.monotonic()
        try:
            done = _step_once(name)
        except LonghaulError as error:
            if tasks:
                raise
            if not isinstance(error, ConfigError):  # some tasks need an argument
                notify(f"{name}: {error}")
            continue
        if done:
            notify(f"{name}: ready after {time.monotonic() - begin:.1f} s")
    begin = time.monotonic()
    compile_ahead()
    notify(f"learner: ready after {time.monotonic() - begin:.1f} s")


def _step_once(name: str) -> bool:
    """Step one environment of a task; return whether there was native code to compile."""
    config = resolve(ConfigSources(task=name))
    task = build_task(config)
    if not task.envs.compiles:
        return False
    # In this process: what is compiled is cached beside the code, for all others.
    if isinstance(task.envs, SingleEnvs):
        config = replace(config, env=replace(config.env, runtime="serial"))
    env = build_env(config, task, DerivedSeeds(Seeds(config.seed)), 1)
    env.reset()
    env.step(random_actions(env.spec, 1, config.seed)[0])
    env.close()
    return True

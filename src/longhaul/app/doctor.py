"""Checking the machine, the versions and a task's environment before a long run."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from longhaul.app.assemble import build_task
from longhaul.app.configure import ConfigSources, resolve
from longhaul.app.text import columns
from longhaul.core.errors import LonghaulError
from longhaul.envs.checks import check_seeds

GIGABYTE = 1 << 30
PACKAGES = ("longhaul", "torch", "numpy", "gymnasium", "numba", "safetensors", "msgspec")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    good: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that was looked at."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing stands in the way of a run."""
        return all(finding.good for finding in self.findings)

    def as_text(self) -> str:
        """Return one line per finding."""
        rows = [("ok" if f.good else "BAD", f.what, f.detail) for f in self.findings]
        return columns(rows)

    def as_json(self) -> str:
        """Return the findings for programs."""
        return json.dumps(
            {"healthy": self.healthy, "findings": [asdict(finding) for finding in self.findings]}
        )


def examine(task: str) -> Examination:
    """Look at the machine and, if one is named, at a task."""
    findings = [*_versions(), *_machine()]
    if task:
        findings += _task(task)
    return Examination(tuple(findings))


def _versions() -> list[Finding]:
    findings = [Finding("python", good=True, detail=platform.python_version())]
    for package in PACKAGES:
        try:
            findings.append(Finding(package, good=True, detail=version(package)))
        except PackageNotFoundError:
            findings.append(Finding(package, good=False, detail="not installed"))
    return findings


def _machine() -> list[Finding]:
    memory = psutil.virtual_memory()
    disk = shutil.disk_usage(Path.cwd())
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    cores = len(os.sched_getaffinity(0))
    return [
        Finding("cores", good=True, detail=str(cores)),
        Finding(
            "memory",
            good=memory.available > GIGABYTE,
            detail=f"{memory.available / GIGABYTE:.1f} of {memory.total / GIGABYTE:.1f} GiB free",
        ),
        Finding(
            "disk",
            good=disk.free > GIGABYTE,
            detail=f"{disk.free / GIGABYTE:.1f} GiB free here",
        ),
        Finding("open files", good=files >= 256, detail=f"limit {files}"),
    ]


def _task(task: str) -> list[Finding]:
    try:
        config = resolve(ConfigSources(task=task))
        built = build_task(config)
    except LonghaulError as error:
        return [Finding(task, good=False, detail=str(error))]
    spec = built.envs.spec
    findings = [
        Finding("task", good=True, detail=f"{built.name}: {spec.observation}, {spec.action}"),
        Finding("state", good=True, detail=f"tier {spec.tier.value}"),
    ]
    try:
        check = check_seeds(built.envs)
    except LonghaulError as error:
        return [*findings, Finding("episodes", good=False, detail=str(error))]
    return [*findings, Finding("seeds", good=check.honest, detail=check.report())]

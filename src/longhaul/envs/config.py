"""How environments are run, as the user sets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from longhaul.core.config import AT_LEAST_1, PART, SHARE, check_ranges

Runtime = Literal["auto", "serial", "batched", "processes"]
StepOrder = Literal["lockstep", "first-come"]
TierChoice = Literal["auto", "snapshot", "replay", "restart", "none"]


@dataclass(frozen=True, slots=True)
class ProcessesConfig:
    """Settings of the `[env.processes]` table: worker processes and the faults they tolerate."""

    workers: int = 0
    """Worker processes that share the environments; 0 takes one per core, or one per environment
    with `order = "first-come"`. Results do not depend on it."""
    least_deadline_seconds: float = 5.0
    """An environment counts as hung after 20 times its usual time, but never before this
    time."""
    construct_seconds: float = 120.0
    """Time limit for making one environment, imports included."""
    reset_seconds: float = 60.0
    """Time limit for one reset."""
    step_seconds: float = 60.0
    """Time limit for one step."""
    close_seconds: float = 5.0
    """Time limit for closing the environments before their workers are killed."""
    construct_restarts: int = 9
    """Restarts of workers whose environments cannot be made before the run stops with exit 3."""
    restarts_in_a_row: int = 9
    """Restarts of one worker without a step in between before its environments are abandoned."""
    restarts_per_minute: int = 30
    """Restarts of one worker within a minute before its environments are abandoned."""
    fewest_envs: float = 0.5
    """Share of the environments that must be left; with fewer the run stops with exit 3."""
    seed_strikes: int = 3
    """Failures of an episode at the same step before its seed is quarantined."""
    most_quarantined: int = 100
    """Seeds that may be quarantined before the run stops with exit 3."""
    memory_growth_mb: int = 2048
    """Memory growth after which a worker is replaced at an episode's end; 0 turns it off."""
    memory_check_seconds: float = 5.0
    """Time between two checks of the workers' memory."""


@dataclass(frozen=True, slots=True)
class PathConfig:
    """Settings of the `[env.path]` table: training that begins along known ways to the goal."""

    demos: tuple[str, ...] = ()
    """Demonstrations that `longhaul explore` wrote; episodes begin along their paths. Evaluations
    never do. Empty: all episodes begin as usual."""
    every: int = 2
    """Decisions between two states of a path."""
    floor: float = 0.15
    """Least share of the episodes that begin at the true start. The share grows to 1 with the rate
    of success there."""
    threshold: float = 0.15
    """Rate of success from which a state counts as solved at times: episodes begin around the
    earliest such state of the path."""
    window: int = 10
    """States before the earliest solved one that are tried as well."""

    def __post_init__(self) -> None:
        ranges = {AT_LEAST_1: "every window", SHARE: "floor", PART: "threshold"}
        check_ranges(self, "env.path", ranges)


@dataclass(frozen=True, slots=True)
class EnvConfig:
    """Settings of the `[env]` table."""

    runtime: Runtime = "auto"
    """How they run: `auto` takes what the environment offers, `serial` one after another in the
    trainer's process, `batched` as arrays stepped by native code, `processes` in supervised
    worker processes."""
    threads: int = 0
    """Threads that share a batched environment's simulators; 0 takes one per core, at most 4.
    Results do not depend on it."""
    tier: TierChoice = "auto"
    """How exactly a state can be restored: `snapshot` from its own bytes, `replay` by
    replaying seed and actions, `restart` at episode starts only, `none` not at all. `auto` takes
    what the environment declares."""
    check_seeds: bool = True
    """Before training, compare two resets and two short episodes with one seed; an environment
    that differs is reported and run as tier `none`."""
    order: StepOrder = "lockstep"
    """Which environments step together: all of them (`lockstep`), or those that answered first
    (`first-come`, in worker processes), which is faster if environments differ in speed.
    `first-come` depends on timing, so runs are not reproducible."""
    first_come_share: float = 0.5
    """Share of the environments that must have answered before the policy acts again, with
    `order = "first-come"`."""
    most_dropped: int = 100
    """Transitions with invalid values that may be dropped before the run stops with exit 4."""
    path: PathConfig = field(default_factory=PathConfig)
    """Training that begins along demonstrated ways to the goal."""
    processes: ProcessesConfig = field(default_factory=ProcessesConfig)
    """How worker processes are supervised, for the `processes` runtime."""

    def __post_init__(self) -> None:
        check_ranges(self, "env", {PART: "first_come_share"})

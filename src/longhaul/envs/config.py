"""How environments are run, as the user sets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from longhaul.core.errors import ConfigError

Runtime = Literal["auto", "serial", "batched", "processes"]
StepOrder = Literal["lockstep", "first-come"]
TierChoice = Literal["auto", "snapshot", "replay", "restart", "none"]


@dataclass(frozen=True, slots=True)
class ProcessesConfig:
    """Settings of the `[env.processes]` table: worker processes and what they may do wrong."""

    workers: int = 0
    """Worker processes that share the environments; 0 takes one per core, or one per environment
    if they are stepped first come, first served. Results do not depend on it."""
    least_deadline_seconds: float = 5.0
    """An environment that does not answer for 20 times its usual time counts as hung, but never
    before this time."""
    construct_seconds: float = 120.0
    """Longest time the making of one environment may take, imports included."""
    reset_seconds: float = 60.0
    """Longest time one reset may take."""
    step_seconds: float = 60.0
    """Longest time one step may take."""
    close_seconds: float = 5.0
    """Longest time the workers are given to close their environments before they are killed."""
    construct_restarts: int = 9
    """Restarts of workers whose environments cannot be made before the run stops with exit 3."""
    restarts_in_a_row: int = 9
    """Restarts of one worker without a single step in between before its environments are given
    up."""
    restarts_per_minute: int = 30
    """Restarts of one worker within a minute before its environments are given up."""
    fewest_envs: float = 0.5
    """Share of the environments that must be left; with fewer the run stops with exit 3."""
    seed_strikes: int = 3
    """Times an episode may fail at the same step before its seed is set aside."""
    most_quarantined: int = 100
    """Seeds that may be set aside before the run stops with exit 3."""
    memory_growth_mb: int = 2048
    """Memory a worker may gain before it is replaced at an episode's end; 0 turns the watch off."""
    memory_check_seconds: float = 5.0
    """Time between two looks at the workers' memory."""


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
    """Who acts together: all environments in `lockstep`, or `first-come`, in worker processes,
    those that have answered first, which is faster where environments differ in speed. The latter
    depends on timing, so that no two runs are the same."""
    first_come_share: float = 0.5
    """Share of the environments that must have answered before the policy acts again, if they are
    stepped first come, first served."""
    most_dropped: int = 100
    """Transitions with unusable values that may be dropped before the run stops with exit 4."""
    processes: ProcessesConfig = field(default_factory=ProcessesConfig)
    """How worker processes are supervised, for the `processes` runtime."""

    def __post_init__(self) -> None:
        if not 0 < self.first_come_share <= 1:
            raise ConfigError(
                f"env.first_come_share = {self.first_come_share} must be more than 0, at most 1"
            )

"""How environments are run, as the user sets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Runtime = Literal["auto", "serial", "batched"]
TierChoice = Literal["auto", "A", "B", "C", "D"]


@dataclass(frozen=True, slots=True)
class EnvConfig:
    """Settings of the `[env]` table."""

    runtime: Runtime = "auto"
    """How they run: `auto` takes what the environment offers, `serial` one after another in the
    trainer's process, `batched` as arrays stepped by native code."""
    threads: int = 0
    """Threads that share a batched environment's simulators; 0 takes one per core, at most 4.
    Results do not depend on it."""
    tier: TierChoice = "auto"
    """How exactly a state can be restored: `A` native snapshot, `B` replay of seed and actions,
    `C` at episode starts only, `D` not at all. `auto` takes what the environment declares."""
    check_seeds: bool = True
    """Before training, compare two resets and two short episodes with one seed; an environment
    that differs is reported and run as tier D."""

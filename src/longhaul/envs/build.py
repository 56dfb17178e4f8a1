"""From what a source declares to the vector env that runs it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from longhaul.core.env import BatchedEnvs, EnvSource, SingleEnvs, VectorEnv
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.envs.config import EnvConfig, ProcessesConfig, Runtime, StepOrder
from longhaul.envs.faults import SILENCE, FaultPolicy, Listeners
from longhaul.envs.processes.first_come import FirstComeVectorEnv
from longhaul.envs.processes.vector import ProcessVectorEnv
from longhaul.envs.serial import BatchedVectorEnv, SerialVectorEnv

MOST_AUTO_THREADS = 4


@dataclass(frozen=True, slots=True)
class Supervision:
    """How environments are watched, what they may do wrong, and who is told."""

    config: ProcessesConfig = field(default_factory=ProcessesConfig)
    border: FaultPolicy = field(default_factory=FaultPolicy)
    order: StepOrder = "lockstep"

    @staticmethod
    def of(config: EnvConfig, listeners: Listeners = SILENCE) -> Supervision:
        """Return what the user's settings ask for."""
        return Supervision(
            config.processes, FaultPolicy(config.most_dropped, listeners), config.order
        )


UNWATCHED = Supervision()


def make_vector_env(
    source: EnvSource,
    *,
    count: int,
    seeds: EpisodeSeeds,
    runtime: Runtime = "auto",
    threads: int = 0,
    supervision: Supervision = UNWATCHED,
) -> VectorEnv:
    """Return `count` environments of `source`, run the way it offers or the way asked for."""
    if threads < 0:
        raise ConfigError(f"env.threads = {threads}: give 0 for one per core, or a number")
    if isinstance(source, SingleEnvs) and source.unavailable:
        raise EnvError(source.unavailable)
    if supervision.order == "first-come":
        return _first_come(source, count, seeds, runtime, supervision)
    match source:
        case SingleEnvs():
            if runtime == "batched":
                raise ConfigError(
                    f"env.runtime = 'batched': {source.spec.id} is made one at a time; "
                    "use 'auto', 'serial' or 'processes'"
                )
            if runtime == "processes" or (runtime == "auto" and source.prefers_processes):
                return ProcessVectorEnv(
                    source, count, seeds, config=supervision.config, border=supervision.border
                )
            return SerialVectorEnv(source, count, seeds, border=supervision.border)
        case BatchedEnvs():
            if runtime == "processes":
                raise ConfigError(
                    f"env.runtime = 'processes': {source.spec.id} is made many at a time and runs "
                    "in the trainer's process; use 'auto', 'serial' or 'batched'"
                )
            # Serial for a batch is the same arrays without threads: nothing else would differ.
            used = 1 if runtime == "serial" else threads or _auto_threads()
            return BatchedVectorEnv(source, count, seeds, threads=used, border=supervision.border)


def _first_come(
    source: EnvSource, count: int, seeds: EpisodeSeeds, runtime: Runtime, supervision: Supervision
) -> FirstComeVectorEnv:
    if not isinstance(source, SingleEnvs) or runtime not in ("auto", "processes"):
        raise ConfigError(
            f"env.order = 'first-come' is for worker processes, and {source.spec.id} is to run "
            "in the trainer's process; use 'lockstep'"
        )
    return FirstComeVectorEnv(
        source, count, seeds, config=supervision.config, border=supervision.border
    )


def _auto_threads() -> int:
    return min(MOST_AUTO_THREADS, len(os.sched_getaffinity(0)))

"""Building the vector env that runs an environment source."""

from __future__ import annotations

from dataclasses import dataclass, field

from longhaul.core.env import BatchedEnvs, EnvSource, SingleEnvs, VectorEnv
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.system import cores
from longhaul.envs.config import EnvConfig, ProcessesConfig, Runtime, StepOrder
from longhaul.envs.faults import NO_LISTENERS, FaultPolicy, Listeners
from longhaul.envs.processes.first_come import FirstComeVectorEnv
from longhaul.envs.processes.vector import ProcessVectorEnv
from longhaul.envs.serial import BatchedVectorEnv, SerialVectorEnv
from longhaul.envs.starts import StartDealer

MOST_AUTO_THREADS = 4


@dataclass(frozen=True, slots=True)
class Supervision:
    """How environments are supervised, which faults are tolerated, and who deals starts."""

    config: ProcessesConfig = field(default_factory=ProcessesConfig)
    faults: FaultPolicy = field(default_factory=FaultPolicy)
    order: StepOrder = "lockstep"
    dealer: StartDealer | None = None
    """Chooses where episodes begin; None deals the starts of the setting `env.starts` alone."""

    @staticmethod
    def of(
        config: EnvConfig,
        listeners: Listeners = NO_LISTENERS,
        dealer: StartDealer | None = None,
    ) -> Supervision:
        """Return the supervision of a config."""
        return Supervision(
            config.processes, FaultPolicy(config.most_dropped, listeners), config.order, dealer
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
    """Return `count` environments of `source`, with the requested runtime or its default one."""
    if threads < 0:
        raise ConfigError(f"env.threads = {threads} must be 0 (one per core) or more")
    if isinstance(source, SingleEnvs) and source.unavailable:
        raise EnvError(source.unavailable)
    if supervision.order == "first-come":
        if supervision.dealer is not None:
            raise ConfigError(
                "env.path.demos needs env.order = 'lockstep': with 'first-come' the order of "
                "episodes depends on timing, and with it where they begin"
            )
        return _first_come(source, count, seeds, runtime, supervision)
    match source:
        case SingleEnvs():
            if runtime == "batched":
                raise ConfigError(
                    f"env.runtime = 'batched': {source.spec.id} has no batched version; "
                    "use 'auto', 'serial' or 'processes'"
                )
            if runtime == "processes" or (runtime == "auto" and source.prefers_processes):
                return ProcessVectorEnv(
                    source,
                    count,
                    seeds,
                    config=supervision.config,
                    faults=supervision.faults,
                    dealer=supervision.dealer,
                )
            return SerialVectorEnv(
                source, count, seeds, faults=supervision.faults, dealer=supervision.dealer
            )
        case BatchedEnvs():
            if runtime == "processes":
                raise ConfigError(
                    f"env.runtime = 'processes': {source.spec.id} is a batch, which runs in the "
                    "trainer's process; use 'auto', 'serial' or 'batched'"
                )
            # For a batch, serial means the same arrays without threads.
            used = 1 if runtime == "serial" else threads or _auto_threads()
            return BatchedVectorEnv(
                source,
                count,
                seeds,
                threads=used,
                faults=supervision.faults,
                dealer=supervision.dealer,
            )


def _first_come(
    source: EnvSource, count: int, seeds: EpisodeSeeds, runtime: Runtime, supervision: Supervision
) -> FirstComeVectorEnv:
    if not isinstance(source, SingleEnvs) or runtime not in ("auto", "processes"):
        raise ConfigError(
            f"env.order = 'first-come' needs worker processes, but {source.spec.id} runs in "
            "the trainer's process; use 'lockstep'"
        )
    return FirstComeVectorEnv(
        source, count, seeds, config=supervision.config, faults=supervision.faults
    )


def _auto_threads() -> int:
    return min(MOST_AUTO_THREADS, cores())

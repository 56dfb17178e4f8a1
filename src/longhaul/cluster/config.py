"""Config of a cluster, its metrics, and the rank of this process."""

from __future__ import annotations

import os
from dataclasses import dataclass

from longhaul.core.config import ABOVE_0, AT_LEAST_0, AT_LEAST_1, PART, Ranges, check_ranges
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metric
from longhaul.core.seeds import EpisodeSeeds


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Settings of the `[cluster]` table: collectors as actors of a Ray cluster."""

    address: str = ""
    """Where collectors run: empty is the trainer's process; `auto` joins the Ray cluster of this
    machine or else starts one here that listens on loopback only; `local` always starts one here;
    `host:port` is the head of a cluster."""
    collectors: int = 0
    """Collectors that share the environments; 0 takes one per free processor of the cluster at the
    start of the run, and keeps that number."""
    envs_per_collector: int = 0
    """Environments of each collector, instead of `collectors`; 0 divides `num_envs` evenly."""
    cpus_per_collector: float = 1.0
    """Processors that Ray reserves for each collector; without a free one it waits for a node."""
    max_lag: int = 4
    """Largest number of updates between the weights that made a fragment and those that learn from
    it; older fragments are dropped and counted. The lag is usually 0, or 1 with
    `collect.overlap`."""
    quorum: float = 0.75
    """Share of the running collectors whose fragments an update needs. With 1 the learner
    waits for all, also for one that died and is replaced, and with environments of tier `snapshot`
    or `replay` the run is reproducible bit for bit."""
    patience: float = 1.0
    """How much longer to wait for the others, as a share of the usual time of a fragment."""
    least_deadline_seconds: float = 30.0
    """A collector that does not answer for 20 times the usual time of a fragment is replaced, but
    never before this time."""
    connect_seconds: float = 20.0
    """Time limit for the head of a cluster to answer."""
    start_seconds: float = 120.0
    """Time without any collector after which the run stops."""
    most_deaths: int = 5
    """Deaths of one collector without a fragment in between after which the run stops."""
    object_store_megabytes: int = 0
    """Shared memory for weights and fragments of a cluster that is started here; 0 takes what
    the rollouts need."""

    def __post_init__(self) -> None:
        check_ranges(self, "cluster", _RANGES)
        if self.collectors and self.envs_per_collector:
            raise ConfigError(
                f"cluster.collectors = {self.collectors} and cluster.envs_per_collector = "
                f"{self.envs_per_collector} cannot be combined; set one of them"
            )


_RANGES: Ranges = {
    AT_LEAST_0: "collectors envs_per_collector max_lag object_store_megabytes cpus_per_collector "
    "patience",
    AT_LEAST_1: "most_deaths",
    ABOVE_0: "least_deadline_seconds connect_seconds start_seconds",
    PART: "quorum",
}

METRICS = (
    Metric("cluster/collectors", "running collectors"),
    Metric("cluster/fragments", "fragments in this rollout"),
    Metric("cluster/lag_mean", "mean updates between a fragment's weights and the learner's"),
    Metric("cluster/lag_max", "most updates between a fragment's weights and the learner's"),
    Metric("cluster/deaths", "collectors that died or hung since this process started"),
    Metric(
        "cluster/asked", "environment transitions requested since the start of the run", "steps"
    ),
    Metric("cluster/learned", "transitions that were learned from", "steps"),
    Metric(
        "cluster/dropped",
        "transitions dropped because they were older than `cluster.max_lag`",
        "steps",
    ),
    Metric("cluster/lost", "transitions lost with a collector that died or hung", "steps"),
    Metric("cluster/under_way", "transitions still pending", "steps"),
    Metric("cluster/fragment_seconds", "usual time a collector takes for a fragment", "s"),
    Metric("cluster/fragment_megabytes", "size of this rollout's fragments", "MB"),
    Metric("cluster/put_ms", "time spent publishing weights for this rollout", "ms"),
    Metric("cluster/wait_seconds", "time the learner waited for fragments", "s"),
)
"""Rows of timings.jsonl of a run with `cluster.address`."""


LEADER = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """The number of this learner process, and how many there are."""

    number: int
    size: int

    @property
    def is_leader(self) -> bool:
        """Whether it collects and writes the run; the others only learn."""
        return self.number == LEADER


def launched_rank() -> Rank:
    """Return the rank that `torchrun` gave this process; 0 of 1 without it."""
    try:
        return Rank(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    except ValueError as error:
        raise ConfigError(
            f"RANK and WORLD_SIZE must be numbers, as torchrun sets: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class EnvShare:
    """The environments `first` to `first + count` of a run, which one collector holds."""

    collector: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class SharedSeeds:
    """The seeds of a share: those its environments have in the whole run."""

    whole: EpisodeSeeds
    first: int

    def seed(self, env: int, episode: int) -> int:
        """Return the seed of an episode of the share's `env`-th environment."""
        return self.whole.seed(self.first + env, episode)


def share_out(num_envs: int, collectors: int) -> tuple[EnvShare, ...]:
    """Return disjoint shares of all environments, as equal as possible."""
    least, more = divmod(num_envs, collectors)
    shares, first = [], 0
    for collector in range(collectors):
        count = least + (collector < more)
        shares.append(EnvShare(collector, first, count))
        first += count
    return tuple(shares)


def count_collectors(config: ClusterConfig, num_envs: int, *, free_processors: float) -> int:
    """Return how many collectors share the environments."""
    if config.envs_per_collector:
        if num_envs % config.envs_per_collector:
            raise ConfigError(
                f"cluster.envs_per_collector = {config.envs_per_collector} must divide "
                f"num_envs = {num_envs}"
            )
        return num_envs // config.envs_per_collector
    if config.collectors > num_envs:
        raise ConfigError(
            f"cluster.collectors = {config.collectors} is more than num_envs = {num_envs}; "
            "each collector needs an environment"
        )
    if config.collectors:
        return config.collectors
    fitting = int(free_processors / config.cpus_per_collector) if config.cpus_per_collector else 1
    return max(1, min(num_envs, fitting))

"""How collectors are spread over machines, as the user sets it."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Settings of the `[cluster]` table: collectors as actors of a Ray cluster."""

    address: str = ""
    """Where collectors run: empty is the trainer's own process; `auto` takes the Ray cluster this
    machine belongs to, or else begins one here that listens on loopback only; `local` always
    begins one here; `host:port` is the head of a cluster."""
    collectors: int = 0
    """Collectors that share the environments; 0 takes one per free processor of the cluster, as it
    is when the run begins, and keeps that number for the whole run."""
    envs_per_collector: int = 0
    """Environments of each collector, in place of `collectors`; 0 shares `num_envs` out evenly."""
    cpus_per_collector: float = 1.0
    """Processors Ray sets aside for each collector; one that finds none free waits for a node."""
    max_lag: int = 4
    """Most updates between the weights a fragment was made with and those that learn from it;
    older fragments are dropped and counted. With `collect.overlap` the usual lag is 1, else 0."""
    quorum: float = 0.75
    """Share of the collectors at work whose fragments an update needs. With 1 all are waited for,
    also one that died and is replaced, and the run is repeatable bit for bit (tiers A and B)."""
    patience: float = 1.0
    """How much longer to wait for the others, as a share of the usual time of a fragment."""
    least_deadline_seconds: float = 30.0
    """A collector that does not answer for 20 times the usual time of a fragment is replaced, but
    never before this time."""
    connect_seconds: float = 20.0
    """Longest wait for the head of a cluster to answer."""
    start_seconds: float = 120.0
    """Longest time without a single collector at work before the run gives up."""
    most_deaths: int = 5
    """Deaths in a row of one collector, without a fragment in between, before the run gives up."""
    object_store_megabytes: int = 0
    """Shared memory for weights and fragments of a cluster that is begun here; 0 takes what the
    rollouts need."""

    def __post_init__(self) -> None:
        for name, least in (
            ("collectors", 0),
            ("envs_per_collector", 0),
            ("max_lag", 0),
            ("object_store_megabytes", 0),
            ("cpus_per_collector", 0),
            ("patience", 0),
            ("most_deaths", 1),
        ):
            value = getattr(self, name)
            if value < least:
                raise ConfigError(f"cluster.{name} must be at least {least}, not {value}")
        for name in ("least_deadline_seconds", "connect_seconds", "start_seconds"):
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"cluster.{name} must be above 0, not {value}")
        if not 0 < self.quorum <= 1:
            raise ConfigError(f"cluster.quorum must be above 0 and at most 1, not {self.quorum}")
        if self.collectors and self.envs_per_collector:
            raise ConfigError(
                f"cluster.collectors = {self.collectors} and cluster.envs_per_collector = "
                f"{self.envs_per_collector} say the same thing twice; give one of them"
            )

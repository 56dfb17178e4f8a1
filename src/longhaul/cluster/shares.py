"""Which environments belong to which collector; the same ids and seeds as on one machine."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.cluster.config import ClusterConfig
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import EpisodeSeeds


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
    """Return disjoint shares of all environments, as equal as can be."""
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

"""Configuration of collecting, evaluating and stopping."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CollectConfig:
    """How rollouts are made."""

    steps: int = 128
    """Steps per row in one rollout."""
    chunk: int = 0
    """Length of the sequences a recurrent policy learns from; 0 means the whole rollout."""
    overlap: bool = False
    """Collect the next rollout while learning from the last, always exactly one update behind."""
    window: int = 100
    """Finished episodes that means and quantiles of `rollout/` metrics are taken over."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"collect.steps must be at least 1, not {self.steps}")
        if self.window < 1:
            raise ConfigError(f"collect.window must be at least 1, not {self.window}")
        if self.chunk < 0 or (self.chunk and self.steps % self.chunk):
            raise ConfigError(
                f"collect.chunk = {self.chunk} must divide collect.steps = {self.steps}"
            )


@dataclass(frozen=True, slots=True)
class EvaluateConfig:
    """How the policy is measured while it trains and at the end."""

    every_iterations: int = 0
    """Measure after every so many iterations; 0 measures only at the end."""
    episodes: int = 20
    """Episodes per measurement during training."""
    final_episodes: int = 50
    """Episodes of the measurement at the end of the run; 0 leaves it out, suites too."""
    num_envs: int = 10
    """Environments that play the episodes side by side; does not change the result."""
    greedy: bool = True
    """Take the most likely action instead of drawing one."""
    seed: int = 20_000_003
    """Where the evaluation's episode seeds come from; independent of the run's seed."""
    suite: str = ""
    """For tasks with suites of their own: the one played during training; empty takes the task's
    choice. `episodes` and `final_episodes` then do not count, a suite has its own length."""
    final_suites: tuple[str, ...] = ()
    """The suites reported at the end of the run; empty takes the task's choice."""
    rotate: bool = False
    """Play other episodes at every measurement: the suite `<suite>-<iteration>`."""

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.num_envs < 1:
            raise ConfigError("evaluate.episodes and evaluate.num_envs must be at least 1")
        if self.every_iterations < 0 or self.final_episodes < 0:
            raise ConfigError(
                "evaluate.every_iterations and evaluate.final_episodes cannot be negative"
            )

"""Config of collecting and evaluating, and the metrics the engine measures."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, check_ranges
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metric


@dataclass(frozen=True, slots=True)
class CollectConfig:
    """How rollouts are made."""

    num_steps: int = 128
    """Steps per row in one rollout."""
    chunk: int = 0
    """Length of the sequences a recurrent policy learns from; 0 means the whole rollout."""
    overlap: bool = False
    """Collect the next rollout while learning from the last, always exactly one update behind."""
    window: int = 100
    """Finished episodes that means and quantiles of `rollout/` metrics are taken over."""

    def __post_init__(self) -> None:
        check_ranges(self, "collect", {AT_LEAST_1: "num_steps window", AT_LEAST_0: "chunk"})
        if self.chunk and self.num_steps % self.chunk:
            raise ConfigError(
                f"collect.chunk = {self.chunk} must divide collect.num_steps = {self.num_steps}"
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
    """For tasks with suites: the one played during training; empty takes the task's choice.
    `episodes` and `final_episodes` are then ignored; the suite sets the number."""
    final_suites: tuple[str, ...] = ()
    """The suites reported at the end of the run; empty takes the task's choice."""
    rotate: bool = False
    """Play other episodes at every measurement: the suite `<suite>-<iteration>`."""

    def __post_init__(self) -> None:
        ranges = {AT_LEAST_1: "episodes num_envs", AT_LEAST_0: "every_iterations final_episodes"}
        check_ranges(self, "evaluate", ranges)


def _spread(name: str, what: str, unit: str = "") -> tuple[Metric, ...]:
    return (
        Metric(f"{name}_std", f"standard deviation of {what} in the window", unit),
        Metric(f"{name}_min", f"lowest of {what} in the window", unit),
        Metric(f"{name}_max", f"highest of {what} in the window", unit),
        *(
            Metric(f"{name}_p{percent}", f"{percent}th percentile of {what} in the window", unit)
            for percent in (10, 50, 90, 99)
        ),
    )


METRICS = (
    Metric("time/total_timesteps", "steps taken since the run began, over all rows", "steps"),
    Metric("rollout/ep_rew_mean", "mean return of the last `collect.window` finished episodes"),
    *_spread("rollout/ep_rew", "the returns"),
    Metric(
        "rollout/ep_len_mean", "mean length of the last `collect.window` finished episodes", "steps"
    ),
    *_spread("rollout/ep_len", "the lengths", "steps"),
    Metric(
        "rollout/ended/<reason>",
        "share of finished episodes in the window that ended for this reason",
    ),
    Metric("rollout/success_rate", "share of this rollout's ends that reached the env's goal"),
    Metric("rollout/running_len_mean", "mean age of the episodes under way", "steps"),
    Metric("rollout/running_len_p50", "median age of the episodes under way", "steps"),
    Metric("rollout/running_len_max", "greatest age of the episodes under way", "steps"),
    Metric("rollout/action_share/<number>", "share of steps with this action, of at most 16"),
    Metric("rollout/forced_share", "share of steps whose action was not the policy's, if any"),
    Metric("rollout/episodes", "episodes that ended in this rollout"),
    Metric("reward/<term>", "sum of one reward term over the rollout, if the env reports terms"),
    Metric("reward/<term>_share", "the term's part of the terms' absolute sums, from 0 to 1"),
    Metric("starts/used", "episodes ended in this rollout that began from a hard start, if any"),
    Metric("starts/dealt", "episodes begun in this rollout from a hard start, if any"),
    Metric("fault/lost_steps", "steps whose outcome was lost with their env, if any", "steps"),
    Metric("eval/mean_reward", "mean return of the evaluation's episodes"),
    Metric("eval/std_reward", "standard deviation of the evaluation's returns"),
    Metric("eval/min_reward", "lowest return of the evaluation"),
    Metric("eval/max_reward", "highest return of the evaluation"),
    Metric("eval/mean_ep_length", "mean length of the evaluation's episodes", "steps"),
    Metric("eval/episodes", "episodes played in the evaluation"),
    Metric("eval/<figure>", "mean of a figure the env gives at an episode's end, as is_success"),
)
"""Columns of metrics.jsonl: they do not depend on a clock."""

TIMINGS = (
    Metric("time/wall", "when the iteration ended, since 1970", "s"),
    Metric("time/fps", "speed of this iteration, over all rows", "steps/s"),
    Metric("time/session_fps", "mean speed since this process began", "steps/s"),
    Metric("time/session_seconds", "time since this process began", "s"),
    Metric("time/iteration_seconds", "time of this iteration", "s"),
    Metric("time/collect_seconds", "time spent collecting, or waiting for an overlapped one", "s"),
    Metric("time/learn_seconds", "time spent learning", "s"),
    Metric("time/evaluate_seconds", "time spent in an evaluation, if there was one", "s"),
    Metric("time/checkpoint_seconds", "time spent saving after the iteration before", "s"),
    Metric("time/other_seconds", "time spent on everything else", "s"),
    Metric("time/collect_share", "share of the iteration spent collecting"),
    Metric("time/learn_share", "share of the iteration spent learning"),
    Metric("time/other_share", "share of the iteration spent on everything else"),
    Metric("time/eta_seconds", "time left at the speed of this process", "s"),
    Metric("time/env_step_p50_ms", "median time of a step of all environments", "ms"),
    Metric(
        "time/env_step_p90_ms", "90th percentile of the time of a step of all environments", "ms"
    ),
    Metric(
        "time/env_step_p99_ms", "99th percentile of the time of a step of all environments", "ms"
    ),
    Metric("time/env_step_max_ms", "longest step of all environments", "ms"),
    Metric("time/env_step_ms_median", "mean step of the median environment", "ms"),
    Metric("time/env_step_ms_slowest", "mean step of the slowest environment", "ms"),
    Metric("time/env_slowest", "number of the slowest environment"),
    Metric("time/replay_sample_ms", "time spent drawing replay samples, all of the below", "ms"),
    Metric("time/replay_priority_ms", "time spent bringing priorities to a new alpha", "ms"),
    Metric("time/replay_draw_ms", "time spent choosing sequences by their priority", "ms"),
    Metric("time/replay_weight_ms", "time spent on importance weights", "ms"),
    Metric("time/replay_gather_ms", "time spent copying the chosen sequences", "ms"),
)
"""Columns of timings.jsonl: everything that depends on a clock."""

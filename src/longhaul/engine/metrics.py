"""What the loop measures of every run, whatever the task and the learner."""

from __future__ import annotations

from longhaul.core.metrics import Metric

METRICS = (
    Metric("time/total_timesteps", "steps taken since the run began, over all rows", "steps"),
    Metric("rollout/ep_rew_mean", "mean return of the last 100 finished episodes"),
    Metric("rollout/ep_len_mean", "mean length of the last 100 finished episodes", "steps"),
    Metric("rollout/episodes", "episodes that ended in this rollout"),
    Metric("reward/<term>", "sum of one reward term over the rollout, if the env reports terms"),
    Metric("reward/<term>_share", "the term's part of the terms' absolute sums, from 0 to 1"),
    Metric("starts/used", "episodes ended in this rollout that began from a hard start, if any"),
    Metric("starts/dealt", "episodes begun in this rollout from a hard start, if any"),
    Metric("fault/lost_steps", "steps whose outcome was lost with their env, if any", "steps"),
    Metric("eval/mean_reward", "mean return of the evaluation's episodes"),
    Metric("eval/std_reward", "standard deviation of those returns"),
    Metric("eval/min_reward", "lowest of those returns"),
    Metric("eval/max_reward", "highest of those returns"),
    Metric("eval/mean_ep_length", "mean length of the evaluation's episodes", "steps"),
    Metric("eval/episodes", "episodes played in the evaluation"),
    Metric("eval/<figure>", "mean of a figure the env gives at an episode's end, as is_success"),
)
"""Rows of metrics.jsonl: they depend on the run's course alone and on no clock."""

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
    Metric("time/env_step_ms_median", "mean step of the environment in the middle", "ms"),
    Metric("time/env_step_ms_slowest", "mean step of the slowest environment", "ms"),
    Metric("time/env_slowest", "number of that environment"),
    Metric("time/replay_sample_ms", "time spent drawing replay samples, all of the below", "ms"),
    Metric("time/replay_priority_ms", "time spent bringing priorities to a new alpha", "ms"),
    Metric("time/replay_draw_ms", "time spent choosing sequences by their priority", "ms"),
    Metric("time/replay_weight_ms", "time spent on importance weights", "ms"),
    Metric("time/replay_gather_ms", "time spent copying the chosen sequences", "ms"),
)
"""Rows of timings.jsonl: everything that depends on a clock."""

"""The metrics of learners."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from longhaul.core.metrics import Metric

METRICS = (
    Metric(
        "train/approx_kl",
        "mean KL divergence from the policy that acted, in the last epoch",
        "nats",
    ),
    Metric("train/clip_fraction", "share of probability ratios outside PPO's clip range"),
    Metric("train/entropy_loss", "minus the mean entropy of the policy", "nats"),
    Metric("train/epochs_run", "epochs started before `target_kl` stopped them"),
    Metric("train/explained_variance", "share of the targets' variance the values explain"),
    Metric("train/td_error_p50", "median distance of values from their targets"),
    Metric("train/td_error_p90", "90th percentile of the distances of values from their targets"),
    Metric("train/td_error_p99", "99th percentile of the distances of values from their targets"),
    Metric("train/policy_gradient_loss", "the policy's part of the loss"),
    Metric("train/value_loss", "mean squared error of the values"),
    Metric("train/loss", "the weighted sum of all terms"),
    Metric("train/grad_norm", "mean gradient norm before clipping"),
    Metric("train/learning_rate", "learning rate used, reduced after a rollback"),
    Metric("train/clip_range", "PPO's clip range"),
    Metric("train/n_updates", "optimizer steps since the run began"),
    Metric("train/vtrace_rho_mean", "mean clipped importance weight"),
    Metric("train/vtrace_rho_clip_fraction", "share of importance weights above their bound"),
    Metric("train/aux_<loss>", "one of the policy's own losses, weighted by setting loss.<loss>"),
    Metric("policy/<measure>", "a measurement the policy itself makes"),
    Metric("replay/capacity", "transitions that can be kept for replay", "steps"),
    Metric("replay/size", "transitions that are kept", "steps"),
    Metric("replay/fill", "size as a share of the capacity"),
    Metric("replay/pushed_total", "transitions kept since the run began, overwritten ones too"),
    Metric("replay/samples_total", "samples drawn since the run began"),
    Metric("replay/batch_mean", "mean number of steps to learn from in a sample", "steps"),
    Metric("replay/unique_ratio", "distinct sequences in the last sample, as a share of all"),
    Metric("replay/unique_ratio_mean", "mean of that share over all samples"),
    Metric("replay/priority_mean", "mean priority of the kept sequences"),
    Metric("replay/priority_p50", "median of the priorities"),
    Metric("replay/priority_p90", "90th percentile of the priorities"),
    Metric("replay/priority_p99", "99th percentile of the priorities"),
    Metric("replay/policy_loss", "the policy's part of the replay loss, importance-weighted"),
    Metric("replay/value_loss", "the values' part of the replay loss, importance-weighted"),
    Metric("replay/td_error", "mean distance of replayed values from their V-trace targets"),
    Metric("replay/weight_mean", "mean importance weight of the replayed steps, at most 1"),
    Metric("replay/rho_mean", "mean clipped ratio of the present policy to the one that acted"),
    Metric("replay/rho_clip_fraction", "share of importance ratios above `learn.rho_bar`"),
    Metric("fault/skipped_updates", "optimizer steps of this rollout that were not finite"),
    Metric("fault/rollbacks", "1 if the weights were restored to those before this rollout"),
)


class Tally:
    """Collects measurements of one rollout's minibatches and averages them once, at the end.

    Averaging per minibatch would take several small operations per metric and wait for the device.
    """

    def __init__(self) -> None:
        self._measured: dict[str, list[Tensor]] = {}

    def add(self, name: str, measured: Tensor) -> None:
        """Add measurements of a metric: one, or one per step."""
        self._measured.setdefault(name, []).append(measured.reshape(-1))

    def forget(self, name: str) -> None:
        """Drop the measurements of a metric."""
        self._measured.pop(name, None)

    def means(self) -> dict[str, float]:
        """Return the mean of each metric; one that is not finite is absent."""
        if not self._measured:
            return {}
        means = [torch.cat(parts).float().mean() for parts in self._measured.values()]
        named = zip(self._measured, torch.stack(means).tolist(), strict=True)
        return {name: mean for name, mean in named if math.isfinite(mean)}

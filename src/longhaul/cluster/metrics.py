"""What is measured of a cluster; all of it depends on timing."""

from __future__ import annotations

from longhaul.core.metrics import Metric

METRICS = (
    Metric("cluster/collectors", "collectors at work on the cluster"),
    Metric("cluster/fragments", "fragments in this rollout"),
    Metric("cluster/lag_mean", "mean updates between a fragment's weights and the learner's"),
    Metric("cluster/lag_max", "most of those updates"),
    Metric("cluster/deaths", "collectors that died or hung since this process began"),
    Metric("cluster/asked", "transitions of environments asked for since the run began", "steps"),
    Metric("cluster/learned", "those of them that were learned from", "steps"),
    Metric("cluster/dropped", "those dropped for being older than `cluster.max_lag`", "steps"),
    Metric("cluster/lost", "those lost with a collector that died or hung", "steps"),
    Metric("cluster/under_way", "those still waited for", "steps"),
    Metric("cluster/fragment_seconds", "usual time a collector takes for a fragment", "s"),
    Metric("cluster/fragment_megabytes", "size of this rollout's fragments", "MB"),
    Metric("cluster/put_ms", "time spent laying out weights for this rollout", "ms"),
    Metric("cluster/wait_seconds", "time the learner waited for fragments", "s"),
)
"""Rows of timings.jsonl of a run with `cluster.address`."""

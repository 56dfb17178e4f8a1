"""A run's collectors on a Ray cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from longhaul.app.assemble import build_policy, build_rollout_collector, build_task
from longhaul.app.config import RunConfig
from longhaul.app.device import fix_torch
from longhaul.app.plan import memory_plan
from longhaul.cluster.collector import ClusterCollector, Plan
from longhaul.cluster.ray_fleet import RayFleet
from longhaul.cluster.reports import Reports
from longhaul.cluster.shares import EnvShare, SharedSeeds
from longhaul.core.policy import Policy
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.task import Task
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.faults import Listeners

LEAST_STORE_MEGABYTES = 128
ROLLOUTS_STORED = 4
"""Rollouts the object store has room for: under way, arrived, being learned from, and spare."""
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteRecipe:
    """Makes a run's collector of some environments on whatever machine it is called."""

    config: RunConfig

    def __call__(self, share: EnvShare, listeners: Listeners) -> RolloutCollector:
        """Return the collector; its environments have the seeds they have on one machine."""
        config = self.config
        fix_torch(threads=config.threads, deterministic=config.deterministic)
        task = build_task(config)
        policy = build_policy(config, task, torch.device("cpu"))
        seeds = Seeds(config.seed)
        own = SharedSeeds(DerivedSeeds(seeds), share.first)
        collector = build_rollout_collector(
            replace(config, num_envs=share.count), task, policy, own, listeners
        )
        if share.collector:  # the first one draws as a single collector would
            collector.draw_apart(seeds, share.collector)
        return collector


def build_cluster_collector(
    config: RunConfig, task: Task, policy: Policy, listeners: Listeners
) -> ClusterCollector:
    """Return the collector of a run whose environments live on a cluster."""
    spec = task.envs.spec
    # The tier was checked here; other machines need not check it again.
    remote = replace(config, env=replace(config.env, tier=spec.tier.value))
    rollouts = memory_plan(config, task).sizes["rollouts"]
    store = LEAST_STORE_MEGABYTES + ROLLOUTS_STORED * math.ceil(rollouts / MEGABYTE)
    fleet = RayFleet(RemoteRecipe(remote), config.cluster, store_megabytes=store)
    plan = Plan(spec.id, config.num_envs, spec.rows, config.collect.steps, config.collect.overlap)
    return ClusterCollector(fleet, policy, plan, config.cluster, Reports(listeners))

"""Collectors and learners on other machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from longhaul.app.build.components import (
    CollectorMonitor,
    build_policy,
    build_rollout_collector,
    build_task,
)
from longhaul.app.build.config import RunConfig
from longhaul.app.build.memory import MEGABYTE, choose_device, fix_torch, memory_plan
from longhaul.cluster.collector import ClusterCollector, Plan
from longhaul.cluster.config import EnvShare, Rank, SharedSeeds
from longhaul.cluster.fleet import RayFleet
from longhaul.cluster.learner_group import LeadingLearner, ProcessGroup, follow
from longhaul.cluster.messages import Reports
from longhaul.core.errors import ConfigError
from longhaul.core.policy import Policy
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.task import Task
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.faults import Listeners
from longhaul.learn.backend import TORCH
from longhaul.learn.base import Learner
from longhaul.learn.config import find_learner


def lead_group(learner: Learner[Any], config: RunConfig, rank: Rank) -> LeadingLearner:
    """Return the learner that leads the updates of all processes."""
    refuse_replay(config)
    group = ProcessGroup(rank)
    learner.join(group)
    return LeadingLearner(learner, group)


def follow_group(config: RunConfig, rank: Rank) -> None:
    """Apply the leader's updates until it shuts down."""
    refuse_replay(config)
    fix_torch(threads=config.threads, deterministic=config.deterministic)
    device = choose_device(config.device, require_gpu=False)
    policy = build_policy(config, build_task(config), device)
    generator = Seeds(config.seed).generator("learn")
    learner = find_learner(config.learn.algorithm)(policy, config.learn, generator)
    group = ProcessGroup(rank)
    learner.join(group)
    follow(learner, group)


def refuse_replay(config: RunConfig) -> None:
    """Raise if replay is enabled, which several learners do not support."""
    if config.learn.replay.enabled:
        raise ConfigError(
            "learn.replay.enabled = true supports a single learner only; start the run without "
            "torchrun, or disable replay"
        )


LEAST_STORE_MEGABYTES = 128
ROLLOUTS_STORED = 4
"""Rollouts the object store has room for: in transit, arrived, being learned from, and spare."""


@dataclass(frozen=True, slots=True)
class RemoteRecipe:
    """Builds the collector of a share of a run's environments, on any machine."""

    config: RunConfig
    backend: str = TORCH
    """What acts."""

    def __call__(self, share: EnvShare, listeners: Listeners) -> RolloutCollector:
        """Return the collector; its environments have the same seeds as on a single machine."""
        config = self.config
        fix_torch(threads=config.threads, deterministic=config.deterministic)
        task = build_task(config)
        policy = build_policy(config, task, torch.device("cpu"))
        seeds = Seeds(config.seed)
        own = SharedSeeds(DerivedSeeds(seeds), share.first)
        collector = build_rollout_collector(
            replace(config, num_envs=share.count),
            task,
            policy,
            own,
            CollectorMonitor(listeners),
            self.backend,
        )
        if share.collector:  # the first one draws the same numbers as a single collector
            collector.draw_apart(seeds, share.collector)
        return collector


def build_cluster_collector(
    config: RunConfig, task: Task, policy: Policy, monitor: CollectorMonitor, backend: str
) -> ClusterCollector:
    """Return the collector of a run whose environments run on a cluster."""
    spec = task.envs.spec
    # The tier was checked here; other machines need not check it again.
    remote = replace(config, env=replace(config.env, tier=spec.tier.value))
    rollouts = memory_plan(config, task).sizes["rollouts"]
    store = LEAST_STORE_MEGABYTES + ROLLOUTS_STORED * math.ceil(rollouts / MEGABYTE)
    fleet = RayFleet(RemoteRecipe(remote, backend), config.cluster, store_megabytes=store)
    reports = Reports(monitor.listeners, monitor.note, monitor.signal)
    plan = Plan(
        spec.id, config.num_envs, spec.rows, config.collect.num_steps, config.collect.overlap
    )
    return ClusterCollector(fleet, policy, plan, config.cluster, reports)

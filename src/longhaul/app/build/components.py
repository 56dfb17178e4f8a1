"""Builders of a run's parts: task, schedule, policy, collector, learner, evaluator."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import torch

from longhaul.app.build.config import RunConfig
from longhaul.app.build.memory import replay_plan
from longhaul.app.build.paths import build_path_dealer
from longhaul.app.build.sources import Reference, differences, find_kind, from_values, to_values
from longhaul.app.build.text import notify_if_slow
from longhaul.cluster.config import launched_rank
from longhaul.core.config import convert
from longhaul.core.control import RunLength
from longhaul.core.env import VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.parts import Collector, LearnerProtocol
from longhaul.core.policy import Policy
from longhaul.core.seeds import DerivedSeeds, EpisodeSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Tier
from longhaul.core.task import Task
from longhaul.engine.acting import Actor, PolicyActor
from longhaul.engine.async_collector import FirstComeCollector, OverlapCollector
from longhaul.engine.collector import RolloutCollector, RolloutShape
from longhaul.engine.evaluator import EpisodeEvaluator, SuiteEvaluator
from longhaul.engine.stop import Until, at_the_end
from longhaul.engine.summary import StageTimer
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.checks import check_seeds
from longhaul.envs.faults import NO_LISTENERS, Listeners
from longhaul.envs.path_starts import PANEL
from longhaul.envs.processes.first_come import FirstComeVectorEnv
from longhaul.envs.starts import STARTS, StartDealer
from longhaul.learn.backend import NATIVE, TORCH, learner_class
from longhaul.learn.config import learn_settings
from longhaul.learn.replay.buffer import PrioritizedReplay
from longhaul.learn.teacher import Lessons
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.logs.jsonl import WriteNote
from longhaul.runs.monitor.stalls import ProgressSignal
from longhaul.schedule.config import build_controllers
from longhaul.schedule.schedule import Schedule
from longhaul.tasks.kind import RunPlan, TaskRequest

COMPILING = "compiling the environment, once on this machine; it takes half a minute at most"
SETTING_UP = "checking the environment; this takes a while"


def build_task(config: RunConfig) -> Task:
    """Return the task a configuration names."""
    kind = find_kind(config.task)
    options = convert(config.options, kind.options, where="options")
    argument = Reference.parse(config.task).argument
    evaluate = config.evaluate
    plan = RunPlan(
        total_iterations=config.total_iterations,
        total_timesteps=config.total_timesteps if config.length.unit == "steps" else 0,
        total_episodes=config.total_episodes,
        evaluate_every=evaluate.every_iterations,
        suite=evaluate.suite,
        rotate=evaluate.rotate,
        ent_coef=config.learn.ent_coef,
    )
    task = with_tier(
        kind.build(
            TaskRequest(argument, options, config.env, config.policy, config.num_envs, plan)
        ),
        config,
    )
    return replace(task, panels=(*task.panels, PANEL)) if config.env.path.demos else task


def with_tier(task: Task, config: RunConfig) -> Task:
    """Return the task with its environments of the configured tier."""
    if config.env.tier == "auto":
        return task
    tier, spec = Tier(config.env.tier), task.envs.spec
    if tier is Tier.SNAPSHOT and spec.tier is not Tier.SNAPSHOT:
        raise ConfigError(
            f"env.tier = 'snapshot': {spec.id} offers no snapshots (it is tier {spec.tier.value}); "
            "use 'replay', which replays seed and actions, or 'auto'"
        )
    return replace(task, envs=replace(task.envs, spec=replace(spec, tier=tier)))


def run_end(config: RunConfig) -> Until:
    """Return the stop condition for the run's configured length."""
    return at_the_end(config.length)


def planned_work(config: RunConfig, task: Task) -> RunLength:
    """Return the run's length in episodes or steps; iterations count as their most steps."""
    if not config.total_iterations:
        return config.length
    rows = config.num_envs * task.envs.spec.rows
    return RunLength(config.total_iterations * config.collect.num_steps * rows)


def build_settings(config: RunConfig, task: Task) -> Settings:
    """Return all settings of a run with their initial values."""
    return Settings([*learn_settings(config.learn), STARTS, *task.settings])


def build_schedule(config: RunConfig, task: Task, settings: Settings) -> Schedule:
    """Return the task's controllers followed by the configured ones."""
    tables = build_controllers(config.schedule, settings, run=planned_work(config, task))
    return Schedule([*task.controllers, *tables], settings)


def build_policy(config: RunConfig, task: Task, device: torch.device) -> Policy:
    """Return the policy with weights that depend on the run's seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Seeds(config.seed).integer("weights"))
        policy = task.make_policy()
    return policy.to(device)


def build_env(
    config: RunConfig,
    task: Task,
    seeds: EpisodeSeeds,
    count: int,
    listeners: Listeners = NO_LISTENERS,
    *,
    dealer: StartDealer | None = None,
) -> VectorEnv:
    """Return `count` environments of the task; those of training may have a dealer of starts."""
    return make_vector_env(
        task.envs,
        count=count,
        seeds=seeds,
        runtime=config.env.runtime,
        threads=config.env.threads,
        supervision=Supervision.of(config.env, listeners, dealer),
    )


def build_evaluator(
    config: RunConfig, task: Task, policy: Policy, listeners: Listeners = NO_LISTENERS
) -> EpisodeEvaluator | SuiteEvaluator:
    """Return the evaluator of a policy, on the task's own suites if it has any."""
    # Evaluation must not depend on timing, even if training does.
    config = replace(config, env=replace(config.env, order="lockstep"))
    if task.evaluation.suite is None:
        return EpisodeEvaluator(
            lambda seeds, count: build_env(config, task, seeds, count, listeners),
            policy,
            config.evaluate,
        )
    return SuiteEvaluator(
        lambda envs, seeds, count: build_env(
            config, replace(task, envs=envs), seeds, count, listeners
        ),
        policy,
        config.evaluate,
        task.evaluation,
        until=run_end(config),
    )


@dataclass(frozen=True, slots=True)
class CollectorMonitor:
    """Receivers of faults, notes and progress while environments are stepped."""

    listeners: Listeners = NO_LISTENERS
    note: WriteNote = lambda event, **facts: None
    signal: ProgressSignal = field(default_factory=ProgressSignal)


def build_rollout_collector(
    config: RunConfig,
    task: Task,
    acting: Policy,
    seeds: EpisodeSeeds,
    monitor: CollectorMonitor,
    backend: str = TORCH,
) -> RolloutCollector:
    """Return a collector in this process that acts with the policy object itself, not a copy."""
    env = build_env(
        config,
        task,
        seeds,
        config.num_envs,
        monitor.listeners,
        dealer=build_path_dealer(config, task),
    )
    own = Seeds(config.seed)
    shape: RolloutShape = {
        "steps": config.collect.num_steps,
        "chunk": config.collect.chunk,
        "signal": monitor.signal,
        "actor": build_actor(acting, env, own, backend),
    }
    if isinstance(env, FirstComeVectorEnv):
        return FirstComeCollector(env, acting, own, share=config.env.first_come_share, **shape)
    return RolloutCollector(env, acting, own, **shape)


def build_actor(policy: Policy, env: VectorEnv, seeds: Seeds, backend: str) -> Actor:
    """Return what acts for the policy, computed with this backend."""
    if backend != NATIVE:
        return PolicyActor(policy, seeds)
    from longhaul.learn.native.acting import NativeActor

    return NativeActor(policy, env.spec, env.rows, seeds)


def build_collector(
    config: RunConfig, task: Task, policy: Policy, monitor: CollectorMonitor, backend: str = TORCH
) -> Collector:
    """Return the collector: plain, overlapped with learning by a copy of the policy, or remote."""
    if config.cluster.address:
        from longhaul.app.build.distributed import build_cluster_collector

        return build_cluster_collector(config, task, policy, monitor, backend)
    acting = copy.deepcopy(policy) if config.collect.overlap else policy
    seeds = DerivedSeeds(Seeds(config.seed))
    collector = build_rollout_collector(config, task, acting, seeds, monitor, backend)
    return OverlapCollector(collector, policy) if config.collect.overlap else collector


def build_learner(
    config: RunConfig,
    policy: Policy,
    replay: PrioritizedReplay | None,
    backend: str,
    training: ExitStack,
    lessons: Lessons | None = None,
) -> LearnerProtocol:
    """Return the learner, or the leader of the learner group if torchrun started several."""
    generator = Seeds(config.seed).generator("learn")
    learner = learner_class(config.learn, backend)(policy, config.learn, generator, replay)
    learner.lessons = lessons
    rank = launched_rank()
    if rank.size == 1:
        return learner
    from longhaul.app.build.distributed import lead_group

    leading = lead_group(learner, config, rank)
    training.callback(leading.close)
    return leading


def check_task(
    config: RunConfig, task: Task, notify: Callable[[str], None], begun: Tier | None = None
) -> Task:
    """Return the task with its verified tier; warn if the environment declared a better one.

    A run keeps the tier it was begun with, whatever a check would find now.
    """
    spec = task.envs.spec
    if begun in (spec.tier, Tier.NONE):
        return replace(task, envs=replace(task.envs, spec=replace(spec, tier=begun)))
    if not config.env.check_seeds:
        return task
    with notify_if_slow(notify, COMPILING if task.envs.compiles else SETTING_UP):
        check = check_seeds(task.envs)
    if not check.honest:
        notify(check.report())
    return replace(task, envs=check.source)


def build_replay(
    config: RunConfig, task: Task, notify: Callable[[str], None], timer: StageTimer
) -> PrioritizedReplay | None:
    """Return the replay buffer, None if replay is disabled; its limits are reported."""
    if not config.learn.replay.enabled:
        return None
    if notice := replay_plan(config, task).notice:
        notify(notice)
    if not config.learn.replay.saved:
        notify(
            "learn.replay.saved = false: checkpoints leave the replay out. A resumed run starts "
            "with an empty one and is not bit for bit the same"
        )
    return PrioritizedReplay(
        config.learn.replay, Seeds(config.seed).generator("replay"), timer.part
    )


def checkpoint_config(config: RunConfig, task: Task) -> CheckpointConfig:
    """Return the checkpoint config, ranked by the task's score unless the config names a metric."""
    metric = config.checkpoint.best_metric or task.evaluation.metric
    return replace(config.checkpoint, best_metric=metric)


def identity(config: RunConfig) -> dict[str, str]:
    """Return the task and config hash that a checkpoint and the run that loads it must share."""
    # Only values that differ from the defaults: a new key does not invalidate old checkpoints.
    plain = from_values({"task": config.task})
    values = differences(to_values(plain), to_values(config))
    text = json.dumps({key: value for key, (_, value) in values.items()}, sort_keys=True)
    return {"task": config.task, "config": hashlib.sha256(text.encode()).hexdigest()}

"""Putting the parts of a run together; the one place that knows them all."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from longhaul.app.config import RunConfig
from longhaul.app.configure import differences, from_values, to_values
from longhaul.app.faults import FaultLog
from longhaul.app.hints import build_hints
from longhaul.app.patience import telling_if_slow
from longhaul.app.plan import replay_plan
from longhaul.app.registry import Reference, find_kind
from longhaul.cluster.collector import ClusterCollector
from longhaul.cluster.rank import launched_rank
from longhaul.core.config import convert
from longhaul.core.env import VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.hint import Hint
from longhaul.core.parts import Collector, Evaluator, Learner, MetricSink
from longhaul.core.policy import Policy
from longhaul.core.progress import Progress
from longhaul.core.seeds import DerivedSeeds, EpisodeSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Tier
from longhaul.core.task import Task
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.env_times import EnvTimes
from longhaul.engine.evaluator import EpisodeEvaluator
from longhaul.engine.first_come import FirstComeCollector
from longhaul.engine.hinting import Speaker, TimedSpeaker, tell_nobody
from longhaul.engine.loop import Parts
from longhaul.engine.overlap import OverlapCollector
from longhaul.engine.stop import Until, at_the_end
from longhaul.engine.suite_evaluator import SuiteEvaluator
from longhaul.engine.summary import Summary
from longhaul.engine.watch import Watch
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.checks import check_seeds
from longhaul.envs.faults import SILENCE, Listeners
from longhaul.envs.processes.first_come import FirstComeVectorEnv
from longhaul.envs.starts import STARTS
from longhaul.learn.config import LearnConfig
from longhaul.learn.ppo import PPOLearner
from longhaul.learn.replay import NoReplay, PrioritizedReplay, Replay
from longhaul.learn.settings import learn_settings
from longhaul.learn.vtrace import VTraceLearner
from longhaul.runs.checkpoint import CheckpointStore
from longhaul.runs.clocks import Clocks
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import RunLock
from longhaul.runs.machine import installed_versions
from longhaul.runs.manifest import Stamp
from longhaul.runs.recorder import Recorder
from longhaul.runs.stalls import Pulse
from longhaul.runs.workforce import Workforce
from longhaul.schedule.config import build_controllers
from longhaul.schedule.schedule import Schedule
from longhaul.tasks.kind import RunPlan, TaskRequest

NOT_DETERMINISTIC = (
    "env.order = 'first-come': this run is not deterministic; which environments act together "
    "depends on timing, so that a resumed run is statistically the same but not bit for bit"
)

COMPILING = "compiling the environment, once on this machine; it takes half a minute at most"
SETTING_UP = "trying the environment, which takes its time"

LEARNERS: dict[
    str, Callable[[Policy, LearnConfig, np.random.Generator, Replay], PPOLearner | VTraceLearner]
] = {
    "ppo": PPOLearner,
    "vtrace": VTraceLearner,
}


def build_task(config: RunConfig) -> Task:
    """Return the task a configuration names."""
    kind = find_kind(config.task)
    options = convert(config.options, kind.options, where="options")
    argument = Reference.parse(config.task).argument
    evaluate = config.evaluate
    plan = RunPlan(
        total_iterations=config.total_iterations,
        total_timesteps=0 if config.total_iterations else config.total_timesteps,
        evaluate_every=evaluate.every_iterations,
        suite=evaluate.suite,
        rotate=evaluate.rotate,
        entropy_weight=config.learn.entropy_weight,
    )
    return with_tier(
        kind.build(
            TaskRequest(argument, options, config.env, config.policy, config.num_envs, plan)
        ),
        config,
    )


def with_tier(task: Task, config: RunConfig) -> Task:
    """Return the task with its environments of the configured tier."""
    if config.env.tier == "auto":
        return task
    tier, spec = Tier(config.env.tier), task.envs.spec
    if tier is Tier.SNAPSHOT and spec.tier is not Tier.SNAPSHOT:
        raise ConfigError(
            f"env.tier = 'A': {spec.id} offers no snapshots (it is tier {spec.tier.value}); "
            "use 'B', which replays seed and actions, or 'auto'"
        )
    return replace(task, envs=replace(task.envs, spec=replace(spec, tier=tier)))


def run_end(config: RunConfig) -> Until:
    """Return when the run is over."""
    return at_the_end(steps=config.total_timesteps, iterations=config.total_iterations)


def planned_steps(config: RunConfig, task: Task) -> int:
    """Return how many steps the run takes; the most it can take, if it is counted in iterations."""
    if not config.total_iterations:
        return config.total_timesteps
    rows = config.num_envs * task.envs.spec.rows
    return config.total_iterations * config.collect.steps * rows


def build_settings(config: RunConfig, task: Task) -> Settings:
    """Return all settings of a run with their first values."""
    return Settings([*learn_settings(config.learn), STARTS, *task.settings])


def build_schedule(config: RunConfig, task: Task, settings: Settings) -> Schedule:
    """Return the task's controllers followed by the configured ones."""
    tables = build_controllers(config.schedule, settings, run_steps=planned_steps(config, task))
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
    listeners: Listeners = SILENCE,
) -> VectorEnv:
    """Return `count` environments of the task."""
    return make_vector_env(
        task.envs,
        count=count,
        seeds=seeds,
        runtime=config.env.runtime,
        threads=config.env.threads,
        supervision=Supervision.of(config.env, listeners),
    )


def build_evaluator(
    config: RunConfig, task: Task, policy: Policy, listeners: Listeners = SILENCE
) -> EpisodeEvaluator | SuiteEvaluator:
    """Return the evaluator of a policy: on the task's own suites, if it brings any."""
    # What is measured must not depend on timing, whatever is trained on does.
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


def build_rollout_collector(
    config: RunConfig, task: Task, acting: Policy, seeds: EpisodeSeeds, listeners: Listeners
) -> RolloutCollector:
    """Return a collector in this process that acts with this very policy."""
    env = build_env(config, task, seeds, config.num_envs, listeners)
    own, steps, chunk = Seeds(config.seed), config.collect.steps, config.collect.chunk
    if isinstance(env, FirstComeVectorEnv):
        share = config.env.first_come_share
        return FirstComeCollector(env, acting, own, steps=steps, chunk=chunk, share=share)
    return RolloutCollector(env, acting, own, steps=steps, chunk=chunk)


def build_collector(
    config: RunConfig, task: Task, policy: Policy, listeners: Listeners = SILENCE
) -> RolloutCollector | OverlapCollector | ClusterCollector:
    """Return the collector: plain, overlapped with learning by a copy of the policy, or remote."""
    if config.cluster.address:
        from longhaul.app.cluster import build_cluster_collector

        return build_cluster_collector(config, task, policy, listeners)
    acting = copy.deepcopy(policy) if config.collect.overlap else policy
    seeds = DerivedSeeds(Seeds(config.seed))
    collector = build_rollout_collector(config, task, acting, seeds, listeners)
    return OverlapCollector(collector, policy) if config.collect.overlap else collector


def build_learner(config: RunConfig, policy: Policy, replay: Replay) -> Learner:
    """Return the learner; the leader of several, if there are others."""
    generator = Seeds(config.seed).generator("learn")
    learner = LEARNERS[config.learn.algorithm](policy, config.learn, generator, replay)
    rank = launched_rank()
    if rank.size == 1:
        return learner
    from longhaul.app.team import lead

    return lead(learner, config, rank)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A run ready to go."""

    parts: Parts
    settings: Settings
    task: Task
    policy: Policy
    evaluator: Evaluator


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is written, and who watches."""

    directory: RunDirectory
    lock: RunLock
    clocks: Clocks
    sinks: Sequence[MetricSink]
    watch: Watch
    tell: Callable[[str], None]
    prepare: Callable[[Policy], None] = lambda policy: None
    """Gives the policy of a new run its first weights, if they are not random."""
    hint: Callable[[Progress, Hint], None] = tell_nobody
    workforce: Workforce = field(default_factory=lambda: Workforce(Clocks()))
    pulse: Pulse = field(default_factory=Pulse)


def check_task(config: RunConfig, task: Task, tell: Callable[[str], None]) -> Task:
    """Return the task with the tier its environment really keeps; a liar is told of."""
    if not config.env.check_seeds:
        return task
    with telling_if_slow(tell, COMPILING if task.envs.compiles else SETTING_UP):
        check = check_seeds(task.envs)
    if not check.honest:
        tell(check.report())
    return replace(task, envs=check.source)


def build_replay(config: RunConfig, task: Task, place: Place) -> Replay:
    """Return what the learner keeps of earlier rollouts; its limits are told of."""
    if not config.learn.replay.enabled:
        return NoReplay()
    if notice := replay_plan(config, task).notice:
        place.tell(notice)
    if not config.learn.replay.saved:
        place.tell(
            "learn.replay.saved = false: checkpoints leave the replay out, so that a resumed run "
            "fills it anew and is not bit for bit the same"
        )
    return PrioritizedReplay(
        config.learn.replay, Seeds(config.seed).generator("replay"), place.watch
    )


def assemble(config: RunConfig, place: Place, device: torch.device) -> Assembled:
    """Return the parts of a run in its directory."""
    task = check_task(config, build_task(config), place.tell)
    if config.env.order == "first-come":
        place.tell(NOT_DETERMINISTIC)
    settings = build_settings(config, task)
    schedule = build_schedule(config, task, settings)
    policy = build_policy(config, task, device)
    place.prepare(policy)
    summary = Summary(task.summarise, window=config.collect.window)
    replay = build_replay(config, task, place)
    learner = build_learner(config, policy, replay)
    faults = FaultLog(place.directory.crash, place.tell, place.workforce)
    collector = build_collector(config, task, policy, faults.listeners)
    listen_to_steps(collector, place)
    hints = build_hints(config, task, str(device))
    speaker = Speaker(hints, place.hint)
    evaluator = build_evaluator(config, task, policy, faults.listeners)
    stamp = Stamp(
        identity=identity(config),
        versions=installed_versions(),
        facts={
            "tier": task.envs.spec.tier.value,
            "order": config.env.order,
            "device": str(device),
        },
    )
    recorder = Recorder(
        place.directory,
        {
            "collector": collector,
            "learner": learner,
            "schedule": schedule,
            "summary": summary,
            "hints": speaker,
            # A part of its own, because it may be many times the size of all others.
            **({"replay": replay} if config.learn.replay.enabled else {}),
        },
        CheckpointStore(
            place.directory.checkpoints, checkpoint_config(config, task), stamp, place.clocks
        ),
        place.lock,
        clocks=place.clocks,
        sinks=place.sinks,
    )
    recorder.rotate_logs(round(config.log.rotate_megabytes * 2**20))
    faults.open(recorder)
    if isinstance(collector, ClusterCollector):
        collector.reports.note = recorder.note
    recorder.add_sink(TimedSpeaker(hints, place.hint, partial(note_hint, recorder)))
    parts = Parts(collector, learner, summary, evaluator, schedule, recorder, place.watch, speaker)
    return Assembled(parts, settings, task, policy, evaluator)


def listen_to_steps(collector: Collector, place: Place) -> None:
    """Have the steps of a collector's environments counted and timed."""
    if isinstance(collector, ClusterCollector):
        collector.reports.pulse = place.pulse
        place.watch.add_gauge(collector.metrics)
        return
    inner = collector.inner if isinstance(collector, OverlapCollector) else collector
    assert isinstance(inner, RolloutCollector)
    inner.pulse = place.pulse
    place.watch.add_gauge(inner.step_times.take)
    place.watch.add_gauge(EnvTimes(inner.env).metrics)


def note_hint(recorder: Recorder, progress: Progress, hint: Hint) -> None:
    """Write a hint that depends on a clock into the sessions."""
    row = hint.as_row()
    place = {"iteration": progress.iteration, "env_steps": progress.env_steps}
    recorder.note(row.pop("event"), **place, **row)


def checkpoint_config(config: RunConfig, task: Task) -> CheckpointConfig:
    """Return how checkpoints are kept, ranked by the task's score if nothing else is asked for."""
    metric = config.checkpoint.best_metric or task.evaluation.metric
    return replace(config.checkpoint, best_metric=metric)


def identity(config: RunConfig) -> dict[str, str]:
    """Return what a checkpoint and the run that loads it must share."""
    # Only what was chosen: a version with one more key still knows the checkpoints before it.
    plain = from_values({"task": config.task})
    values = differences(to_values(plain), to_values(config))
    text = json.dumps({key: value for key, (_, value) in values.items()}, sort_keys=True)
    return {"task": config.task, "config": hashlib.sha256(text.encode()).hexdigest()}

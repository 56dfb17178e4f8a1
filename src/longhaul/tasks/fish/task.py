"""Building the fish task, its panels and its hints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from longhaul.core.env import BatchedEnvs, Episode
from longhaul.core.errors import ConfigError
from longhaul.core.hint import Rule
from longhaul.core.metrics import Metric, Metrics, Panel
from longhaul.core.task import Evaluation, Task
from longhaul.envs.starts import STARTS_LIMIT
from longhaul.hints.steering import GateStuck, QueueLow
from longhaul.nets.config import build_policy
from longhaul.tasks.fish.evaluation.evaluation import FILMS, SCORE, suites
from longhaul.tasks.fish.evaluation.evaluation import METRICS as EVALUATION_METRICS
from longhaul.tasks.fish.hard_starts.mix import run_mix
from longhaul.tasks.fish.hard_starts.plan import METRICS as TAIL_METRICS
from longhaul.tasks.fish.hard_starts.plan import TailPlan, plan_tail, summarize_tail
from longhaul.tasks.fish.lab.exports import (
    ALIASES,
    FIRST_STEP_DEATHS,
    RECORD_PANELS,
    SuiteBeginnings,
    fish_records,
)
from longhaul.tasks.fish.options import (
    DENSITY_PENALTY,
    ESCAPE_BOOST,
    TAIL_TYPE,
    FishOptions,
    TailOptions,
)
from longhaul.tasks.fish.training.controllers import REHEARSAL, Steering, build_steering
from longhaul.tasks.fish.training.curriculum import ALL_FIRST_DEATHS, LATER_FIRST_DEATHS
from longhaul.tasks.fish.training.gate import METRICS as GATE_METRICS
from longhaul.tasks.fish.training.options import TrainingOptions
from longhaul.tasks.fish.world.broadcast import broadcast_envs
from longhaul.tasks.fish.world.school import FORCED, fish_envs
from longhaul.tasks.fish.world.starts import FishStart
from longhaul.tasks.fish.world.world import RADIUS
from longhaul.tasks.kind import TaskKind, TaskRequest, Tool

GATE = "options.training.gate"
HINTS: tuple[Rule, ...] = (
    GateStuck(
        settings={
            "eval/p10": f"{GATE}.success_p10",
            "eval/early_death_fraction_100": f"{GATE}.success_early_death",
            "eval/step_one_excess": f"{GATE}.success_step_one",
            "eval/step_one_excess_ratio": f"{GATE}.success_step_one_ratio",
            "eval/step_one_death_count": f"{GATE}.success_step_one",
            "eval/step_one_death_ratio": f"{GATE}.success_step_one_ratio",
        }
    ),
    QueueLow(setting="options.tail.stages"),
)


METRICS = (
    Metric("env/survival_rate", "share of fish alive at the end of their episodes"),
    Metric(
        "env/survival_rate_full",
        "share of fish alive at the end of episodes that were not cut short",
    ),
    Metric("env/first_death_step", "mean step of the first death, where there was one"),
    Metric("env/final_num_alive", "mean number of fish alive at the end of their episodes"),
    Metric("env/avg_num_alive", "mean number of fish alive over all steps of their episodes"),
    Metric("env/step_one_deaths", "mean number of fish that died in the first step"),
    Metric("env/step_one_deaths_per_1000", "fish that died in the first step, per thousand"),
    Metric(ALL_FIRST_DEATHS, "10th percentile of the episodes' first deaths"),
    Metric(LATER_FIRST_DEATHS, "10th percentile of the first deaths after the first step"),
    Metric("env/first_death_sample_size", "episodes with a death"),
)


def build(request: TaskRequest) -> Task:
    """Return the task of keeping a school alive."""
    if request.argument:
        raise ConfigError(
            f"task 'fish' takes no argument, not {request.argument!r}; "
            "its world is described by the [options] table"
        )
    options: FishOptions = request.options
    steers, has_tail = options.training != TrainingOptions(), options.tail != TailOptions()
    steering, tail = Steering(), TailPlan()
    if steers:
        steering = build_steering(options, request.plan, tail_type=TAIL_TYPE)
    if has_tail:
        tail = plan_tail(options.tail, options, schools=request.num_envs, gate=steering.gate)
    envs = task_envs(options, tail.library)
    beginnings = SuiteBeginnings(options)
    return Task(
        name="fish",
        envs=envs,
        make_policy=lambda: build_policy(envs.spec, request.policy),
        summarize=summarize_with_tail if has_tail else summarize,
        settings=(*options.settings(), STARTS_LIMIT, TAIL_TYPE, *steering.settings),
        metrics=(*METRICS, *EVALUATION_METRICS, *TAIL_METRICS, *GATE_METRICS),
        aliases=ALIASES,
        # The gate asks for the type of the stage the iteration was dealt from, so it decides before
        # the queue moves on.
        controllers=(*steering.controllers, *tail.controllers),
        evaluation=Evaluation(
            metric=SCORE,
            suite=suites(options),
            during=REHEARSAL,
            final=("v38", "fresh"),
            films=FILMS if options.evaluation.film_fish else "",
        ),
        hints=HINTS,
        panels=PANELS,
        warnings=steering.warnings,
        records=lambda log: fish_records(log, options.tail, beginnings),
    )


def task_envs(options: FishOptions, library: tuple[tuple[str, FishStart], ...] = ()) -> BatchedEnvs:
    """Return the source of schools these options describe; `library` holds their bad starts."""
    if options.acting == "broadcast":
        return broadcast_envs(options, library=library)
    return fish_envs(options, library=library)


def summarize(episodes: Sequence[Episode]) -> Metrics:
    """Return the fish metrics of a rollout; absent where nothing was measured."""
    whole = [episode for episode in episodes if episode.reason not in ("cut", FORCED)]
    return {
        **_mean("survival_rate", episodes),
        **_mean("survival_rate", whole, name="survival_rate_full"),
        **_mean("first_death_step", episodes),
        **_mean("step_one_deaths", episodes),
        **_mean("final_num_alive", episodes),
        **_mean("avg_num_alive", episodes),
        **first_deaths(episodes),
    }


def summarize_with_tail(episodes: Sequence[Episode]) -> Metrics:
    """Return the metrics of a rollout, with what came of each bad start."""
    return {**summarize(episodes), **summarize_tail(episodes)}


def first_deaths(episodes: Sequence[Episode]) -> Metrics:
    """Return the distribution of the first deaths; absent without deaths."""
    if not episodes:
        return {}
    fish = sum(e.metrics["fish"] for e in episodes)
    at_once = sum(e.metrics["step_one_deaths"] for e in episodes)
    found = {"env/step_one_deaths_per_1000": 1000 * at_once / fish}
    for name, key in (
        (ALL_FIRST_DEATHS, "first_death_step"),
        (LATER_FIRST_DEATHS, "first_later_death_step"),
    ):
        steps = [e.metrics[key] for e in episodes if key in e.metrics]
        if steps:
            found[name] = float(np.percentile(steps, 10))
        if key == "first_death_step":
            found["env/first_death_sample_size"] = float(len(steps))
    return found


def _mean(key: str, episodes: Sequence[Episode], name: str = "") -> Metrics:
    """Return the mean of an episode metric, under its own name or another one."""
    values = [episode.metrics[key] for episode in episodes if key in episode.metrics]
    return {f"env/{name or key}": sum(values) / len(values)} if values else {}


TASK = TaskKind(
    name="fish",
    summary="a school of fish that must survive a passing predator",
    options=FishOptions,
    build=build,
    examples=("fish",),
    presets=Path(__file__).parent / "presets",
    # `options.fish` is not among them: it is the room of a school, whatever the curriculum fills.
    setting_keys={
        ESCAPE_BOOST.name: "options.start.escape_boost_speed",
        DENSITY_PENALTY.name: "options.reward.density_penalty",
    },
    controller_keys={
        "curriculum": "options.training.curriculum",
        "penalty-gate": "options.training.gate",
        "penalty-ladder": "options.training.ladder",
        "escape-boost": "options.training.boost",
        "entropy": "options.training.entropy_windows",
        "tail": "options.tail",
    },
    tools=(Tool("mix", "make a file of bad starts from others", run_mix),),
)


DEATH_BINS = tuple(float(edge) for edge in range(0, 526, 25))
"""Bins of 25 steps; the last holds the survivors."""

PANELS = (
    Panel(
        "Survival in training",
        ("env/survival_rate", "env/survival_rate_full"),
        name="survival",
        right=("env/final_num_alive",),
        note="the second only over episodes that were not cut short",
        is_filmed=True,
    ),
    Panel(
        "Training at a glance",
        ("env/survival_rate", "rollout/ep_rew_mean", "rollout/ep_len_mean"),
        kind="overview",
        name="training_overview",
    ),
    Panel(
        "Evaluations",
        (
            "eval/avg_final_survival_rate",
            "eval/min_final_survival_rate",
            "eval/early_death_fraction_100",
            "eval/survival_bound",
        ),
        name="multi_eval_timeline",
        right=("eval/p10",),
        limits=(0.0, 1.05),
    ),
    Panel("First deaths in training", ("env/first_death_step", "env/first_death_p10"),
          name="first_death", dashed=("env/first_death_p10",)),
    Panel("Density penalty and first deaths", ("fish.density_penalty",),
          name="penalty_vs_first_death", right=("env/first_death_step",)),
    Panel("Density penalty and entropy weight", ("fish.density_penalty",),
          name="penalty_vs_entropy", right=("learn.ent_coef",)),
    Panel(
        "Death steps at every evaluation",
        ("dead",),
        kind="histogram",
        name="death_hist",
        records="events.jsonl",
        event="evaluated",
        each="episodes",
        bins=DEATH_BINS,
        label="step of death",
        total="eval/total_fish_samples",
        note="all fish of the evaluation; the last bin holds the survivors",
    ),
    Panel(
        "Death steps in the final evaluation",
        ("facts.death_steps",),
        kind="histogram",
        name="death_histogram",
        records="evaluations/*.json",
        each="episodes",
        bins=DEATH_BINS,
        label="step of death",
        note="all fish; the last bin holds the survivors",
    ),
    Panel(
        "Where fish died in the first step",
        ("fish_position.0", "fish_position.1"),
        kind="map",
        name="step_one_map",
        records=f"evaluations/{FIRST_STEP_DEATHS}",
        bins=(float(RADIUS),),
    ),
    *RECORD_PANELS,
)  # fmt: skip

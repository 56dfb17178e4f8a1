"""Settings and at least one controller of every kind, for tests that run against all of them."""

from __future__ import annotations

from typing import Any

from longhaul.core.control import Controller
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.schedule.adaptive import Adaptive, Nudge
from longhaul.schedule.criterion import Criterion, Limit
from longhaul.schedule.gate import Gate
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.metric_ramp import MetricRamp
from longhaul.schedule.phases import Phase, Phases
from longhaul.schedule.ramp import Ramp
from longhaul.schedule.start_queue import StartQueue, StartStage

RATE = Setting("learn.learning_rate", 3e-4, "Step size", low=0.0, high=1.0)
WEIGHT = Setting("reward.weight", 0.5, "Weight of a term", low=0.0, high=1.0)
STAGE = Setting("gate.stage", 0, "How far the gate has opened", low=0, high=3)
CATEGORY = Setting("starts.category", "", "Category of the present starts")
TEMPERATURE = Setting("policy.temperature", 1.0, "Router temperature", low=0.1, high=1.0)
ROUTER = Setting("policy.router", "softmax", "Router")
FISH = Setting("env.fish", 15, "School size", low=1)
STARTS: Setting[tuple[SettingValue, ...]] = Setting("env.starts", (), "Hard starts")

SCORE = "eval/score"
DEATHS = "eval/deaths"
USED = "starts/used"


def settings() -> Settings:
    return Settings([RATE, WEIGHT, STAGE, CATEGORY, TEMPERATURE, ROUTER, FISH, STARTS])


CONTROLLERS: tuple[Controller[Any], ...] = (
    Ramp("ramp", RATE, start=0.5, end=0.01, shape="cosine", along="env_steps", finish=2000),
    Ramp("warm", RATE, start=0.5, along="run", warm_up=0.3, start_factor=0.1, total=3000),
    Ramp("by_games", RATE, start=0.5, along="run_episodes", finish=0.5, total=300),
    MetricRamp("metric_ramp", RATE, SCORE, low=0.1, high=0.6, start=0.5, end=0.01),
    Nudge("nudge", WEIGHT, SCORE, band=(0.2, 0.4), limits=(0.1, 0.9), rate=0.3, window=3),
    Adaptive(
        "adaptive",
        WEIGHT,
        start=0.4,
        end=0.2,
        metric=SCORE,
        band=(0.2, 0.4),
        limits=(0.25, 2.0),
        along="env_steps",
        finish=2000,
        rate=0.3,
        window=3,
        cooldown=1,
        line_waits=True,
    ),
    Gate(
        "gate",
        STAGE,
        stages=4,
        success=(
            Criterion(SCORE, ">=", 0.3, by_stage=(0.3, 0.5), by_category={"hard": 0.2}),
            Criterion(SCORE, ">=", 0.3, window=3, window_by_category={"hard": 2}),
        ),
        failure=(Criterion(DEATHS, ">", 0.8),),
        patience=2,
        freeze=2,
        success_freeze=1,
        lock_until=3,
        category=CATEGORY,
    ),
    Phases(
        "phases",
        (
            Phase("first", 100, assign=(TEMPERATURE.to(1.0), ROUTER.to("softmax"))),
            Phase("second", 600, assign=(ROUTER.to("sparsemax"),), move=(TEMPERATURE.to(0.5),)),
            Phase("third", 1500, move=(TEMPERATURE.to(0.2),), hold=100, over=300),
        ),
        limit=Limit(STAGE, allowance=(1, 2)),
    ),
    Ladder("ladder", FISH, (15, 20, 25), at=(500, 900), limit=Limit(STAGE, allowance=(1, 2))),
    Ladder("metric_ladder", FISH, (15, 20, 25), when=Criterion(SCORE, ">", 0.3), patience=2),
    StartQueue(
        "queue",
        STARTS,
        USED,
        (
            StartStage(5, ("a", "b"), category="easy"),
            StartStage(7, ((1, 2.5), (3, 4.5), (5, 6.5)), category="hard"),
        ),
        batch=3,
        repeat=True,
        category=CATEGORY,
        warn_ratio=0.5,
        warn_patience=2,
    ),
    StartQueue(
        "timed_queue",
        STARTS,
        USED,
        (StartStage(3, ("a", "b")), StartStage(4, ("c",))),
        batch=2,
        unit="iterations",
    ),
)

"""Measuring how far a policy comes in the whole game: from 1-1 on, without warps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from longhaul.core.env import Episode
from longhaul.core.evaluation import Case, Column, Suite
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import Interval, wilson
from longhaul.tasks.mario.game.games import LAST_STAGE_FACT
from longhaul.tasks.mario.game.stages import ALL_STAGES
from longhaul.tasks.mario.options import MarioOptions
from longhaul.tasks.mario.payments import TermReward
from longhaul.tasks.mario.source import GameSource

WHOLE_GAME, ONE_LIFE = "whole-game", "whole-game-one-life"
"""Suites: with the three lives a game begins with, and with one."""
PATIENCE = 400
"""Decisions without new ground after which a game is cut: after a death some of it is walked again
first."""
PRINCESS = "eval/princess_rate"
METRICS = (
    Metric(PRINCESS, "share of whole games that reach the princess"),
    Metric("eval/mean_stages", "mean number of stages cleared in a whole game"),
    Metric("eval/max_stages", "most stages cleared in any whole game"),
)
COLUMNS = (
    Column("princess", PRINCESS, ".3f"),
    Column("mean stages", "eval/mean_stages", ".2f"),
    Column("max stages", "eval/max_stages", ".0f"),
    Column("length", "eval/mean_ep_length", ".0f"),
)


def has_reached_the_princess(episode: Episode) -> bool:
    """Whether a game was played to its end: only the last axe ends one."""
    return episode.reason == "axe"


def figures(episodes: Sequence[Episode]) -> Metrics:
    """Return every figure of an evaluation."""
    cleared = [episode.metrics["cleared"] for episode in episodes]
    reached = sum(map(has_reached_the_princess, episodes))
    return {
        PRINCESS: reached / len(episodes),
        "eval/mean_stages": math.fsum(cleared) / len(cleared),
        "eval/max_stages": max(cleared),
    }


def record(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return in which stage how many games ended, and by what."""
    ends = Counter((str(episode.facts[LAST_STAGE_FACT]), episode.reason) for episode in episodes)
    ordered = sorted(ends.items())
    return {
        "ends": [
            {"stage": stage, "reason": reason, "games": games} for (stage, reason), games in ordered
        ]
    }


def whole_game_suite(
    name: str,
    options: MarioOptions,
    rom: str,
) -> Suite:
    """Return the suite of a name."""
    first = str(ALL_STAGES[0])
    played = replace(
        options,
        stages=(first,),
        stage_weights=(),
        script="",
        trail=0,
        stagnation_limit=PATIENCE,
        ends_at_death=name == ONE_LIFE,
        ends_at_clear=False,
        ends_at_warp=True,
    )
    seeds = Seeds(0)
    cases = tuple(
        Case(seeds.integer("mario", name, number), ("stage", first))
        for number in range(options.final_episodes)
    )

    def intervals(episodes: Sequence[Episode]) -> Mapping[str, Interval]:
        reached = sum(map(has_reached_the_princess, episodes))
        return {PRINCESS: wilson(reached, len(episodes))}

    return Suite(
        name=name,
        envs=GameSource(played, rom, TermReward(options.reward), follows_settings=False).envs(),
        cases=cases,
        figures=figures,
        score=lambda episode: (
            float(has_reached_the_princess(episode)) + episode.metrics["cleared"] / 100
        ),
        columns=COLUMNS,
        intervals=intervals,
        record=record,
    )

"""Measuring a policy: always from the true start of a stage, with the buttons as sticky as set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Case, Column, Suite
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import NORMAL_95, Interval, wilson
from longhaul.tasks.mario.game.games import STAGE_FACT
from longhaul.tasks.mario.game.reward import CLEAR_REASONS, DEATH_REASONS, REASONS
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.options import MarioOptions
from longhaul.tasks.mario.payments import TermReward
from longhaul.tasks.mario.source import GameSource
from longhaul.tasks.mario.whole_game import METRICS as WHOLE_GAME_METRICS
from longhaul.tasks.mario.whole_game import ONE_LIFE, WHOLE_GAME, whole_game_suite

SCORE = "eval/score"
CLEAR_RATE = "eval/clear_rate"
SOLVED = 0.95
REHEARSAL, FINAL = "rehearsal", "final"
PROGRESS_WEIGHT = 1e-6
"""A pixel's share of the score: it decides between policies that clear equally often."""
DEATH_FINE = 15.0
"""What the package gym-super-mario-bros takes for a death, after its clipping."""
FRAMES_PER_TICK = 24.0
"""Of the game's clock."""
MANY_STAGES = 4

METRICS = (
    Metric(
        SCORE,
        "what ranks checkpoints: the clear rate, and of equals the mean progress, "
        "which is added with a weight of 0.000001 per pixel",
    ),
    Metric(CLEAR_RATE, "share of episodes, from the true start, that clear the stage"),
    Metric("eval/stages_cleared", "stages of which at least half of the episodes clear"),
    Metric("eval/mean_progress", "mean new ground of an episode", "pixels"),
    Metric("eval/max_progress", "most new ground of any episode", "pixels"),
    Metric("eval/max_x", "farthest place an episode ended at", "pixels"),
    Metric(
        "eval/native_return",
        "return by the rule of gym-super-mario-bros, of an episode's whole: pixels gained, less "
        "ticks of the clock, less 15 for a death",
    ),
    Metric("eval/clear_rate/<stage>", "the clear rate on one of several stages"),
    Metric("eval/progress/<stage>", "mean new ground on one of several stages", "pixels"),
    Metric("eval/ended/<reason>", "share of the episodes that ended for this reason"),
    *WHOLE_GAME_METRICS,
)

COLUMNS = (
    Column("clear rate", CLEAR_RATE, ".3f"),
    Column("progress", "eval/mean_progress", ".0f"),
    Column("max progress", "eval/max_progress", ".0f"),
    Column("max x", "eval/max_x", ".0f"),
    Column("native return", "eval/native_return", ".0f"),
    Column("length", "eval/mean_ep_length", ".0f"),
)


def is_cleared(episode: Episode) -> bool:
    """Whether an episode cleared at least its first stage."""
    return episode.reason in CLEAR_REASONS or episode.metrics["cleared"] > 0


def native_return(episode: Episode) -> float:
    """Return what the usual package would have paid for the whole episode, about."""
    metrics = episode.metrics
    died = episode.reason in DEATH_REASONS
    lost = metrics["frames"] / FRAMES_PER_TICK
    return metrics["progress"] - lost - (DEATH_FINE if died else 0.0)


def by_stage(episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    """Return the episodes of each stage, in the order of the game."""
    found: dict[str, list[Episode]] = {}
    for episode in episodes:
        found.setdefault(str(episode.facts[STAGE_FACT]), []).append(episode)
    return dict(sorted(found.items()))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def figures(episodes: Sequence[Episode]) -> Metrics:
    """Return every figure of an evaluation, by the name of its metric."""
    cleared = [float(is_cleared(episode)) for episode in episodes]
    progress = [episode.metrics["progress"] for episode in episodes]
    stages = by_stage(episodes)
    rates = {name: _mean([float(is_cleared(e)) for e in own]) for name, own in stages.items()}
    found = {
        SCORE: _mean(cleared) + PROGRESS_WEIGHT * _mean(progress),
        CLEAR_RATE: _mean(cleared),
        "eval/stages_cleared": float(sum(rate >= 0.5 for rate in rates.values())),
        "eval/mean_progress": _mean(progress),
        "eval/max_progress": max(progress),
        "eval/max_x": max(episode.metrics["x"] for episode in episodes),
        "eval/native_return": _mean([native_return(episode) for episode in episodes]),
    }
    if len(stages) > 1:
        for name, own in stages.items():
            found[f"eval/clear_rate/{name}"] = rates[name]
            found[f"eval/progress/{name}"] = _mean([e.metrics["progress"] for e in own])
    for reason in REASONS:
        count = sum(episode.reason == reason for episode in episodes)
        if count:
            found[f"eval/ended/{reason}"] = count / len(episodes)
    return found


def intervals(episodes: Sequence[Episode]) -> Mapping[str, Interval]:
    """Return 95 % intervals of the clear rates and of the mean progress."""
    progress = [episode.metrics["progress"] for episode in episodes]
    mean, count = _mean(progress), len(progress)
    variance = math.fsum((value - mean) ** 2 for value in progress) / max(count - 1, 1)
    spread = NORMAL_95 * math.sqrt(variance / count)
    found = {
        CLEAR_RATE: wilson(sum(map(is_cleared, episodes)), count),
        "eval/mean_progress": (mean - spread, mean + spread),
    }
    stages = by_stage(episodes)
    if len(stages) > 1:
        for name, own in stages.items():
            found[f"eval/clear_rate/{name}"] = wilson(sum(map(is_cleared, own)), len(own))
    return found


def record(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return each stage's row: how often cleared, how far, and what ended the others where."""
    rows = []
    for name, own in by_stage(episodes).items():
        cleared = sum(map(is_cleared, own))
        low, high = wilson(cleared, len(own))
        rows.append(
            {
                "stage": name,
                "episodes": len(own),
                "cleared": cleared,
                "clear_rate": cleared / len(own),
                "interval": [low, high],
                "mean_progress": _mean([e.metrics["progress"] for e in own]),
                "max_progress": max(e.metrics["progress"] for e in own),
                "max_x": max(e.metrics["x"] for e in own),
                "end_x": [e.facts["x"] for e in own],
                "ends": [
                    {"reason": e.reason, "x": e.facts["x"], "y": e.facts["y"]}
                    for e in own
                    if not is_cleared(e)
                ],
            }
        )
    return {"stages": rows}


@dataclass(frozen=True, slots=True)
class MarioEvaluation:
    """The suites of a run: its stages, from their true starts."""

    options: MarioOptions
    rom: str

    def find(self, name: str) -> Suite:
        """Return the suite of a name: `rehearsal`, `final`, a stage or the whole game.

        Rehearsal and final rotate with a number: other seeds for each.
        """
        if name in (WHOLE_GAME, ONE_LIFE):
            return whole_game_suite(name, self.options, self.rom)
        stem, _, number = name.partition("-")
        chosen = self.options.lottery().stages
        if stem == REHEARSAL and (not number or number.isdecimal()):
            each = max(-(-self.options.rehearsal_episodes // len(chosen)), 2)
            return self._suite(name, chosen, each, number)
        if stem == FINAL and (not number or number.isdecimal()):
            few = self.options.final_episodes
            each = few if len(chosen) <= MANY_STAGES else max(few // 10, 1)
            return self._suite(name, chosen, each, number)
        try:
            stage = Stage.parse(name)
        except ConfigError as error:
            raise ConfigError(
                f"there is no suite {name!r} (suites: {REHEARSAL}, {FINAL}, each also with a "
                "number, as in final-7, a stage, as in 1-2, {WHOLE_GAME} or {ONE_LIFE})"
            ) from error
        return self._suite(name, (stage,), self.options.final_episodes, "")

    def _suite(self, name: str, stages: Sequence[Stage], each: int, number: str) -> Suite:
        seeds = Seeds(int(number or 0))
        stem = name.partition("-")[0] if number else name
        cases = tuple(
            Case(seeds.integer("mario", stem, str(stage), case), ("stage", str(stage)))
            for case in range(each)
            for stage in stages
        )
        played = replace(self.options, script="", trail=0)
        return Suite(
            name=name,
            envs=GameSource(
                played, self.rom, TermReward(self.options.reward), follows_settings=False
            ).envs(),
            cases=cases,
            figures=figures,
            score=lambda episode: (
                float(is_cleared(episode)) + PROGRESS_WEIGHT * episode.metrics["progress"]
            ),
            columns=COLUMNS,
            intervals=intervals,
            record=record,
        )


def suites(options: MarioOptions, rom: str) -> Callable[[str], Suite]:
    """Return how to get a suite by its name, played with this copy of the game."""
    return MarioEvaluation(options, rom).find

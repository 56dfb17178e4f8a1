"""Measuring a player: the true score of held-out games, all under one cap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.evaluation import Case, Column, Suite
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import Interval, interval, resample
from longhaul.tasks.nethack.options import NetHackOptions
from longhaul.tasks.nethack.players import play_references
from longhaul.tasks.nethack.source import game_envs

SCORE = "eval/score"
REHEARSAL, HELD_OUT, UNCAPPED = "rehearsal", "held-out", "uncapped"
UNCAPPED_STEPS = 20_000
"""Enough for nearly every game to end by itself."""
REHEARSAL_EPISODES = 32
RESAMPLES = 2000
REASONS = ("death", "cap", "abort", "escaped", "ascended")
STEP_CAP = "step_cap"

METRICS = (
    Metric(SCORE, "mean in-game score of the last moment the hero was alive", "points"),
    Metric("eval/score_median", "median in-game score of the evaluated games", "points"),
    Metric("eval/score_max", "best in-game score of the evaluated games", "points"),
    Metric("eval/deepest_level", "mean of the deepest level reached"),
    Metric("eval/deepest_level_max", "deepest level of any game"),
    Metric("eval/turns", "mean of the game's turns", "turns"),
    Metric("eval/step_cap", "steps after which games are cut"),
    Metric("eval/ended/<reason>", "share of the games that ended by death, cap or otherwise"),
)

COLUMNS = (
    Column("score", SCORE, ".1f"),
    Column("median", "eval/score_median", ".1f"),
    Column("max", "eval/score_max", ".0f"),
    Column("deepest", "eval/deepest_level", ".2f"),
    Column("turns", "eval/turns", ".0f"),
    Column("deaths", "eval/ended/death", ".2f"),
    Column("cap", "eval/step_cap", ".0f"),
)


def true_score(episode: Episode) -> float:
    """Return the in-game score of the last moment the hero was alive."""
    return episode.metrics["score"]


def one_cap(episodes: Sequence[Episode]) -> int:
    """Return the cap all episodes were played under; those of different caps are refused."""
    caps = sorted({int(episode.metrics[STEP_CAP]) for episode in episodes})
    if len(caps) != 1:
        listed = ", ".join(map(str, caps)) or "none"
        raise ConfigError(
            f"games played under different caps are not compared: options.max_steps was {listed}; "
            "play all of them under one"
        )
    return caps[0]


def evaluation_metrics(episodes: Sequence[Episode]) -> Metrics:
    """Return every figure of an evaluation, by the name of its metric."""
    cap = one_cap(episodes)
    scores = np.array([true_score(episode) for episode in episodes])
    levels = np.array([episode.metrics["deepest_level"] for episode in episodes])
    found = {
        SCORE: float(scores.mean()),
        "eval/score_median": float(np.median(scores)),
        "eval/score_max": float(scores.max()),
        "eval/deepest_level": float(levels.mean()),
        "eval/deepest_level_max": float(levels.max()),
        "eval/turns": float(np.mean([episode.metrics["turns"] for episode in episodes])),
        "eval/step_cap": float(cap),
    }
    return found | ended(episodes, "eval")


def ended(episodes: Sequence[Episode], group: str) -> dict[str, float]:
    """Return the share of each reason a game can end for, 0 for one that did not occur."""
    return {
        f"{group}/ended/{reason}": sum(e.reason == reason for e in episodes) / len(episodes)
        for reason in REASONS
    }


def intervals(episodes: Sequence[Episode]) -> Mapping[str, Interval]:
    """Return 95 % intervals of mean and median score, by drawing episodes again and again."""
    scores = np.array([true_score(episode) for episode in episodes])
    generator = Seeds(0).generator("nethack", "bootstrap")
    drawn = scores[resample(generator, len(scores), RESAMPLES)]
    return {
        SCORE: interval(drawn.mean(axis=1)),
        "eval/score_median": interval(np.median(drawn, axis=1)),
    }


def record(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what a run's events should keep of an evaluation: the cap and every game."""
    return {
        STEP_CAP: one_cap(episodes),
        "games": [
            {
                "seed": episode.seed,
                "score": true_score(episode),
                "deepest_level": int(episode.metrics["deepest_level"]),
                "turns": int(episode.metrics["turns"]),
                "steps": episode.length,
                "reason": episode.reason,
            }
            for episode in episodes
        ],
    }


@dataclass(frozen=True, slots=True)
class NetHackEvaluation:
    """The suites of a run: games whose seeds training never deals.

    `uncapped` plays the games of `held-out` for 20,000 steps.
    """

    options: NetHackOptions

    def find(self, name: str) -> Suite:
        """Return the suite of a name, with a number or without.

        With a number they rotate: other games for each.
        """
        for stem, count in self._sizes().items():
            rest = name.removeprefix(stem)
            if name.startswith(stem) and (not rest or (rest[1:].isdecimal() and rest[0] == "-")):
                return self._suite(name, stem, int(rest[1:] or 0), count)
        raise ConfigError(
            f"there is no suite {name!r}{suggestion(name, self._sizes())} (suites: "
            f"{', '.join(self._sizes())}, each also with a number, as in {HELD_OUT}-7)"
        )

    def _sizes(self) -> dict[str, int]:
        held_out = self.options.eval_episodes
        return {REHEARSAL: REHEARSAL_EPISODES, HELD_OUT: held_out, UNCAPPED: held_out}

    def _suite(self, name: str, stem: str, number: int, count: int) -> Suite:
        seeds, options = Seeds(number), self.options.game()
        if stem == UNCAPPED:
            stem, options = HELD_OUT, replace(options, max_steps=UNCAPPED_STEPS)
        cases = tuple(Case(seeds.integer("nethack", stem, case)) for case in range(count))
        more = "" if options.actions == "score" else f", actions {options.actions}"
        return Suite(
            name=name,
            envs=game_envs(options, follows_settings=False),
            cases=cases,
            figures=evaluation_metrics,
            score=true_score,
            conditions=f"cap {options.max_steps}{more}",
            columns=COLUMNS,
            intervals=intervals,
            references=lambda: play_references(options, cases),
            record=record,
        )


def suites(options: NetHackOptions) -> Callable[[str], Suite]:
    """Return how to get a suite by its name."""
    return NetHackEvaluation(options).find

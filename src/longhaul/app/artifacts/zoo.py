"""Playing the policies of the zoo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longhaul.app.artifacts.films import FilmedEpisode, FilmRequest, film_case
from longhaul.app.build.memory import fix_torch, machine_kind
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.evaluate import (
    EvaluationRequest,
    choose,
    evaluate_agent,
    seeded_cases,
    suite_cases,
)
from longhaul.app.evaluation.load import load
from longhaul.app.evaluation.suites import SuiteReport, SuiteRequest
from longhaul.app.evaluation.zoo import ZooCard, read_zoo_card
from longhaul.core.env import Episode
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import Interval, interval, resample

RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class ZooResult:
    """A policy's score here, beside the card's."""

    card: ZooCard
    score: float
    interval: Interval
    episodes: int

    @property
    def verdict(self) -> str:
        """How the score compares with the card's."""
        if self.score == self.card.score:
            return "the same"
        is_within = self.card.low <= self.score <= self.card.high
        where = "within" if is_within else "outside"
        same_kind = machine_kind() == self.card.machine
        machine = "" if same_kind else f" (the card was measured on {self.card.machine})"
        return f"{where} the card's interval{machine}"

    def as_json(self) -> str:
        """Return both scores for programs."""
        low, high = self.interval
        here = {"score": self.score, "low": low, "high": high, "episodes": self.episodes}
        return json.dumps({"card": self.card.as_values(), "here": here, "verdict": self.verdict})

    def as_text(self) -> str:
        """Return both scores."""
        low, high = self.interval
        return "\n".join(
            [
                f"{self.card.place}, {self.card.metric}, episodes: {self.card.episodes_text}",
                f"card  {self.card.score_text}",
                f"here  {self.score:.4g} ({low:.4g} to {high:.4g}): {self.verdict}",
            ]
        )


def evaluate_policy(name: str) -> ZooResult:
    """Play the episodes that a policy's card is about."""
    card = read_zoo_card(name)
    score, interval, episodes = measured(zoo_agent(card), card.episodes, card.suite)
    return ZooResult(card, score, interval, len(episodes))


def zoo_agent(card: ZooCard) -> Agent:
    """Return a policy of the zoo, with torch set up as for its card."""
    agent = load(card.place)
    fix_torch(threads=agent.config.threads, deterministic=agent.config.deterministic)
    return agent


def measured(
    agent: Agent, episodes: int, suite: str
) -> tuple[float, Interval, tuple[Episode, ...]]:
    """Return an agent's score, its interval and the episodes, of a suite or of listed seeds."""
    asked = SuiteRequest((suite,) if suite else (), references=False)
    result = evaluate_agent(agent, EvaluationRequest(episodes=episodes, suites=asked))
    if isinstance(result, SuiteReport):
        played, name = result.results[0].episodes, result.score
        found = result.results[0].intervals.get(name) or drawn_interval(agent, suite, name, played)
        return result.mean, found, played
    assert result.interval is not None, "there are several episodes"
    return result.mean, result.interval, result.episodes


def drawn_interval(agent: Agent, suite: str, metric: str, episodes: Sequence[Episode]) -> Interval:
    """Return the 95 % interval of a suite's figure, by drawing its episodes again and again."""
    find = agent.task.evaluation.suite
    assert find is not None, "the episodes are of a suite"
    figures = find(suite).figures
    draws = resample(Seeds(0).generator("zoo"), len(episodes), RESAMPLES)
    found = [figures([episodes[number] for number in draw])[metric] for draw in draws]
    return interval(np.array(found))


def watch_policy(name: str, request: FilmRequest) -> tuple[FilmedEpisode, ...]:
    """Film episodes of a policy's evaluation, in the present folder unless `request` names one."""
    card = read_zoo_card(name)
    agent = zoo_agent(card)
    suite = card.suite
    episodes = measured(agent, card.episodes, suite)[2]
    cases = suite_cases(agent, suite, episodes) if suite else seeded_cases(agent, episodes)
    path = request.out or Path(f"{name}-{request.episode}.{'gif' if request.gif else 'mp4'}")
    return tuple(
        film_case(agent, case, request.numbered(path, rank), {})
        for rank, case in enumerate(choose(cases, request.episode, request.count), start=1)
    )

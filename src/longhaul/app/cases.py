"""The episodes of an evaluation: which there are, how they went, how to play one again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.evaluate import EvaluationRequest, evaluate_run
from longhaul.app.suite_evaluation import SuiteRequest
from longhaul.app.suite_report import TRAINED
from longhaul.app.trained import Trained
from longhaul.core.env import EnvSource, Episode
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import ListedSeeds, Seeds
from longhaul.engine.replay import Scenario
from longhaul.engine.suite_evaluator import waves
from longhaul.runs.directory import RunDirectory

CHOICES = ("worst", "median", "best")


@dataclass(frozen=True, slots=True)
class PlayedCase:
    """One episode of an evaluation."""

    number: int
    episode: Episode
    score: float
    scenario: Scenario
    envs: EnvSource


def played_cases(
    run: RunDirectory, trained: Trained, *, suite: str = "", references: bool = True
) -> tuple[PlayedCase, ...]:
    """Return the episodes of the checkpoint's evaluation, which is made if there is none.

    It is that on `suite`, if one is named. With `references`, policies that learned nothing then
    play them as well.
    """
    kept = find_evaluation(run, trained, suite)
    if kept is None:
        count = trained.config.evaluate.final_episodes or trained.config.evaluate.episodes
        asked = SuiteRequest((suite,) if suite else (), references=references and not suite)
        request = EvaluationRequest(trained.checkpoint, episodes=count, suites=asked)
        kept = json.loads(evaluate_run(run.path, request).as_json())
    if "suites" in kept:
        chosen = next(one for one in kept["suites"] if suite in ("", one["suite"]))
        return suite_cases(trained, chosen["suite"], read_episodes(chosen))
    return seeded_cases(trained, read_episodes(kept))


def reference_scores(run: RunDirectory, trained: Trained) -> dict[str, tuple[float, ...]]:
    """Return what policies that learned nothing scored in the checkpoint's evaluation, if any."""
    kept = find_evaluation(run, trained)
    if kept is None or "suites" not in kept:
        return {}
    played = kept["suites"][0].get("scores", ())
    return {one["player"]: tuple(one["scores"]) for one in played if one["player"] != TRAINED}


def read_episodes(kept: dict[str, Any]) -> tuple[Episode, ...]:
    """Return the episodes a file of an evaluation lists."""
    return msgspec.convert(kept["episodes"], tuple[Episode, ...])


def find_evaluation(run: RunDirectory, trained: Trained, suite: str = "") -> dict[str, Any] | None:
    """Return the largest kept evaluation that was made the way the run's config says.

    With a name of a `suite`, it is one that played it.
    """
    evaluate = trained.config.evaluate
    found = []
    for path in sorted(run.evaluations.glob(f"{trained.checkpoint}-*.json")):
        kept = _read_evaluation(path)
        if kept is None or kept.get("greedy") != evaluate.greedy:
            continue
        if suite and suite not in [one["suite"] for one in kept.get("suites", ())]:
            continue
        if "suites" in kept or kept.get("seed") == evaluate.seed:
            found.append(kept)
    return max(found, key=_episode_count, default=None)


def _episode_count(kept: dict[str, Any]) -> int:
    parts = kept.get("suites", [kept])
    return sum(len(part["episodes"]) for part in parts)


def _read_evaluation(path: Path) -> dict[str, Any] | None:
    """Return what a file holds, or None if it is no evaluation or damaged."""
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and (kept.get("episodes") or kept.get("suites")) else None


def suite_cases(trained: Trained, name: str, episodes: Sequence[Episode]) -> tuple[PlayedCase, ...]:
    """Return the cases of a suite that were played to their end."""
    evaluate, find = trained.config.evaluate, trained.task.evaluation.suite
    if find is None:
        raise ConfigError(f"task {trained.task.name!r} has no suite {name!r}")
    suite = find(name)
    left = list(episodes)
    cases = []
    for wave in waves(suite, evaluate.num_envs):
        seeds = wave.draws(evaluate.seed)
        for turn, case in enumerate(wave.cases):
            # Episodes are in the order of the cases; one whose environment failed is missing.
            if not left or left[0].seed != case.seed:
                continue
            scenario = Scenario(
                seed=case.seed,
                start=case.start,
                company=wave.envs,
                place=turn % wave.envs,
                draws=None if evaluate.greedy else seeds.integer("actions", turn),
            )
            episode = left.pop(0)
            score = suite.score(episode)
            cases.append(PlayedCase(wave.first + turn, episode, score, scenario, suite.envs))
    return tuple(cases)


def seeded_cases(trained: Trained, episodes: Sequence[Episode]) -> tuple[PlayedCase, ...]:
    """Return the cases of an evaluation on listed seeds, which were dealt to envs in turn."""
    evaluate = trained.config.evaluate
    company = max(episode.env for episode in episodes) + 1
    dealt = ListedSeeds((), company)
    seeds = Seeds(evaluate.seed)
    figure = trained.task.evaluation.metric.removeprefix("eval/")
    cases = []
    for episode in episodes:
        number = dealt.case(episode.env, episode.number)
        scenario = Scenario(
            seed=episode.seed,
            company=company,
            place=episode.env,
            draws=None if evaluate.greedy else seeds.integer("actions", number),
        )
        score = episode.metrics.get(figure, episode.episode_return)
        cases.append(PlayedCase(number, episode, score, scenario, trained.task.envs))
    return tuple(cases)


def choose(cases: Sequence[PlayedCase], which: str, count: int) -> tuple[PlayedCase, ...]:
    """Return `count` cases from the bottom, the middle or the top, or the one of a number."""
    if count < 1:
        raise ConfigError(f"--count must be at least 1, not {count}")
    if which.isdecimal():
        found = [case for case in cases if int(which) <= case.number < int(which) + count]
        if not found:
            raise ConfigError(
                f"the evaluation has no episode {which}; it has {len(cases)}, counted from 0"
            )
        return tuple(found)
    if which not in CHOICES:
        raise ConfigError(f"--episode takes {', '.join(CHOICES)} or a number, not {which!r}")
    # Ties are broken by the return and then by the number: the same call, the same films.
    ranked = sorted(cases, key=lambda case: (case.score, case.episode.episode_return, case.number))
    if which == "best":
        return tuple(reversed(ranked[-count:]))
    begin = 0 if which == "worst" else max((len(ranked) - count) // 2, 0)
    return tuple(ranked[begin : begin + count])

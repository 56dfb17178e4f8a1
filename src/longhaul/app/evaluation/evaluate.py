"""Evaluating a run's checkpoint, and finding the episodes of earlier evaluations."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.build.components import build_evaluator
from longhaul.app.build.env_output import env_output, with_env_output
from longhaul.app.build.text import columns
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.episode_player import Scenario
from longhaul.app.evaluation.load import Run
from longhaul.app.evaluation.suites import TRAINED, SuiteReport, SuiteRequest, measure_suites
from longhaul.core.env import EnvSource, Episode
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.seeds import ListedSeeds, Seeds
from longhaul.core.statistics import Interval
from longhaul.engine.evaluator import EpisodeEvaluator, OnProgress, figures, ignore_progress, waves
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to evaluate and how."""

    checkpoint: str = "latest"
    episodes: int = 50
    seed: int | None = None
    greedy: bool | None = None
    suites: SuiteRequest = field(default_factory=SuiteRequest)
    """For tasks with evaluation suites."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of an evaluation."""

    task: str
    checkpoint: str
    seed: int
    greedy: bool
    metrics: Metrics
    solved: float | None
    episodes: tuple[Episode, ...]
    passed_over: tuple[str, ...] = ()
    """Newer checkpoints that are damaged, and how."""

    @property
    def mean(self) -> float:
        """The mean return."""
        return self.metrics["eval/mean_reward"]

    @property
    def interval(self) -> Interval | None:
        """The mean's 95 % interval, by the normal approximation; None for one episode."""
        if len(self.episodes) < 2:
            return None
        half = 1.96 * self.metrics["eval/std_reward"] / math.sqrt(len(self.episodes))
        return self.mean - half, self.mean + half

    def as_json(self) -> str:
        """Return everything, for programs."""
        return json.dumps(asdict(self), allow_nan=False)

    def as_text(self) -> str:
        """Return a short table."""
        rows = [
            ("checkpoint", self.checkpoint),
            ("episodes", f"{len(self.episodes)}, {'greedy' if self.greedy else 'sampled'}"),
            ("mean return", self._mean_in_words()),
            ("lowest", f"{self.metrics['eval/min_reward']:.2f}"),
            ("highest", f"{self.metrics['eval/max_reward']:.2f}"),
            ("mean length", f"{self.metrics['eval/mean_ep_length']:.1f}"),
        ]
        if self.solved is not None:
            verdict = "reached" if self.mean >= self.solved else "not reached"
            rows.append(("solved at", f"{self.solved:g}: {verdict}"))
        return "\n".join([*self.passed_over, columns(rows)])

    def _mean_in_words(self) -> str:
        if self.interval is None:
            return f"{self.mean:.2f}"
        low, high = self.interval
        return f"{self.mean:.2f}, 95 % confidence interval {low:.2f} to {high:.2f}"


@with_env_output("evaluate")
def evaluate_run(
    run: Run, request: EvaluationRequest, on_progress: OnProgress = ignore_progress
) -> Evaluated | SuiteReport:
    """Evaluate one checkpoint of a run, and write the result to its directory."""
    _check_count(request)
    result = _evaluated(run.agent(request.checkpoint), request, on_progress, run)
    if isinstance(result, SuiteReport):
        _keep(run.directory, _suite_file(result), result.as_json())
    else:
        write_evaluation(run.directory, result)
    return result


def evaluate_agent(agent: Agent, request: EvaluationRequest) -> Evaluated | SuiteReport:
    """Evaluate an agent, whatever its settings are now; nothing is written."""
    _check_count(request)
    with env_output():
        return _evaluated(replace(agent), request, ignore_progress)


def _check_count(request: EvaluationRequest) -> None:
    if request.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, not {request.episodes}")


def _evaluated(
    agent: Agent, request: EvaluationRequest, on_progress: OnProgress, run: Run | None = None
) -> Evaluated | SuiteReport:
    evaluate, task = agent.config.evaluate, agent.task
    if request.seed is not None:
        evaluate = replace(evaluate, seed=request.seed)
    if request.greedy is not None:
        evaluate = replace(evaluate, greedy=request.greedy)
    agent.config = replace(agent.config, evaluate=evaluate)
    if task.evaluation.suite is not None:
        return measure_suites(run, agent, request.suites, on_progress)
    if request.suites.suites or request.suites.against:
        raise ConfigError(
            f"--suite and --against need evaluation suites; task {task.name!r} has none"
        )
    return _measure_seeds(agent, request.episodes, on_progress)


def _measure_seeds(agent: Agent, episodes: int, on_progress: OnProgress) -> Evaluated:
    """Play episodes of listed seeds in the task's training environments."""
    evaluator = build_evaluator(agent.config, agent.task, agent.policy)
    assert isinstance(evaluator, EpisodeEvaluator), "the task has no suites"
    played = evaluator.episodes(agent.settings, count=episodes, on_progress=on_progress)
    return Evaluated(
        task=agent.task.name,
        checkpoint=agent.checkpoint,
        seed=agent.config.evaluate.seed,
        greedy=agent.config.evaluate.greedy,
        metrics=figures(played),
        solved=agent.task.evaluation.solved,
        episodes=played,
        passed_over=agent.passed_over,
    )


def write_evaluation(run: RunDirectory, result: Evaluated) -> None:
    """Write the result to the run's directory; the same evaluation overwrites its file."""
    kind = "greedy" if result.greedy else "sampled"
    name = f"{result.checkpoint}-{len(result.episodes)}-{kind}-seed{result.seed}.json"
    _keep(run, name, result.as_json())


def _suite_file(report: SuiteReport) -> str:
    kind = "greedy" if report.greedy else "sampled"
    names = "-".join(result.suite for result in report.results)
    return f"{report.checkpoint}-{names}-{kind}.json"


def _keep(run: RunDirectory, name: str, text: str) -> None:
    with storage_errors(run.evaluations):
        run.evaluations.mkdir(exist_ok=True)
        replace_file(run.evaluations / name, text.encode() + b"\n")


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
    run: Run, agent: Agent, *, suite: str = "", references: bool = True
) -> tuple[PlayedCase, ...]:
    """Return the episodes of the checkpoint's evaluation, which is run if there is none.

    If `suite` is given, it is the evaluation on that suite. With `references`, a new evaluation
    also plays the reference policies.
    """
    find = agent.task.evaluation.suite
    if suite and find is not None:
        suite = find(suite).name  # a task may know it by a longer one
    kept = find_evaluation(run, agent, suite)
    if kept is None:
        count = agent.config.evaluate.final_episodes or agent.config.evaluate.episodes
        asked = SuiteRequest((suite,) if suite else (), references=references and not suite)
        request = EvaluationRequest(agent.checkpoint, episodes=count, suites=asked)
        kept = json.loads(evaluate_run(run, request).as_json())
    if "suites" in kept:
        chosen = next(one for one in kept["suites"] if suite in ("", one["suite"]))
        return suite_cases(agent, chosen["suite"], read_episodes(chosen))
    return seeded_cases(agent, read_episodes(kept))


def reference_scores(run: Run, agent: Agent) -> dict[str, tuple[float, ...]]:
    """Return the scores of reference policies in the checkpoint's evaluation, if any."""
    kept = find_evaluation(run, agent)
    if kept is None or "suites" not in kept:
        return {}
    played = kept["suites"][0].get("scores", ())
    return {one["player"]: tuple(one["scores"]) for one in played if one["player"] != TRAINED}


def read_episodes(kept: dict[str, Any]) -> tuple[Episode, ...]:
    """Return the episodes of an evaluation file."""
    return msgspec.convert(kept["episodes"], tuple[Episode, ...])


def find_evaluation(run: Run, agent: Agent, suite: str = "") -> dict[str, Any] | None:
    """Return the largest stored evaluation that matches the run's config, and `suite` if given."""
    evaluate = agent.config.evaluate
    found = []
    for path in sorted(run.directory.evaluations.glob(f"{agent.checkpoint}-*.json")):
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
    """Return the content of a file, or None if it is not an evaluation or damaged."""
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) and (kept.get("episodes") or kept.get("suites")) else None


def suite_cases(agent: Agent, name: str, episodes: Sequence[Episode]) -> tuple[PlayedCase, ...]:
    """Return the completed cases of a suite."""
    evaluate, find = agent.config.evaluate, agent.task.evaluation.suite
    if find is None:
        raise ConfigError(f"task {agent.task.name!r} has no suite {name!r}")
    suite = find(name)
    left = list(episodes)
    cases = []
    for wave in waves(suite, evaluate.num_envs):
        seeds = wave.draws(evaluate.seed)
        for turn, case in enumerate(wave.cases):
            # Episodes have the order of the cases; failed ones are missing.
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


def seeded_cases(agent: Agent, episodes: Sequence[Episode]) -> tuple[PlayedCase, ...]:
    """Return the cases of an evaluation on listed seeds, which the envs take in turn."""
    evaluate = agent.config.evaluate
    company = max(episode.env for episode in episodes) + 1
    dealt = ListedSeeds((), company)
    seeds = Seeds(evaluate.seed)
    figure = agent.task.evaluation.metric.removeprefix("eval/")
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
        cases.append(PlayedCase(number, episode, score, scenario, agent.task.envs))
    return tuple(cases)


def choose(cases: Sequence[PlayedCase], which: str, count: int) -> tuple[PlayedCase, ...]:
    """Return `count` of the worst, median or best cases, or those from a number on."""
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
    # Ties are broken by return, then number: the choice is deterministic.
    ranked = sorted(cases, key=lambda case: (case.score, case.episode.episode_return, case.number))
    if which == "best":
        return tuple(reversed(ranked[-count:]))
    begin = 0 if which == "worst" else max((len(ranked) - count) // 2, 0)
    return tuple(ranked[begin : begin + count])

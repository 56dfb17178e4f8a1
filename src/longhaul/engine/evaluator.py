"""Measuring a policy on fixed episodes or on the suites of its task, exactly repeatable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from longhaul.core.control import Progress
from longhaul.core.env import BatchedEnvs, EnvEvent, EnvSource, Episode, VectorEnv
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.evaluation import Case, Suite
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Event
from longhaul.core.policy import NO_NOISE, Policy
from longhaul.core.rollout import Memory, TensorTree, clear_started
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.task import Evaluation
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.stop import Until
from longhaul.envs.starts import STARTS, STARTS_LIMIT

MakeEnv = Callable[[EpisodeSeeds, int], VectorEnv]
OnProgress = Callable[[int, int], None]
"""Called after every step with the finished episodes and their total; may raise to stop."""


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress of an evaluation."""


def as_part(on_progress: OnProgress, before: int, total: int) -> OnProgress:
    """Return a callback that counts a part's episodes after `before` others, of `total`."""
    return lambda done, _: on_progress(before + done, total)


class CaseDraws:
    """Draws the actions of each case from a separate generator, independent of other cases."""

    def __init__(self, seeds: Seeds, cases: ListedSeeds, *, device: torch.device) -> None:
        self._seeds = seeds
        self._cases = cases
        self._generators = [torch.Generator(device) for _ in range(cases.envs)]
        for env in range(cases.envs):
            self.begin(env, 0)

    def begin(self, env: int, episode: int) -> None:
        """Start the draws of the case `env` plays as its `episode`-th."""
        case = self._cases.case(env, episode)
        self._generators[env].manual_seed(self._seeds.integer("actions", case))

    @property
    def generators(self) -> Sequence[torch.Generator]:
        """One for each env."""
        return self._generators


def play(
    env: VectorEnv,
    policy: Policy,
    settings: Settings,
    *,
    cases: ListedSeeds,
    draws: CaseDraws | None,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Episode, ...]:
    """Return one episode per listed seed, in the order of the list.

    Each env plays the cases assigned to it. An env that has finished its share keeps stepping
    unread: short episodes are not favored over long ones. Without draws, the most likely actions
    are taken. An episode that its env failed to finish is left out.
    """
    wanted = len(cases.listed)
    done: dict[int, Episode] = {}
    failed: set[int] = set()
    env.configure(settings)
    env.reset()
    policy.set_noise(NO_NOISE)
    memory = policy.initial_state(env.rows)
    device = next(policy.parameters()).device
    with torch.inference_mode():
        while len(done) + len(failed) < wanted:
            obs, memory, mask = policy_inputs(env, memory, device)
            generators = None if draws is None else draws.generators
            act = policy.act(obs, memory, settings, mask=mask, generator=generators)
            memory = act.memory
            step = env.step(act.action.cpu().numpy())
            failed |= _failed_cases(step.events, cases, draws)
            for episode in step.episodes:
                case = cases.case(episode.env, episode.number)
                if case < wanted:
                    done[case] = episode
                if draws is not None:
                    draws.begin(episode.env, episode.number + 1)
            on_progress(len(done) + len(failed), wanted)
    if not done:
        raise EnvError(f"{env.spec.id} failed in all {wanted} episodes of the evaluation")
    return tuple(done[case] for case in range(wanted) if case in done)


def play_once(
    env: VectorEnv,
    policy: Policy,
    settings: Settings,
    *,
    cases: ListedSeeds,
    draws: Seeds | None,
    on_progress: OnProgress,
) -> tuple[Episode, ...]:
    """Play the cases, drawing actions from these seeds, if any, and close the env."""
    device = next(policy.parameters()).device
    drawn = None if draws is None else CaseDraws(draws, cases, device=device)
    try:
        return play(env, policy, settings, cases=cases, draws=drawn, on_progress=on_progress)
    finally:
        env.close()


def _failed_cases(
    events: Sequence[EnvEvent], cases: ListedSeeds, draws: CaseDraws | None
) -> set[int]:
    """Return the cases that were given up, and begin the draws of those played instead."""
    failed = set()
    wanted = len(cases.listed)
    for event in events:
        if not event.ends_episode:
            continue
        numbers = range(event.number, wanted) if event.ends_env else (event.number,)
        given_up = (cases.case(event.env, max(number, 0)) for number in numbers)
        failed |= {case for case in given_up if case < wanted}
        if draws is not None:
            draws.begin(event.env, event.number + 1)
    return failed


def policy_inputs(
    env: VectorEnv, memory: Memory, device: torch.device
) -> tuple[TensorTree, Memory, Tensor | None]:
    """Return observations, memory and mask of all rows; memory is cleared at episode starts."""
    slots = env.slots
    return (
        {name: torch.from_numpy(part).to(device) for name, part in slots.obs.items()},
        clear_started(memory, torch.from_numpy(slots.started).to(device)),
        None if slots.mask is None else torch.from_numpy(slots.mask).to(device),
    )


def figures(episodes: Sequence[Episode]) -> Metrics:
    """Return the mean, spread and extremes of the episodes' returns and lengths."""
    returns = [episode.episode_return for episode in episodes]
    count = len(returns)
    mean = math.fsum(returns) / count
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in returns) / count)
    metrics = {
        "eval/mean_reward": mean,
        "eval/std_reward": spread,
        "eval/min_reward": min(returns),
        "eval/max_reward": max(returns),
        "eval/mean_ep_length": math.fsum(episode.length for episode in episodes) / count,
        "eval/episodes": float(count),
    }
    for name in sorted({name for episode in episodes for name in episode.metrics}):
        values = [e.metrics[name] for e in episodes if name in e.metrics]
        metrics[f"eval/{name}"] = math.fsum(values) / len(values)
    return metrics


class EpisodeEvaluator:
    """Plays the same listed episodes whenever it is asked."""

    def __init__(self, make_env: MakeEnv, policy: Policy, config: EvaluateConfig) -> None:
        self._make_env = make_env
        self._policy = policy
        self._config = config
        self.last: tuple[Episode, ...] = ()  # what was played in the last measurement

    def due(self, progress: Progress) -> bool:
        """Whether this iteration is one of every so many."""
        every = self._config.every_iterations
        return every > 0 and progress.iteration % every == 0

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        """Return the figures of the present policy."""
        self.last = self.episodes(settings, count=self._config.episodes)
        return figures(self.last)

    def take_notes(self) -> Sequence[Event]:
        """Return nothing: episodes of listed seeds can be played again."""
        return ()

    def episodes(
        self, settings: Settings, *, count: int, on_progress: OnProgress = ignore_progress
    ) -> tuple[Episode, ...]:
        """Return `count` episodes of the present policy."""
        if STARTS.name in settings:
            # The cases are seeds; a start given to the env that resets first would replace one.
            settings = settings.with_([STARTS.to(())])
        seeds = Seeds(self._config.seed)
        listed = tuple(seeds.integer("case", number) for number in range(count))
        num_envs = min(self._config.num_envs, count)
        cases = ListedSeeds(listed, num_envs)
        env = self._make_env(cases, num_envs)
        draws = None if self._config.greedy else seeds
        return play_once(
            env, self._policy, settings, cases=cases, draws=draws, on_progress=on_progress
        )


MakeSuiteEnv = Callable[[EnvSource, EpisodeSeeds, int], VectorEnv]

EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True)
class EvaluationNote:
    """An evaluation, as a row for the run's events."""

    suite: str
    record: dict[str, Any] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Return plain values."""
        return {"event": EVALUATED, "suite": self.suite, **self.record}


def suite_figures(suite: Suite, episodes: Sequence[Episode]) -> Metrics:
    """Return the figures every evaluation has, and the suite's own."""
    return {**figures(episodes), **suite.figures(episodes)}


@dataclass(frozen=True, slots=True)
class Wave:
    """Cases that are played by the same envs, each env one after the other."""

    number: int
    first: int
    """The place of the wave's first case in its suite."""
    cases: tuple[Case, ...]
    envs: int

    def draws(self, seed: int) -> Seeds:
        """Return the seeds of the wave's drawn actions."""
        return Seeds(Seeds(seed).integer("wave", self.number))


def waves(suite: Suite, most: int) -> tuple[Wave, ...]:
    """Return how the cases of a suite are dealt to at most so many envs, or to batched ones.

    Envs whose cases have starts play one case each: starts are dealt in the order of the envs.
    Others go on with the next case and do not wait for the longest episode.
    """
    cases = suite.cases
    with_start = sum(case.start is not None for case in cases)
    if with_start and with_start < len(cases):
        raise ConfigError("either all cases of a suite have a start or none has")
    if isinstance(suite.envs, BatchedEnvs):
        most = len(cases)
    if not with_start:
        return (Wave(0, 0, cases, min(most, len(cases))),)
    parts = [cases[begin : begin + most] for begin in range(0, len(cases), most)]
    return tuple(Wave(turn, turn * most, part, len(part)) for turn, part in enumerate(parts))


class SuiteEvaluator:
    """Plays the same cases at each measurement, or others each time if they rotate."""

    def __init__(
        self,
        make_env: MakeSuiteEnv,
        policy: Policy,
        config: EvaluateConfig,
        evaluation: Evaluation,
        *,
        until: Until,
    ) -> None:
        if evaluation.suite is None:
            raise ConfigError("evaluate.suite: the task has no suites")
        self._find = evaluation.suite
        self._make_env = make_env
        self._policy = policy
        self._config = config
        self._name = config.suite or evaluation.during
        self._until = until
        self._notes: list[EvaluationNote] = []
        self.last: tuple[Episode, ...] = ()  # what was played in the last measurement
        self.last_suite = ""

    def due(self, progress: Progress) -> bool:
        """Whether this iteration is one of every so many, or the last of the run."""
        every = self._config.every_iterations
        is_last = self._until(progress) is not None
        return every > 0 and (is_last or progress.iteration % every == 0)

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        """Return the figures of the present policy."""
        name = f"{self._name}-{progress.iteration}" if self._config.rotate else self._name
        suite = self._find(name)
        episodes = self.episodes(suite, settings)
        self.last, self.last_suite = episodes, suite.name
        self._notes.append(EvaluationNote(suite.name, suite.record(episodes)))
        return suite_figures(suite, episodes)

    def take_notes(self) -> Sequence[Event]:
        """Return the suites' records of the evaluations since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def episodes(
        self, suite: Suite, settings: Settings, *, on_progress: OnProgress = ignore_progress
    ) -> tuple[Episode, ...]:
        """Return one episode per case of the suite, in their order."""
        total = len(suite.cases)
        return tuple(
            episode
            for wave in waves(suite, self._config.num_envs)
            for episode in self._play(
                suite.envs, wave, settings, as_part(on_progress, wave.first, total)
            )
        )

    def _play(
        self, source: EnvSource, wave: Wave, settings: Settings, on_progress: OnProgress
    ) -> tuple[Episode, ...]:
        starts = tuple(case.start for case in wave.cases if case.start is not None)
        offered = (STARTS.to(starts), STARTS_LIMIT.to(0))
        settings = settings.with_(one for one in offered if one.name in settings)
        cases = ListedSeeds(tuple(case.seed for case in wave.cases), wave.envs)
        env = self._make_env(source, cases, wave.envs)
        draws = None if self._config.greedy else wave.draws(self._config.seed)
        return play_once(
            env, self._policy, settings, cases=cases, draws=draws, on_progress=on_progress
        )

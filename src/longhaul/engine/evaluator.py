"""Measuring a policy on fixed episodes, exactly repeatable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from longhaul.core.control import Progress
from longhaul.core.env import EnvEvent, Episode, VectorEnv
from longhaul.core.errors import EnvError
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Event
from longhaul.core.policy import NO_NOISE, Policy
from longhaul.core.rollout import Memory, TensorTree, clear_started
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.engine.config import EvaluateConfig
from longhaul.envs.starts import STARTS

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

"""Measuring a policy on fixed episodes, repeatable to the digit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from longhaul.core.env import Episode, VectorEnv
from longhaul.core.metrics import Metrics
from longhaul.core.policy import SILENT, Policy
from longhaul.core.progress import Progress
from longhaul.core.rollout import clear_started
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.engine.config import EvaluateConfig

MakeEnv = Callable[[EpisodeSeeds, int], VectorEnv]


def play(
    env: VectorEnv,
    policy: Policy,
    settings: Settings,
    *,
    cases: ListedSeeds,
    generator: torch.Generator | None,
) -> tuple[Episode, ...]:
    """Return one episode per listed seed, in the order of the list.

    Each env plays the cases dealt to it; an env that has finished its share keeps stepping
    unread, so that short episodes are never favoured over long ones.
    """
    wanted = len(cases.listed)
    done: dict[int, Episode] = {}
    env.configure(settings)
    env.reset()
    policy.set_noise(SILENT)
    memory = policy.initial(env.rows)
    device = next(policy.parameters()).device
    with torch.inference_mode():
        while len(done) < wanted:
            slots = env.slots
            memory = clear_started(memory, torch.from_numpy(slots.started).to(device))
            obs = {name: torch.from_numpy(part).to(device) for name, part in slots.obs.items()}
            mask = None if slots.mask is None else torch.from_numpy(slots.mask).to(device)
            act = policy.act(obs, memory, settings, mask=mask, generator=generator)
            memory = act.memory
            for episode in env.step(act.action.cpu().numpy()).episodes:
                case = cases.case(episode.env, episode.number)
                if case < wanted:
                    done[case] = episode
    return tuple(done[case] for case in range(wanted))


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

    def due(self, progress: Progress) -> bool:
        """Whether this iteration is one of every so many."""
        every = self._config.every_iterations
        return every > 0 and progress.iteration % every == 0

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        """Return the figures of the present policy."""
        return figures(self.episodes(settings, count=self._config.episodes))

    def episodes(self, settings: Settings, *, count: int) -> tuple[Episode, ...]:
        """Return `count` episodes of the present policy."""
        seeds = Seeds(self._config.seed)
        listed = tuple(seeds.integer("case", number) for number in range(count))
        num_envs = min(self._config.num_envs, count)
        generator = None
        if not self._config.greedy:
            device = next(self._policy.parameters()).device
            generator = torch.Generator(device).manual_seed(seeds.integer("actions"))
        cases = ListedSeeds(listed, num_envs)
        env = self._make_env(cases, num_envs)
        try:
            return play(env, self._policy, settings, cases=cases, generator=generator)
        finally:
            env.close()

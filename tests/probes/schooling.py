"""A short loop with the real collector, network and learners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from longhaul.core.env import EnvSource, VectorEnv
from longhaul.core.parts import LearnerProtocol
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import DerivedSeeds, EpisodeSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.evaluator import EpisodeEvaluator
from longhaul.envs.build import make_vector_env
from longhaul.learn.config import OnPolicyConfig, PPOConfig, learn_settings
from longhaul.learn.ppo import PPO
from longhaul.learn.vtrace import VTrace
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import PolicyConfig

LEARNERS: dict[str, Callable[[Policy, OnPolicyConfig, np.random.Generator], LearnerProtocol]] = {
    "ppo": PPO,
    "vtrace": VTrace,
}
SMALL = PolicyConfig(hidden=(16,))
BRISK = PPOConfig(learning_rate=0.02, n_epochs=4, minibatch_size=128, gamma=0.8)


@dataclass(frozen=True)
class Lessons:
    """How long and with what numbers to learn."""

    rollouts: int = 25
    steps: int = 16
    chunk: int = 0
    envs: int = 8
    learn: OnPolicyConfig = field(default_factory=lambda: BRISK)
    policy: PolicyConfig = field(default_factory=lambda: SMALL)
    seed: int = 1


@dataclass(frozen=True)
class Taught:
    """The policy after its lessons, and the last rollout it learned from."""

    source: EnvSource
    policy: ActorCritic
    settings: Settings
    last: Rollout

    def value(self, *obs: float) -> float:
        """Return the value of one observation, for a policy without memory."""
        with torch.no_grad():
            shown = {"obs": torch.tensor([obs])}
            return float(self.policy.value(shown, self.policy.initial_state(1), self.settings))

    def action(self, *obs: float, mask: Tensor | None = None) -> Tensor:
        """Return the most likely action at one observation, for a policy without memory."""
        with torch.no_grad():
            shown = {"obs": torch.tensor([obs])}
            memory = self.policy.initial_state(1)
            return self.policy.act(shown, memory, self.settings, mask=mask).action[0]

    def mean_return(self, episodes: int = 100) -> float:
        """Return the mean over fixed episodes, acting greedily."""

        def make(seeds: EpisodeSeeds, count: int) -> VectorEnv:
            return make_vector_env(self.source, count=count, seeds=seeds)

        config = EvaluateConfig(episodes=episodes, num_envs=20)
        evaluator = EpisodeEvaluator(make, self.policy, config)
        played = evaluator.episodes(self.settings, count=episodes)
        return sum(episode.episode_return for episode in played) / len(played)


def teach(source: EnvSource, algorithm: str, lessons: Lessons) -> Taught:
    """Collect and learn, over and over."""
    seeds = Seeds(lessons.seed)
    with torch.random.fork_rng():
        torch.manual_seed(seeds.integer("weights"))
        policy = build_policy(source.spec, lessons.policy)
    env = make_vector_env(source, count=lessons.envs, seeds=DerivedSeeds(seeds), threads=1)
    collector = RolloutCollector(env, policy, seeds, steps=lessons.steps, chunk=lessons.chunk)
    learner = LEARNERS[algorithm](policy, lessons.learn, seeds.generator("learn"))
    settings = Settings(learn_settings(lessons.learn))
    for _ in range(lessons.rollouts):
        rollout = collector.collect(settings)
        learner.update(rollout, settings)
    collector.close()
    return Taught(source, policy, settings, rollout)

"""Proximal policy optimisation (Schulman et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.learn.advantage import Advantages, course_of, gae
from longhaul.learn.config import LearnConfig
from longhaul.learn.guard import rollout_fault
from longhaul.learn.losses import (
    Part,
    clipped_surrogate,
    clipped_value_error,
    error_quantiles,
    explained_variance,
    normalised,
    value_error,
)
from longhaul.learn.minibatches import Material, Minibatch
from longhaul.learn.normalise import RewardScale
from longhaul.learn.objective import common_pulls, policy_measures
from longhaul.learn.optimise import Descent, Pull
from longhaul.learn.rehearsal import Rehearsal
from longhaul.learn.replay import NoReplay, Replay
from longhaul.learn.settings import CLIP_RANGE, DISCOUNT, LEARNING_RATE, VALUE_WEIGHT
from longhaul.learn.team import Team, mean_by

_KL_TOLERANCE = 1.5  # as in Stable-Baselines3, so that a known target keeps its meaning


@dataclass(frozen=True, slots=True)
class _Epochs:
    """How far the passes over one rollout came."""

    begun: int
    stopped: bool


class PPOLearner:
    """Learns from each rollout in several epochs of clipped steps; owns the policy's weights."""

    def __init__(
        self,
        policy: Policy,
        config: LearnConfig,
        generator: np.random.Generator,
        replay: Replay | None = None,
    ) -> None:
        self.policy = policy
        self._config = config
        self._generator = generator
        self._rewards = RewardScale(normalise=config.normalise_reward, clip=config.reward_clip)
        self._descent = Descent(policy, config)
        self._rehearsal = Rehearsal(policy, config, replay or NoReplay(), self._rewards)

    def join(self, team: Team) -> None:
        """Learn together with others; what is measured is then measured on this one's part."""
        self._descent.team = team

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        """Learn from one rollout; the weights are finite afterwards, whatever it held."""
        fault = rollout_fault(rollout)
        if fault is not None:
            self._descent.guard.refuse(fault)
            return {"fault/skipped_updates": 1.0, "fault/rollbacks": 0.0}
        advantages = self._advantages(rollout, settings)
        material = self._arrange(rollout, advantages)
        self._rehearsal.begin(rollout, settings)
        self._descent.begin(settings[LEARNING_RATE])
        epochs = self._learn(material, settings)
        self.policy.observe(rollout.obs, rollout.active)
        metrics = {**self._descent.finish(), **self._rehearsal.metrics()}
        metrics["train/clip_range"] = settings[CLIP_RANGE]
        if epochs.stopped:
            metrics["train/epochs_run"] = float(epochs.begun)
        value, target = rollout.value[rollout.trainable], advantages.target[rollout.trainable]
        metrics |= error_quantiles(value, target)
        explained = explained_variance(value, target)
        if explained is not None:
            metrics["train/explained_variance"] = explained
        return metrics

    def _advantages(self, rollout: Rollout, settings: Settings) -> Advantages:
        discount = settings[DISCOUNT]
        course = course_of(
            rollout,
            reward=self._rewards.scaled(rollout, discount=discount),
            truncation_value=rollout.truncations.value,
            last_value=rollout.last.value,
        )
        return gae(course, rollout.value, discount=discount, decay=self._config.gae_decay)

    def _arrange(self, rollout: Rollout, advantages: Advantages) -> Material:
        advantage = advantages.advantage
        if self._config.normalise_advantage:
            # Over the rollout rather than each minibatch: the same scale for every step of it.
            trainable = rollout.trainable
            advantage = torch.zeros_like(advantage).masked_scatter_(
                trainable, normalised(advantage[trainable])
            )
        facts = [rollout.log_prob, advantage, advantages.target, rollout.value]
        device = next(self.policy.parameters()).device
        return Material.of(rollout, facts, device, whole=self.policy.recurrent)

    def _learn(self, material: Material, settings: Settings) -> _Epochs:
        config = self._config
        for epoch in range(config.epochs):
            self._descent.tally.forget("train/approx_kl")
            groups = material.groups(
                self._generator, minibatch=config.minibatch, accumulate=config.accumulate
            )
            for group in groups:
                self._rehearsal.add(self._descent, settings)
                if not self._add_group(material, group, settings):
                    return _Epochs(epoch + 1, stopped=True)
                if not self._descent.step():
                    return _Epochs(epoch + 1, stopped=False)
        return _Epochs(config.epochs, stopped=False)

    def _add_group(
        self,
        material: Material,
        group: list[NDArray[np.int64]],
        settings: Settings,
    ) -> bool:
        """Add the gradients of one step's minibatches; tell if the policy is still near enough."""
        total = sum(int(material.counts[columns].sum()) for columns in group)
        team = self._descent.team
        limit = self._config.kl_stop * _KL_TOLERANCE
        for columns in group:
            own, divergence = team.part(columns), torch.empty(0)
            if len(own):
                minibatch = material.take(own)
                share = minibatch.facts.shape[1] / total
                divergence = self._add(minibatch, settings, share)
            if limit > 0 and mean_by(team, divergence) > limit:
                if len(own):
                    self._descent.tally.add("train/approx_kl", divergence)
                return False
        return True

    def _add(self, minibatch: Minibatch, settings: Settings, share: float) -> Tensor:
        """Add one minibatch's gradient and return by how much each step's policy moved."""
        old_log_prob, advantage, _, _ = minibatch.facts
        judged = self.policy.judge(minibatch.sequences, settings)
        log_prob, value = minibatch.pick(judged.log_prob), minibatch.pick(judged.value)
        surrogate = clipped_surrogate(
            log_prob, old_log_prob, advantage, clip_range=settings[CLIP_RANGE], scale=share
        )
        value_weight = settings[VALUE_WEIGHT]
        pulls = [
            Pull("train/policy_gradient_loss", log_prob, surrogate.part, 1.0),
            Pull(
                "train/value_loss",
                value,
                self._value_part(value, minibatch, scale=value_weight * share),
                value_weight,
            ),
            *common_pulls(judged, minibatch.pick(judged.entropy), settings, share=share),
        ]
        measures = {
            "train/approx_kl": surrogate.divergence,
            "train/clip_fraction": surrogate.is_outside,
            **policy_measures(judged),
        }
        self._descent.add(pulls, measures)
        return surrogate.divergence

    def _value_part(self, value: Tensor, minibatch: Minibatch, *, scale: float) -> Part:
        _, _, target, old_value = minibatch.facts
        if self._config.value_clip > 0:
            return clipped_value_error(
                value, target, old_value, value_clip=self._config.value_clip, scale=scale
            )
        return value_error(value, target, scale=scale)

    def state_dict(self) -> State:
        """Return weights, optimizer, generator, reward scale and counts."""
        return {
            **self._descent.state_dict(),
            "generator": generator_state(self._generator),
            "rewards": self._rewards.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""
        self._descent.load_state_dict(state)
        restore_generator(self._generator, state["generator"])
        self._rewards.load_state_dict(state["rewards"])

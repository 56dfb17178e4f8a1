"""PPO whose minibatches are learned in native code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from longhaul.core.policy import Policy
from longhaul.core.settings import Settings
from longhaul.learn.base import StepOutcome
from longhaul.learn.config import CLIP_RANGE, ENT_COEF, VF_COEF, PPOConfig
from longhaul.learn.minibatches import Batches, Items, Minibatch, RolloutBatches
from longhaul.learn.native import loss
from longhaul.learn.native.kernels import Arrays
from longhaul.learn.native.network import NativeNetwork
from longhaul.learn.native.update import MOVED_TOO_FAR, NOT_FINITE, learn_minibatches
from longhaul.learn.ppo import KL, KL_TOLERANCE, PPO

SUMMED = {
    "train/policy_gradient_loss": loss.POLICY,
    "train/value_loss": loss.VALUE,
    "train/entropy_loss": loss.ENTROPY,
    KL: loss.KL,
    "train/clip_fraction": loss.CLIPPED,
}
"""Metrics that are means over samples."""


class NativePPO(PPO):
    """PPO with its arithmetic in native code; steps that are not finite are redone in torch.

    Between the first and the last step of a rollout the weights and the optimizer's moments are in
    flat arrays; before and after it they are torch's. Checkpoints are the same for both.
    """

    def __init__(
        self, policy: Policy, config: PPOConfig, generator: np.random.Generator, replay: None = None
    ) -> None:
        super().__init__(policy, config, generator, replay)
        plain = policy.plain_network()
        assert plain is not None, "the policy was asked before whether it can be native"
        self.network = NativeNetwork(plain, self.optimizer.adam.parameters)
        self._data: Arrays = ()
        self._step = 0
        self._is_inside = False

    def run_epochs(self, batches: Batches[Minibatch], settings: Settings) -> int:
        """Learn from all minibatches; return the epoch that ended early, counted from 1, else 0."""
        assert isinstance(batches, RolloutBatches)
        self._data = self._gathered(batches)
        stopped_in = super().run_epochs(batches, settings)
        self._leave()
        self._data = ()
        return stopped_in

    def learn_steps(
        self, batches: Batches[Minibatch], steps: Iterable[Sequence[Items]], settings: Settings
    ) -> StepOutcome:
        """Take optimizer steps natively, and in torch where one is not finite."""
        left = list(steps)
        while left:
            self._enter()
            taken, reason = self._learn(left, settings)
            if reason == MOVED_TOO_FAR:
                return StepOutcome.MOVED_TOO_FAR
            left = left[taken:]
            if reason == NOT_FINITE:
                self._leave()
                outcome = self.learn_step(batches, left.pop(0), settings)
                if outcome is not StepOutcome.LEARNED:
                    return outcome
        return StepOutcome.LEARNED

    def _learn(self, steps: Sequence[Sequence[Items]], settings: Settings) -> tuple[int, int]:
        """Take steps until the last or one that ends them; return how many, and why it ended."""
        config, optimizer, network = self.config, self.optimizer, self.network
        minibatches = [items for minibatches in steps for items in minibatches]
        sizes = np.array([len(items) for items in minibatches])
        is_last = np.concatenate([np.arange(len(step)) == len(step) - 1 for step in steps])
        per_step = [1.0 / sum(map(len, step)) for step in steps]
        plan = (
            np.concatenate(minibatches),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            is_last,
            np.repeat(per_step, [len(step) for step in steps]),
        )
        weights = (settings[CLIP_RANGE], settings[VF_COEF], settings[ENT_COEF])
        limit = config.target_kl * KL_TOLERANCE
        hyper = np.array([*weights, config.clip_range_vf, limit], np.float64)
        betas = (config.adam_beta1, config.adam_beta2)
        numbers = (optimizer.learning_rate, *betas, config.adam_epsilon, config.weight_decay)
        adam = tuple(map(float, numbers))
        sums, (norms, deviations) = np.zeros((len(sizes), loss.SUMS)), np.zeros((2, len(sizes)))
        learned, reason = learn_minibatches(
            (network.network, network.flat, network.work, self._data),
            plan,
            hyper,
            (adam, self._step, float(config.max_grad_norm)),
            (sums, norms, deviations),
        )
        tally = optimizer.tally
        if reason == MOVED_TOO_FAR:
            tally.add_sum(KL, sums[learned, loss.KL], sizes[learned])
            learned = int(np.flatnonzero(np.append(True, is_last)[: learned + 1])[-1])
        if learned == 0:
            return 0, reason
        for name, place in SUMMED.items():
            tally.add_sum(name, float(sums[:learned, place].sum()), int(sizes[:learned].sum()))
        if network.plain.log_std:
            tally.add("policy/std", torch.from_numpy(deviations[:learned]))
        taken = is_last[:learned]
        terms = ("train/policy_gradient_loss", "train/value_loss", "train/entropy_loss")
        optimizer.accept(
            norms[:learned][taken].tolist(),
            dict(zip(terms, (1.0, *weights[1:]), strict=True)),
        )
        self._step += int(taken.sum())
        return int(taken.sum()), reason

    def _gathered(self, batches: RolloutBatches) -> Arrays:
        """Return a rollout's samples as arrays that fit the network."""
        network, recorded = self.network, batches.sequences
        plain = network.plain
        obs = {name: part.flatten(0, 1) for name, part in recorded.obs.items()}
        inputs = network.vector(obs)
        count = len(inputs)
        pixels = network.bytes_of(obs, np.empty((count, network.pixels), np.uint8))
        action = recorded.action.flatten(0, 1).numpy().reshape(count, -1)
        chosen = np.zeros((count, 0), np.int64)
        mask = np.zeros((1, 0), bool)
        if plain.choices:
            chosen, action = (
                np.ascontiguousarray(action, np.int64),
                np.zeros((count, 0), np.float32),
            )
        if recorded.mask is not None:
            mask = np.ascontiguousarray(recorded.mask.flatten(0, 1).numpy())
        facts = np.ascontiguousarray(batches.facts.view(4, count).numpy().T)
        data = (inputs, pixels, chosen, np.ascontiguousarray(action, np.float32), mask, facts)
        network.check(data)
        return data

    def _enter(self) -> None:
        """Copy weights and moments into the flat arrays."""
        if self._is_inside:
            return
        adam = self.optimizer.adam
        self.network.clear()
        self.network.read("weights", adam.parameters)
        self.network.read("exp_avg", adam.exp_avg)
        self.network.read("exp_avg_sq", adam.exp_avg_sq)
        self._step = int(next(iter(adam.steps.values())))
        self._is_inside = True

    def _leave(self) -> None:
        """Copy weights and moments back."""
        if not self._is_inside:
            return
        adam = self.optimizer.adam
        self.network.write("weights", adam.parameters)
        self.network.write("exp_avg", adam.exp_avg)
        self.network.write("exp_avg_sq", adam.exp_avg_sq)
        for count in adam.steps.values():
            count.fill_(self._step)
        self._is_inside = False

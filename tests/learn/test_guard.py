from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from longhaul.core.errors import NumericalError
from longhaul.core.policy import ActionEvaluation
from longhaul.core.rollout import Rollout, Sequences
from longhaul.core.settings import Settings
from longhaul.learn.config import PPOConfig
from longhaul.learn.optimizer import rollout_fault, state_fault
from longhaul.learn.ppo import PPO
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import FakePolicy, generator, random_rollout, settings_for

CONFIG = PPOConfig(n_epochs=2, minibatch_size=16, max_bad_updates=2, max_bad_rollouts=2)
LEARNERS = pytest.mark.parametrize("learner_class", [PPO, VTrace])


class BreakablePolicy(FakePolicy):
    """Judges some minibatches in a way no weight survives."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        self.evaluated = 0
        self.breaks: set[int] | None = set()  # None for always
        self.in_gradient = False

    def evaluate_actions(self, sequences: Sequences, settings: Settings) -> ActionEvaluation:
        evaluated = super().evaluate_actions(sequences, settings)
        self.evaluated += 1
        if self.breaks is not None and self.evaluated not in self.breaks:
            return evaluated
        if not self.in_gradient:
            return replace(evaluated, value=evaluated.value * math.nan)
        # Finite where it is, infinitely steep: the loss shows nothing.
        steep = (self.worth.bias - self.worth.bias.detach()).abs().sqrt()
        return replace(evaluated, value=evaluated.value + steep)


def parameters(policy: FakePolicy) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in policy.parameters()]


def all_active(seed: int) -> Rollout:
    rollout = random_rollout(seed)
    everywhere = torch.ones_like(rollout.active)
    return replace(rollout, active=everywhere, forced=~everywhere)


@LEARNERS
@pytest.mark.parametrize("in_gradient", [False, True])
def test_a_step_that_is_not_finite_is_skipped_and_counted(
    learner_class: type[PPO], *, in_gradient: bool
) -> None:
    policy = BreakablePolicy()
    policy.breaks, policy.in_gradient = {2}, in_gradient
    learner = learner_class(policy, CONFIG, generator())
    before = parameters(policy)
    metrics = learner.update(all_active(0), settings_for(CONFIG))
    assert metrics["fault/skipped_updates"] == 1
    assert metrics["fault/rollbacks"] == 0
    assert all(torch.isfinite(p).all() for p in policy.parameters())
    assert not any(torch.equal(*pair) for pair in zip(before, parameters(policy), strict=True))
    assert all(math.isfinite(value) for value in metrics.values())


@LEARNERS
def test_too_many_bad_steps_bring_the_old_weights_back_and_halve_the_learning_rate(
    learner_class: type[PPO],
) -> None:
    policy = BreakablePolicy()
    policy.breaks = {2, 3}
    learner = learner_class(policy, CONFIG, generator())
    saved = learner.state_dict()
    metrics = learner.update(all_active(0), settings_for(CONFIG))
    assert metrics["fault/rollbacks"] == 1
    assert metrics["train/n_updates"] == 0
    after = learner.state_dict()
    for name, tensor in saved["policy"].items():
        assert torch.equal(tensor, after["policy"][name])
    for kind in ("exp_avg", "exp_avg_sq", "step"):
        for name, tensor in saved["optimizer"][kind].items():
            assert torch.equal(tensor, after["optimizer"][kind][name])
    metrics = learner.update(all_active(1), settings_for(CONFIG))
    assert metrics["train/learning_rate"] == CONFIG.learning_rate / 2
    assert metrics["fault/rollbacks"] == 0
    rates = [
        learner.update(all_active(seed), settings_for(CONFIG))["train/learning_rate"]
        for seed in range(12)
    ]
    assert rates[-1] == CONFIG.learning_rate


@LEARNERS
@pytest.mark.parametrize(
    ("in_gradient", "culprit"), [(False, "train/value_loss"), (True, "'worth.bias'")]
)
def test_the_run_stops_with_finite_weights_and_names_what_broke(
    learner_class: type[PPO], *, in_gradient: bool, culprit: str
) -> None:
    policy = BreakablePolicy()
    policy.breaks, policy.in_gradient = None, in_gradient
    learner = learner_class(policy, CONFIG, generator())
    before = parameters(policy)
    learner.update(all_active(0), settings_for(CONFIG))
    with pytest.raises(NumericalError, match=culprit) as caught:
        learner.update(all_active(1), settings_for(CONFIG))
    assert caught.value.exit_code == 4
    assert all(torch.equal(*pair) for pair in zip(before, parameters(policy), strict=True))


@LEARNERS
def test_bad_steps_are_counted_across_rollouts(learner_class: type[PPO]) -> None:
    config = replace(CONFIG, n_epochs=1, minibatch_size=64)
    policy = BreakablePolicy()
    policy.breaks = {1, 2}
    learner = learner_class(policy, config, generator())
    first = learner.update(all_active(0), settings_for(config))
    second = learner.update(all_active(1), settings_for(config))
    assert (first["fault/rollbacks"], second["fault/rollbacks"]) == (0, 1)


@LEARNERS
@pytest.mark.parametrize("field", ["reward", "value", "log_prob", "obs"])
def test_a_rollout_that_is_not_finite_is_not_learned_from(
    learner_class: type[PPO], field: str
) -> None:
    policy = BreakablePolicy()
    learner = learner_class(policy, CONFIG, generator())
    before = parameters(policy)
    rollout = all_active(0)
    (rollout.obs["x"] if field == "obs" else getattr(rollout, field))[3, 1] = math.nan
    metrics = learner.update(rollout, settings_for(CONFIG))
    assert metrics["fault/skipped_updates"] == 1
    assert all(torch.equal(*pair) for pair in zip(before, parameters(policy), strict=True))
    with pytest.raises(NumericalError, match="2 rollouts in a row"):
        learner.update(rollout, settings_for(CONFIG))


def test_numbers_of_absent_rows_need_not_be_finite() -> None:
    rollout = random_rollout(0)
    rollout.reward[~rollout.active] = math.inf
    rollout.log_prob[rollout.forced] = -math.inf
    assert rollout_fault(rollout) is None


def test_a_broken_observation_is_named() -> None:
    rollout = all_active(0)
    rollout.obs["x"][0, 0, 1] = math.inf
    assert rollout_fault(rollout) == "the observation 'x'"


@LEARNERS
def test_weights_that_went_wrong_after_a_good_step_are_rolled_back(
    learner_class: type[PPO],
) -> None:
    class Poisoned(FakePolicy):
        def observe(self, obs: dict[str, Tensor], active: Tensor) -> None:
            self.seen += math.nan

    policy = Poisoned(3, 2)
    learner = learner_class(policy, CONFIG, generator())
    before = parameters(policy)
    metrics = learner.update(all_active(0), settings_for(CONFIG))
    assert metrics["fault/rollbacks"] == 1
    assert policy.seen.item() == 0.0
    assert all(torch.equal(*pair) for pair in zip(before, parameters(policy), strict=True))
    with pytest.raises(NumericalError, match="seen"):
        learner.update(all_active(0), settings_for(CONFIG))


def test_the_first_broken_weight_is_named() -> None:
    tensors = {"a": torch.ones(2), "b": torch.tensor([1.0, math.nan])}
    before = {"a": torch.ones(2), "b": torch.ones(2)}
    assert state_fault(tensors, before) == "the weight 'b'"
    assert state_fault(before, before) is None


def test_a_buffer_may_hold_infinities_from_the_start() -> None:
    mask = {"mask": torch.tensor([0.0, -math.inf])}
    assert state_fault(mask, mask) is None

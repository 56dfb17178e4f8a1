from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from longhaul.core.rollout import Rollout, TensorTree
from longhaul.learn.base import Learner
from longhaul.learn.config import PPOConfig, TeacherConfig, VTraceConfig
from longhaul.learn.ppo import PPO
from longhaul.learn.teacher import (
    NAME,
    Lessons,
    PolicyTeacher,
    ScriptTeacher,
    TeacherGroup,
)
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import FakePolicy, generator, make_policy, random_rollout, settings_for

TAUGHT = TeacherConfig(("script",), coef=1.0, policy_coef=0.0)


def by_first_number(obs: TensorTree, mask: Tensor | None) -> Tensor:
    """Choose 1 where the first number is positive."""
    return torch.nn.functional.one_hot((obs["x"][:, 0] > 0).long(), 2)


def lessons(smoothing: float = 0.0) -> Lessons:
    return Lessons(ScriptTeacher(by_first_number), (2,), smoothing)


def agreement(policy: FakePolicy, rollout: Rollout) -> float:
    said = by_first_number({"x": rollout.obs["x"].flatten(0, 1)}, None).argmax(1)
    own = policy.logits(policy._hidden({"x": rollout.obs["x"].flatten(0, 1)}, {})).argmax(1)
    return float((said == own).float().mean())


def test_the_term_is_the_divergence_of_torchs_distributions() -> None:
    draw = torch.Generator().manual_seed(4)
    said = torch.softmax(torch.randn(5, 7, generator=draw), 1).split((3, 4), 1)
    said = [part / part.sum(1, keepdim=True) for part in said]
    logits = torch.randn(5, 7, generator=draw, requires_grad=True)
    term = Lessons(ScriptTeacher(by_first_number), (3, 4)).term(torch.cat(said, 1), logits)
    expected = torch.stack(
        [
            torch.distributions.kl_divergence(
                torch.distributions.Categorical(probs=part),
                torch.distributions.Categorical(logits=own),
            )
            for part, own in zip(said, logits.split((3, 4), 1), strict=True)
        ]
    ).sum(0)
    assert float(term.losses) == pytest.approx(float(expected.detach().mean()), abs=1e-6)
    (slope,) = torch.autograd.grad(term.output, logits)
    # d KL / d logit = pi - q, over the number of steps
    own = torch.cat([torch.softmax(part, 1) for part in logits.split((3, 4), 1)], 1)
    torch.testing.assert_close(slope, (own - torch.cat(said, 1)) / 5)


def test_steps_without_an_opinion_and_closed_choices_cost_nothing() -> None:
    said = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    logits = torch.tensor([[3.0, 1.0, 0.0], [2.0, -1e9, -1e9]])
    assert float(Lessons(ScriptTeacher(by_first_number), (3,)).term(said, logits).losses) == 0.0


def test_smoothing_leaves_closed_choices_closed() -> None:
    rollout = random_rollout(1)
    mask = torch.ones(rollout.steps, rollout.rows, 2, dtype=torch.bool)
    mask[0, :, 1] = False
    said = lessons(0.2).of(replace(rollout, mask=mask))
    torch.testing.assert_close(said.sum(2), torch.ones_like(said[..., 0]))
    chosen = by_first_number({"x": rollout.obs["x"][1]}, None).bool()
    torch.testing.assert_close(said[1][chosen], torch.full((rollout.rows,), 0.9))
    assert (
        float(said[0, :, 1][~by_first_number({"x": rollout.obs["x"][0]}, None)[:, 1].bool()].sum())
        == 0
    )


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (PPO, PPOConfig(learning_rate=0.02, n_epochs=20, minibatch_size=32, teacher=TAUGHT)),
        (VTrace, VTraceConfig(learning_rate=0.02, n_epochs=20, minibatch_size=32, teacher=TAUGHT)),
    ],
)
def test_a_policy_learns_to_do_what_its_teacher_does(
    kind: type[Learner[object]], config: PPOConfig
) -> None:
    rollout, policy = random_rollout(5), make_policy()
    learner = kind(policy, config, generator())
    learner.lessons = lessons()
    settings = settings_for(config)
    first = learner.update(rollout, settings)[NAME]
    for _ in range(10):
        last = learner.update(rollout, settings)[NAME]
    assert last < 0.2 * first
    assert agreement(policy, rollout) > 0.95


def test_a_weight_of_zero_is_as_if_there_were_no_teacher() -> None:
    alone = PPOConfig(n_epochs=1)
    beside = PPOConfig(n_epochs=1, teacher=replace(TAUGHT, coef=0.0, policy_coef=1.0))
    rollout, weights = random_rollout(2), []
    for config in (alone, beside):
        learner = PPO(make_policy(), config, generator())
        learner.lessons = lessons() if config is beside else None
        learner.update(rollout, settings_for(config))
        weights.append(learner.policy.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_teacher_with_a_memory_follows_its_rows_and_is_saved() -> None:
    config = PPOConfig()
    policy = make_policy(seed=3, memory=True)
    first, second = random_rollout(6), random_rollout(7)
    second = replace(second, started=torch.zeros_like(second.started))
    teacher = PolicyTeacher(policy, settings_for(config), (2,))
    other = PolicyTeacher(policy, settings_for(config), (2,))
    teacher.probabilities(first)
    other.load_state_dict(teacher.state_dict())
    expected = teacher.probabilities(second)
    assert torch.equal(other.probabilities(second), expected)
    fresh = PolicyTeacher(policy, settings_for(config), (2,))
    assert not torch.equal(fresh.probabilities(second), expected)


def test_each_of_several_teachers_is_asked_only_about_what_it_covers() -> None:
    asked = []

    def always(choice: int) -> ScriptTeacher:
        def script(obs: TensorTree, mask: Tensor | None) -> Tensor:
            asked.append(len(obs["x"]))
            return torch.eye(2)[choice].expand(len(obs["x"]), 2)

        return ScriptTeacher(script)

    group = TeacherGroup(
        (
            (always(0), lambda obs: obs["x"][:, 0] > 1),
            (always(1), lambda obs: obs["x"][:, 0] > 0),
        ),
        2,
    )
    rollout = random_rollout(8)
    said, first = group.probabilities(rollout), rollout.obs["x"][..., 0]
    expected = torch.zeros_like(said)
    expected[first > 1] = torch.tensor([1.0, 0.0])
    expected[(first > 0) & (first <= 1)] = torch.tensor([0.0, 1.0])
    assert torch.equal(said, expected)
    assert asked == [int((first > 1).sum()), int(((first > 0) & (first <= 1)).sum())]


def test_a_teacher_with_a_memory_sees_the_steps_of_the_others_too() -> None:
    teacher = PolicyTeacher(make_policy(seed=3, memory=True), settings_for(PPOConfig()), (2,))
    alone = PolicyTeacher(make_policy(seed=3, memory=True), settings_for(PPOConfig()), (2,))
    group = TeacherGroup([(teacher, lambda obs: obs["x"][:, 0] > 0)], 2)
    rollout = random_rollout(6)
    said, expected = group.probabilities(rollout), alone.probabilities(rollout)
    covered = rollout.obs["x"][..., 0] > 0
    assert torch.equal(said[covered], expected[covered])
    assert float(said[~covered].abs().sum()) == 0

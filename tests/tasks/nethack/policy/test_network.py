from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.policy import ActionEvaluation
from longhaul.core.rollout import Sequences, clear_started
from longhaul.core.settings import Settings
from longhaul.core.spaces import Part
from longhaul.tasks.nethack.policy.layers import CrossAttention, ExpertBank
from longhaul.tasks.nethack.policy.network import ALPHA, ExpertPolicy, expert_names
from longhaul.tasks.nethack.policy.options import (
    LOSSES,
    ROUTER,
    TEMPERATURE,
    TEMPERATURE_SCALE,
    PolicyOptions,
)
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT, ATOM_BITS, STATE, STATE_SIZE
from tests.tasks.nethack.policy.players import (
    DECLARED,
    observations,
    player,
    rules,
    sequences,
)

SPARSE = DECLARED.with_([ROUTER.to("sparsemax"), TEMPERATURE.to(0.5)])
VARIANTS = {
    "plain": PolicyOptions(),
    "cross attention": PolicyOptions(fusion="cross_attention"),
    "probabilities": PolicyOptions(mixing="probabilities"),
    "memory": PolicyOptions(core="gru", core_size=32),
    "experts without intent": PolicyOptions(experts_see_intent=False),
    "two experts": PolicyOptions(experts=2),
    "six experts": PolicyOptions(experts=6),
    "best few": PolicyOptions(router="topk"),
}


def recorded(
    policy: ExpertPolicy, settings: Settings, *, sees: bool = False
) -> tuple[Sequences, Tensor, Tensor]:
    """Return steps the policy took, with masks and episodes that begin, and what it thought."""
    length, rows = 6, 5
    flat = observations(length * rows, sees=sees)
    obs = {name: part.unflatten(0, (length, rows)) for name, part in flat.items()}
    started = torch.zeros(length, rows, dtype=torch.bool)
    started[0], started[3, 2], started[5, 4] = True, True, True
    mask = torch.rand(length, rows, ACTION_COUNT, generator=torch.Generator().manual_seed(3)) < 0.6
    mask[..., 0] = True
    memory = policy.initial_state(rows)
    first = memory
    generator = torch.Generator().manual_seed(9)
    actions, log_probs, values = [], [], []
    with torch.inference_mode():
        for step in range(length):
            memory = clear_started(memory, started[step])
            seen = {name: part[step] for name, part in obs.items()}
            act = policy.act(seen, memory, settings, mask=mask[step], generator=generator)
            memory = act.memory
            actions.append(act.action)
            log_probs.append(act.log_prob)
            values.append(act.value)
    taken = Sequences(obs, torch.stack(actions), started, mask, first, -1)
    return taken, torch.stack(log_probs), torch.stack(values)


@pytest.mark.parametrize("name", VARIANTS)
def test_acting_and_judging_are_the_same_function(name: str) -> None:
    policy = player(VARIANTS[name])
    for settings in (DECLARED, SPARSE):
        taken, log_prob, value = recorded(policy, settings)
        judged = policy.evaluate_actions(taken, settings)
        ratio = (judged.log_prob.detach() - log_prob).exp()
        assert float((ratio - 1).abs().max()) < 1e-5
        torch.testing.assert_close(judged.value, value, atol=1e-5, rtol=1e-5)
        assert bool(taken.mask is not None)
        chosen = torch.gather(taken.mask, 2, taken.action.unsqueeze(2))  # type: ignore[arg-type]
        assert bool(chosen.all())


def test_the_map_view_acts_and_judges_alike() -> None:
    policy = player(sees=True)
    taken, log_prob, _ = recorded(policy, DECLARED, sees=True)
    judged = policy.evaluate_actions(taken, DECLARED)
    assert float(((judged.log_prob.detach() - log_prob).exp() - 1).abs().max()) < 1e-5


@pytest.mark.parametrize("name", VARIANTS)
def test_the_policy_loss_alone_reaches_every_weight(name: str) -> None:
    policy = player(VARIANTS[name])
    batch = replace(sequences(4, 32), memory=policy.initial_state(32))
    judged = policy.evaluate_actions(batch, SPARSE)
    (judged.log_prob.square().mean() + judged.value.square().mean()).backward()
    idle = [
        name
        for name, weight in policy.named_parameters()
        if weight.grad is None or not bool(weight.grad.abs().sum() > 0)
    ]
    assert idle == []


def test_a_frozen_graph_keeps_its_weights_and_still_speaks() -> None:
    policy = player(PolicyOptions(freeze_graph=True))
    judged = policy.evaluate_actions(sequences(2, 16), DECLARED)
    judged.log_prob.sum().backward()
    assert all(weight.grad is None for weight in policy.graph.parameters())
    assert dict(policy.named_parameters())["router.0.weight"].grad is not None


def test_every_loss_of_the_phases_is_reported_and_no_other() -> None:
    judged = player().evaluate_actions(sequences(4, 16), DECLARED)
    assert {f"loss.{name}" for name in judged.aux_losses} == {one.name for one in LOSSES}
    assert all(loss.shape == () for loss in judged.aux_losses.values())


def judged_temporal(policy: ExpertPolicy, taken: Sequences) -> float:
    return float(policy.evaluate_actions(taken, DECLARED).aux_losses["temporal"].detach())


def test_the_temporal_loss_uses_the_weights_kept_when_the_step_was_taken() -> None:
    policy = player()
    one = sequences(1, 12)
    continued = replace(one, started=torch.zeros(1, 12, dtype=torch.bool))
    with torch.no_grad():
        alpha = policy.think(observations(12, seed=7), DECLARED).alpha
    unmoved = replace(continued, memory={ALPHA: alpha})
    assert judged_temporal(policy, one) == 0.0
    assert judged_temporal(policy, unmoved) == pytest.approx(0.0, abs=1e-9)
    moved = replace(continued, memory={ALPHA: alpha + 0.1})
    assert judged_temporal(policy, moved) == pytest.approx(0.01, abs=1e-4)


def test_alignment_moves_the_router_and_leaves_the_recommendation() -> None:
    for detached in (True, False):
        policy = player(PolicyOptions(align_detach=detached))
        spoken = policy.think(observations(16), DECLARED).spoken
        assert policy.target(spoken.score, DECLARED).requires_grad is not detached
        policy.evaluate_actions(sequences(4, 16), DECLARED).aux_losses["alignment"].backward()
        grad = dict(policy.named_parameters())["router.0.weight"].grad
        assert grad is not None
        assert float(grad.abs().sum()) > 0


def test_following_the_alignment_loss_aligns() -> None:
    policy = player()
    batch = sequences(4, 64)
    optimizer = torch.optim.Adam(policy.router.parameters(), 3e-3)
    found: list[ActionEvaluation] = []
    for _ in range(25):
        judged = policy.evaluate_actions(batch, DECLARED)
        optimizer.zero_grad()
        judged.aux_losses["alignment"].backward()
        optimizer.step()
        found.append(judged)
    first, last = found[0], found[-1]
    assert float(last.aux_losses["alignment"].detach()) < 0.8 * float(
        first.aux_losses["alignment"].detach()
    )
    degree = "policy/alignment_degree"
    assert float(last.metrics[degree]) > float(first.metrics[degree])


def test_the_experts_are_as_many_mlps_side_by_side() -> None:
    torch.manual_seed(0)
    bank = ExpertBank(10, 8, 5, experts=3)
    x = torch.randn(7, 10)
    found = bank.forward(x)
    for k in range(3):
        hidden = torch.relu(x @ bank.first_weight[k].T + bank.first_bias[k])
        hidden = torch.nn.functional.layer_norm(hidden, (8,))
        hidden = torch.relu(hidden @ bank.second_weight[k].T + bank.second_bias[k, 0])
        hidden = torch.nn.functional.layer_norm(hidden, (8,))
        expected = hidden @ bank.last_weight[k].T + bank.last_bias[k, 0]
        torch.testing.assert_close(found[k], expected, atol=1e-5, rtol=1e-5)


def test_cross_attention_hears_one_head_and_learns_whom_to_ask() -> None:
    torch.manual_seed(0)
    fusion = CrossAttention(32, 16)
    seen, intent = torch.randn(9, 32), torch.randn(9, 16)
    fusion.forward(seen, intent).square().sum().backward()
    for layer in (fusion.query, fusion.key, fusion.value, fusion.bridge):
        assert layer.weight.grad is not None
        assert float(layer.weight.grad.abs().sum()) > 0


def test_the_scale_multiplies_the_temperature() -> None:
    policy, obs = player(), observations(20)
    scaled = DECLARED.with_([TEMPERATURE.to(0.8), TEMPERATURE_SCALE.to(0.25)])
    with torch.inference_mode():
        found = policy.think(obs, scaled).alpha
        expected = policy.think(obs, DECLARED.with_([TEMPERATURE.to(0.2)])).alpha
    torch.testing.assert_close(found, expected)


def test_a_copy_with_other_weights_does_not_use_what_the_first_one_remembers() -> None:
    policy, obs = player(), observations(8)
    with torch.inference_mode():
        policy.act(obs, policy.initial_state(8), DECLARED)
    other, second = copy.deepcopy(policy), player(seed=2)
    other.load_state_dict(second.state_dict())
    with torch.inference_mode():
        value = other.act(obs, other.initial_state(8), DECLARED).value
        expected = second.act(obs, other.initial_state(8), DECLARED).value
    torch.testing.assert_close(value, expected)


def test_values_can_be_asked_for_after_acting_and_with_a_gradient() -> None:
    policy, obs, others = player(), observations(8), observations(8, seed=12)
    with torch.inference_mode():
        acted = policy.act(obs, policy.initial_state(8), DECLARED)
    with torch.no_grad():
        policy.value(others, policy.initial_state(8), DECLARED)
    value = policy.value(obs, policy.initial_state(8), DECLARED)
    torch.testing.assert_close(value.detach(), acted.value)
    value.sum().backward()


def test_a_new_rollout_begins_with_an_empty_memo() -> None:
    policy, obs = player(), observations(8)
    with torch.inference_mode():
        policy.act(obs, policy.initial_state(8), DECLARED)
        missed = policy.memo.missed
        policy.set_noise(5)
        policy.act(obs, policy.initial_state(8), DECLARED)
    assert policy.memo.missed == 2 * missed


def test_fewer_experts_share_the_rules_and_more_have_none() -> None:
    assert expert_names(2) == ("survival_combat", "exploration_general")
    assert expert_names(6)[4:] == ("free_1", "free_2")
    assert player(PolicyOptions(experts=2)).of_expert.sum(0).tolist() == pytest.approx([1, 1])
    assert player(PolicyOptions(experts=6)).of_expert.sum(0).tolist() == pytest.approx(
        [1, 1, 1, 1, 0, 0]
    )


def test_an_observation_without_atoms_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs the observation 'atoms'"):
        ExpertPolicy({STATE: Part((STATE_SIZE,))}, rules(), PolicyOptions())


def test_an_unknown_router_is_refused() -> None:
    policy = player()
    wrong = DECLARED.with_([ROUTER.to("softmix")])
    with pytest.raises(ConfigError, match="'softmix' is not one of softmax, sparsemax, topk"):
        policy.think(observations(2), wrong)


def test_a_hundred_random_observations_give_moderate_finite_outputs() -> None:
    with torch.no_grad():
        thought = player().think(observations(100), DECLARED)
    assert bool(torch.isfinite(thought.value).all())
    assert float(thought.logits.abs().max()) < 10
    assert thought.spoken.intent.shape == (100, 64)


def test_the_numbers_of_a_player_are_drawn_from_the_seed() -> None:
    first, same, other = player(seed=1), player(seed=1), player(seed=2)
    pairs = [dict(one.named_parameters()) for one in (first, same, other)]
    assert all(torch.equal(pairs[0][name], pairs[1][name]) for name in pairs[0])
    for one, two in pairwise((pairs[1], pairs[2])):
        assert not torch.equal(one["graph.condition"], two["graph.condition"])
    assert ATOM_BITS in observations(1)

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.rollout import Sequences
from longhaul.core.settings import Settings
from longhaul.core.spaces import Part
from longhaul.tasks.nethack.policy.network import ALPHA
from longhaul.tasks.nethack.policy.options import SETTINGS, PolicyOptions
from longhaul.tasks.nethack.policy.skill_network import SkillPolicy
from longhaul.tasks.nethack.rule_order import RuleOrder
from longhaul.tasks.nethack.rules import read_rules
from longhaul.tasks.nethack.skills import SKILL_NAMES, SKILL_RULES, figures_size, skills_of
from longhaul.tasks.nethack.vocabulary import (
    ATOM_BITS,
    ATOM_INDEX,
    EXPERTS,
    SKILL_ATOM_NAMES,
    SKILLS,
    STATE,
    STATE_SIZE,
)

GRAPH = read_rules(SKILL_RULES)
NAMES = tuple(one.name for one in skills_of("score"))
PARTS = {
    STATE: Part((STATE_SIZE,)),
    ATOM_BITS: Part((len(SKILL_ATOM_NAMES),), "uint8"),
    SKILLS: Part((figures_size("score"),)),
}
OWN = PolicyOptions(own_skills=True, mixing="probabilities")
SETTLED = Settings(SETTINGS)
ROWS = 24


def policy(options: PolicyOptions) -> SkillPolicy:
    torch.manual_seed(3)
    return SkillPolicy(PARTS, GRAPH, options, NAMES)


def situations() -> tuple[dict[str, Tensor], Tensor]:
    """Return observations in which something applies, and what."""
    draw = torch.Generator().manual_seed(5)
    mask = torch.rand(ROWS, len(NAMES), generator=draw) < 0.4
    mask[:, NAMES.index("wait")] = True
    figures = torch.rand(ROWS, figures_size("score"), generator=draw)
    figures[:, : len(NAMES)] = mask.float()
    last = torch.randint(len(NAMES), (ROWS,), generator=draw)
    figures[:, len(NAMES) : 2 * len(NAMES)] = torch.nn.functional.one_hot(last, len(NAMES)).float()
    atoms = (torch.rand(ROWS, len(SKILL_ATOM_NAMES), generator=draw) < 0.3).to(torch.uint8)
    state = torch.rand(ROWS, STATE_SIZE, generator=draw)
    return {STATE: state, ATOM_BITS: atoms, SKILLS: figures}, mask


def probabilities(player: SkillPolicy) -> tuple[Tensor, Tensor]:
    obs, mask = situations()
    with torch.no_grad():
        act = player.act(obs, player.initial_state(ROWS), SETTLED, mask=mask)
    assert act.logits is not None
    return torch.softmax(act.logits, 1), act.memory[ALPHA]


def owner(skill: str) -> int:
    return EXPERTS.index(GRAPH.operators[SKILL_NAMES.index(skill)].expert)


def test_the_weights_of_experts_are_the_probabilities_of_their_skills() -> None:
    shares, alpha = probabilities(policy(OWN))
    by_expert = torch.zeros(ROWS, len(EXPERTS))
    for place, name in enumerate(NAMES):
        by_expert[:, owner(name)] += shares[:, place]
    torch.testing.assert_close(by_expert, alpha, atol=1e-5, rtol=1e-4)


def test_an_expert_with_nothing_to_do_has_no_weight() -> None:
    _, mask = situations()
    _, alpha = probabilities(policy(OWN))
    for expert in range(len(EXPERTS)):
        own = [place for place, name in enumerate(NAMES) if owner(name) == expert]
        idle = ~mask[:, own].any(1)
        assert float(alpha[idle, expert].sum()) == 0.0


def test_an_expert_is_held_until_something_interrupts_it() -> None:
    obs, mask = situations()
    _, free = probabilities(policy(OWN))
    _, held = probabilities(policy(replace(OWN, hold=0.9)))
    last = obs[SKILLS][:, len(NAMES) : 2 * len(NAMES)].argmax(1)
    for row in range(ROWS):
        expert = owner(NAMES[int(last[row])])
        own = [place for place, name in enumerate(NAMES) if owner(name) == expert]
        interrupted = bool(obs[ATOM_BITS][row, ATOM_INDEX["interrupted"]])
        if interrupted or not mask[row, own].any():
            assert torch.equal(held[row], free[row])
        else:
            assert float(held[row, expert]) >= 0.9


def test_a_large_weight_of_the_rules_is_the_rules_order() -> None:
    obs, mask = situations()
    player = policy(PolicyOptions(operator_weight=50.0, experts=1))
    with torch.no_grad():
        chosen = player.act(obs, player.initial_state(ROWS), SETTLED, mask=mask).action
    order = RuleOrder(GRAPH)
    scores = order.scores(obs[ATOM_BITS].numpy(), mask.numpy())
    # Where no rule holds for anything that applies, the rules have no say.
    advised = scores.max(1) > 0
    assert advised.any()
    best = scores[np.arange(ROWS), chosen.numpy()]
    assert np.array_equal(best[advised], scores.max(1)[advised])


def test_the_rules_route_to_the_owner_of_their_choice() -> None:
    obs, mask = situations()
    _, alpha = probabilities(policy(replace(OWN, router="rules")))
    choice = RuleOrder(GRAPH).choose(obs[ATOM_BITS].numpy(), mask.numpy())
    scores = RuleOrder(GRAPH).scores(obs[ATOM_BITS].numpy(), mask.numpy())
    for row in np.flatnonzero(scores.max(1) > 0):
        tied = {owner(NAMES[skill]) for skill in np.flatnonzero(scores[row] == scores[row].max())}
        assert int(alpha[row].argmax()) in {owner(NAMES[int(choice[row])])} | tied
        assert float(alpha[row].max()) == 1.0


def test_a_random_router_weighs_all_that_can_act_alike() -> None:
    _, alpha = probabilities(policy(replace(OWN, router="random")))
    for row in alpha:
        assert len(set(row[row > 0].tolist())) == 1


@pytest.mark.parametrize(
    "options",
    [OWN, replace(OWN, hold=0.5, operator_weight=1.0), PolicyOptions(experts=1), PolicyOptions()],
)
def test_what_was_done_is_judged_as_it_was_done(options: PolicyOptions) -> None:
    player = policy(options)
    obs, mask = situations()
    memory = player.initial_state(ROWS)
    with torch.no_grad():
        act = player.act(
            obs, memory, SETTLED, mask=mask, generator=torch.Generator().manual_seed(1)
        )
        sequences = Sequences(
            {name: part.unsqueeze(0) for name, part in obs.items()},
            act.action.unsqueeze(0),
            torch.ones(1, ROWS, dtype=torch.bool),
            mask.unsqueeze(0),
            memory,
            0,
        )
        judged = player.evaluate_actions(sequences, SETTLED)
    torch.testing.assert_close(judged.log_prob[0], act.log_prob, atol=1e-5, rtol=1e-5)
    assert all(bool(loss.isfinite()) for loss in judged.aux_losses.values())


def test_shuffled_rules_call_for_other_skills() -> None:
    right = policy(PolicyOptions(operator_weight=50.0))
    wrong = policy(PolicyOptions(operator_weight=50.0, shuffle_rules=1))
    assert not torch.equal(probabilities(right)[0].argmax(1), probabilities(wrong)[0].argmax(1))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"own_skills": True}, "needs options.policy.mixing"),
        ({"hold": 0.5}, "needs options.policy.own_skills"),
        ({"hold": 2.0}, "between 0 and 1"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    values: dict[str, float | bool], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        PolicyOptions(**values)  # type: ignore[arg-type]

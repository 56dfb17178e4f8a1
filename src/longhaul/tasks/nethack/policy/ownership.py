"""Which skills are whose, and what the rules make of them, as tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
from longhaul.nets.heads import FORBIDDEN
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import ATOM_INDEX, EXPERTS

INTERRUPTED = ATOM_INDEX["interrupted"]


class SkillOwnership(nn.Module):
    """Confines experts to their own skills, holds one for a stretch, and scores skills by rules.

    With weights a_k of the experts, M the skills that apply and S_k those of expert k:

        a_k  <-  a_k [S_k and M have a skill in common], normalized
        a    <-  (1 - h) a + h held, where the last skill was not interrupted

    Rules score a skill by the place of its highest rule that holds among all rules' priors.
    """

    member: Tensor  # [K, S]
    rule_operator: Tensor  # [R] int64
    place: Tensor  # [R] float

    def __init__(self, graph: RuleGraph, options: PolicyOptions, choices: int) -> None:
        super().__init__()
        if graph.over != "skills":
            raise ConfigError(
                "options.policy: own_skills, operator_weight, shuffle_rules and the routers "
                "'rules' and 'random' need options.play = 'skills'"
            )
        own = torch.from_numpy(graph.operator_expert[:choices].copy())
        if options.experts < len(EXPERTS):
            own = own * options.experts // len(EXPERTS)
        member = nn.functional.one_hot(own, max(options.experts, int(own.max()) + 1)).T.float()
        if not options.own_skills:
            member = torch.ones_like(member)
        _, place = np.unique(graph.prior, return_inverse=True)
        self.choices = choices
        self.hold = options.hold
        self.own_skills = options.own_skills
        self.weight = nn.Parameter(torch.tensor(float(options.operator_weight)))
        self.weight.requires_grad_(options.operator_weight > 0)
        constants = {
            "member": member[: options.experts],
            "rule_operator": torch.from_numpy(graph.rule_operator.copy()),
            "place": torch.from_numpy(place + 1.0).float(),
        }
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)

    def wants(self, worth: Tensor) -> Tensor:
        """Return the place [N, S] of each skill's highest rule that holds; 0 if none does.

        `worth` [N, R] is how well each rule fits, 0 where it does not hold.
        """
        places = torch.where(worth > 0, self.place, 0.0)
        index = self.rule_operator.expand_as(places)
        found = places.new_zeros(len(places), int(self.rule_operator.max()) + 1)
        return found.scatter_reduce(1, index, places, "amax")[:, : self.choices]

    def weights(self, alpha: Tensor, mask: Tensor, last: Tensor, atoms: Tensor) -> Tensor:
        """Return the experts' weights [N, K] by what applies and who acted last.

        `last` [N, S] marks the last skill.
        """
        able = (mask.float() @ self.member.T > 0).float()
        open_to = alpha * able + torch.finfo(alpha.dtype).tiny * able
        alpha = open_to / open_to.sum(1, keepdim=True).clamp(min=torch.finfo(alpha.dtype).tiny)
        if self.hold == 0:
            return alpha
        held = (last @ self.member.T) * able * (atoms[:, INTERRUPTED : INTERRUPTED + 1] == 0)
        share = self.hold * held.sum(1, keepdim=True).clamp(max=1.0)
        return (1 - share) * alpha + share * held

    def confined(self, expert_logits: Tensor) -> Tensor:
        """Return logits [N, K, S] with the skills of other experts out of reach."""
        if not self.own_skills:
            return expert_logits
        return expert_logits.masked_fill(self.member == 0, FORBIDDEN)

    def by_rules(self, wants: Tensor, mask: Tensor) -> Tensor:
        """Return weights [N, K]: all on the expert of the skill that the rules call for most."""
        chosen = wants.masked_fill(~mask, -1.0).argmax(1)
        owner = self.member.T[chosen]
        return owner / owner.sum(1, keepdim=True)

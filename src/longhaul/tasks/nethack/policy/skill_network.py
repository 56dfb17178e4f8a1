"""The experts' network for a player that chooses skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from longhaul.core.rollout import TensorTree
from longhaul.core.spaces import Part
from longhaul.tasks.nethack.policy.graph import Thought
from longhaul.tasks.nethack.policy.network import ExpertPolicy
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.policy.ownership import SkillOwnership
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import ATOM_BITS, SKILLS

UNWANTED = -1.0
"""Below the place of every rule."""


class SkillPolicy(ExpertPolicy):
    """Experts for skills: they may own some, be held for a stretch, and start from the rules."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        graph: RuleGraph,
        options: PolicyOptions,
        choices: tuple[str, ...],
    ) -> None:
        if options.shuffle_rules:
            graph = graph.shuffled(options.shuffle_rules)
        super().__init__(parts, graph, options, choices)
        self.ownership = SkillOwnership(graph, options, len(choices))

    def _refined(self, thought: Thought, obs: TensorTree, mask: Tensor | None) -> Thought:
        """Return the thought with logits and weights by rules, ownership and the last skill."""
        own, atoms, figures = self.ownership, obs[ATOM_BITS], obs[SKILLS]
        choices = own.choices
        applies = figures[:, :choices] > 0 if mask is None else mask
        with torch.no_grad():
            wants = own.wants(self.graph.patterns.match(atoms.float()))
            best = wants.masked_fill(~applies, UNWANTED).amax(1, keepdim=True)
            below = (wants - best).clamp(max=0.0)
        expert_logits = own.confined(thought.expert_logits + (own.weight * below).unsqueeze(1))
        match self.options.router:
            case "rules":
                alpha = own.by_rules(wants, applies)
            case "random":
                alpha = torch.ones_like(thought.alpha)
            case _:
                alpha = thought.alpha
        alpha = own.weights(alpha, applies, figures[:, choices : 2 * choices], atoms)
        mixed = (alpha.unsqueeze(1) @ expert_logits).squeeze(1)
        return replace(thought, alpha=alpha, expert_logits=expert_logits, logits=mixed)

"""How the player's network is built, and the settings the phases may change while it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, AT_LEAST_2, SHARE, Ranges, check_ranges
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting

Learned = Literal["softmax", "sparsemax", "topk"]
Unlearned = Literal["rules", "random"]
RouterKind = Literal[Learned, Unlearned]
ROUTERS: tuple[RouterKind, ...] = ("softmax", "sparsemax", "topk", "rules", "random")
"""The last two are not learned: all weight on the expert whose skill the rules call for most, and
equal weights; they need skills."""

LEARNED: tuple[Learned, ...] = ("softmax", "sparsemax", "topk")
UNLEARNED: tuple[Unlearned, ...] = ("rules", "random")

ROUTER = Setting("router.kind", "softmax", "how the router's logits become weights")
TEMPERATURE = Setting(
    "router.temperature", 1.0, "divides the router's logits; lower is sharper", low=0.01
)
TEMPERATURE_SCALE = Setting(
    "router.temperature_scale",
    1.0,
    "multiplies the router's temperature; the phases leave it to a schedule that follows a metric",
    low=0.01,
)
ALIGNMENT_TEMPERATURE = Setting(
    "router.alignment_temperature", 1.0, "divides the rules' recommendation", low=0.01
)
ALPHA_ENTROPY = Setting(
    "loss.alpha_entropy",
    -0.1,
    "weight of the entropy of the experts' weights; negative maximizes it, positive minimizes it",
)
LOAD_BALANCE = Setting("loss.load_balance", 0.02, "weight of unequal use of experts", low=0.0)
DIVERSITY = Setting("loss.diversity", 0.01, "weight of the experts' mean likeness", low=0.0)
ALIGNMENT = Setting("loss.alignment", 0.1, "weight of the distance from the rules", low=0.0)
SEMANTIC = Setting("loss.semantic", 0.05, "weight of the experts' absolute likeness", low=0.0)
TEMPORAL = Setting("loss.temporal", 0.0, "weight of changes from step to step", low=0.0)
OVERLAP = Setting("loss.overlap", 0.0, "weight of alike experts acting together", low=0.0)

LOSSES = (ALPHA_ENTROPY, LOAD_BALANCE, DIVERSITY, ALIGNMENT, SEMANTIC, TEMPORAL, OVERLAP)
SETTINGS = (ROUTER, TEMPERATURE, TEMPERATURE_SCALE, ALIGNMENT_TEMPERATURE, *LOSSES)

LEARNING_RATE = "learn.learning_rate"
ENT_COEF = "learn.ent_coef"
"""The learner's own settings that the phases write; a task knows no learner, so by name."""


Fusion = Literal["concat", "cross_attention"]
Mixing = Literal["logits", "probabilities"]
CoreKind = Literal["none", "gru", "lstm"]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """A stream through the rule graph, a router, experts and a critic."""

    fusion: Fusion = "concat"
    """How observation and rules are combined: concatenated, or by attention."""
    router: Literal["schedule"] | RouterKind = "schedule"
    """How the router's logits become weights; `schedule` leaves it to the phases."""
    experts: int = 4
    """Number of experts. With two, each stands for two of the rules' experts; those beyond four
    have no rules."""
    own_skills: bool = False
    """Whether each expert chooses among the skills only that the rules file gives it."""
    hold: float = 0.0
    """Share of the weights that stays with the expert of the last skill, unless something
    interrupted it; needs `own_skills`."""
    operator_weight: float = 0.0
    """How much the rules' order adds to the logit of a skill for each place in it, at first; the
    weight is learned. 0 leaves the rules out of the logits."""
    shuffle_rules: int = 0
    """A seed by which each skill gets another one's rules, as a control; 0 leaves them right."""
    freeze_graph: bool = False
    """Whether the weights of the rule graph stay at their initial values."""
    graph_size: int = 64
    """Width of the graph's embeddings and of the intent vector."""
    graph_heads: int = 4
    """Attention heads of the graph; must divide `graph_size`."""
    rule_boost: float = 2.0
    """How much a rule that holds adds to its operator's score."""
    state_size: int = 256
    """Width of the observation's encoder."""
    router_size: int = 128
    """Width of the router's first layer; the second has half of it."""
    expert_size: int = 128
    """Width of each expert's two layers."""
    critic_size: int = 256
    """Width of the critic's first layer; the second has half of it."""
    experts_see_intent: bool = True
    """Whether experts get the intent vector, or only the observation."""
    mixing: Mixing = "logits"
    """Whether the experts' logits or their probabilities are added up."""
    alignment_on: Literal["logits", "weights"] = "logits"
    """What the rules' recommendation is compared with: the softmax of the router's logits, which
    has a gradient for every expert, or the weights, which have none for one that was left out."""
    align_relative: bool = True
    """Whether the score of an expert's rules counts by how far it is above what is usual for it in
    the minibatch. Without, the expert whose rules nearly always hold is recommended nearly
    always."""
    align_detach: bool = True
    """Whether the recommendation is a constant: alignment then moves only the router."""
    map_channels: int = 16
    """Channels of the first convolution over the map crop, if the task shows one; the second has
    twice as many."""
    map_features: int = 128
    """Outputs of the network that reads the map crop."""
    core: CoreKind = "none"
    """A memory between encoder and router: intents can outlast a step. With one, set
    collect.chunk to 16 or more, without one to 1."""
    core_size: int = 128
    """Outputs of the memory."""

    def __post_init__(self) -> None:
        check_ranges(self, "options.policy", _RANGES)
        if self.own_skills and self.mixing != "probabilities":
            raise ConfigError(
                "options.policy.own_skills = true needs options.policy.mixing = 'probabilities': "
                "logits of different skills cannot be added up"
            )
        if self.hold and not self.own_skills:
            raise ConfigError(
                f"options.policy.hold = {self.hold} needs options.policy.own_skills = true, which "
                "says whose the last skill was"
            )
        if self.graph_size % self.graph_heads:
            raise ConfigError(
                f"options.policy.graph_heads = {self.graph_heads} does not divide "
                f"options.policy.graph_size = {self.graph_size}"
            )

    @property
    def needs_skills(self) -> bool:
        """Whether anything is asked for that only skills have."""
        rules = self.operator_weight > 0 or self.shuffle_rules > 0
        return self.own_skills or rules or self.router in UNLEARNED


_RANGES: Ranges = {
    AT_LEAST_0: "rule_boost operator_weight shuffle_rules",
    SHARE: "hold",
    AT_LEAST_1: "experts graph_size graph_heads state_size expert_size map_channels map_features "
    "core_size",
    # The second layers of router and critic have half of it.
    AT_LEAST_2: "router_size critic_size",
}

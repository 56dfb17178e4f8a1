"""What the phases may change of the player while it learns."""

from __future__ import annotations

from typing import Literal

from longhaul.core.settings import Setting

RouterKind = Literal["softmax", "sparsemax", "topk"]
ROUTERS: tuple[RouterKind, ...] = ("softmax", "sparsemax", "topk")

ROUTER = Setting("router.kind", "softmax", "how weights are made of the router's logits")
TEMPERATURE = Setting(
    "router.temperature", 1.0, "divides the router's logits; lower is sharper", low=0.01
)
ALIGNMENT_TEMPERATURE = Setting(
    "router.alignment_temperature", 1.0, "divides the rules' recommendation", low=0.01
)
ALPHA_ENTROPY = Setting(
    "loss.alpha_entropy",
    -0.1,
    "weight of the entropy of the experts' weights; negative seeks it, positive shuns it",
)
LOAD_BALANCE = Setting("loss.load_balance", 0.02, "weight of unequal use of experts", low=0.0)
DIVERSITY = Setting("loss.diversity", 0.01, "weight of the experts' mean likeness", low=0.0)
ALIGNMENT = Setting("loss.alignment", 0.1, "weight of the distance from the rules", low=0.0)
SEMANTIC = Setting("loss.semantic", 0.05, "weight of the experts' absolute likeness", low=0.0)
TEMPORAL = Setting("loss.temporal", 0.0, "weight of changes from step to step", low=0.0)
OVERLAP = Setting("loss.overlap", 0.0, "weight of alike experts acting together", low=0.0)

LOSSES = (ALPHA_ENTROPY, LOAD_BALANCE, DIVERSITY, ALIGNMENT, SEMANTIC, TEMPORAL, OVERLAP)
SETTINGS = (ROUTER, TEMPERATURE, ALIGNMENT_TEMPERATURE, *LOSSES)

LEARNING_RATE = "learn.learning_rate"
ENTROPY_WEIGHT = "learn.entropy_weight"
"""The learner's own settings that the phases write; a task knows no learner, so by name."""

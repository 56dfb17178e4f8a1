"""The general rules with the names the fish's own options have."""

from __future__ import annotations

from longhaul.core.hint import Rule
from longhaul.hints.steering import GateStuck, QueueLow

GATE = "options.training.gate"
HINTS: tuple[Rule, ...] = (
    GateStuck(
        settings={
            "eval/p10": f"{GATE}.success_p10",
            "eval/early_death_fraction_100": f"{GATE}.success_early_death",
            "eval/step_one_excess": f"{GATE}.success_step_one",
            "eval/step_one_excess_ratio": f"{GATE}.success_step_one_ratio",
            "eval/step_one_death_count": f"{GATE}.success_step_one",
            "eval/step_one_death_ratio": f"{GATE}.success_step_one_ratio",
        }
    ),
    QueueLow(setting="options.tail.stages"),
)

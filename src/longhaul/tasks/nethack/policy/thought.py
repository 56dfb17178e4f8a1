"""What the network makes of what it sees."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longhaul.tasks.nethack.policy.graph import Spoken


@dataclass(frozen=True, slots=True)
class Thought:
    """What the network makes of N observations."""

    logits: Tensor  # [N, A], before the mask, of the actions
    value: Tensor  # [N]
    alpha: Tensor  # [N, K]
    router_logits: Tensor  # [N, K], divided by the temperature
    expert_logits: Tensor  # [N, K, A]
    spoken: Spoken  # of each row

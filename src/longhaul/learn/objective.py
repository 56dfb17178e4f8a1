"""What every learner adds to its policy and value losses."""

from __future__ import annotations

import torch
from torch import Tensor

from longhaul.core.policy import Judgement
from longhaul.core.settings import Settings
from longhaul.learn.losses import Part, entropy_bonus
from longhaul.learn.optimise import Pull
from longhaul.learn.settings import ENTROPY_WEIGHT, aux_weight


def common_pulls(
    judgement: Judgement, entropy: Tensor, settings: Settings, *, share: float
) -> list[Pull]:
    """Return the entropy bonus and the policy's own losses, each weighted by its setting."""
    weight = settings[ENTROPY_WEIGHT]
    bonus = entropy_bonus(entropy, scale=weight * share)
    pulls = [Pull("train/entropy_loss", entropy, bonus, weight)]
    for name, loss in judgement.aux_losses.items():
        weight = aux_weight(settings, name)
        gradient = torch.full_like(loss, weight * share)
        pulls.append(Pull(f"train/aux_{name}", loss, Part(loss.detach(), gradient), weight))
    return pulls


def policy_measures(judgement: Judgement) -> dict[str, Tensor]:
    """Return the policy's own measurements under `policy/`, unless they name their group."""
    return {
        name if "/" in name else f"policy/{name}": measured.detach()
        for name, measured in judgement.metrics.items()
    }

"""Figures of a table of death steps, as the original defined them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EARLY = (100, 150)
PERCENTILES = {"p10": 10, "p25": 25, "median_death_step": 50, "p75": 75, "p90": 90}


def survival_figures(deaths: NDArray[np.int32], *, time_limit: int) -> dict[str, float]:
    """Return all figures of episodes [episodes, fish] by name; survivors are -1.

    A fish that dies in the very last step counts as dead in the survival rates, but as a survivor
    in `survival_fraction` and all percentiles, which see `time_limit` for both.
    """
    survived = (deaths < 0).mean(axis=1)
    steps = np.where(deaths < 0, time_limit, deaths).ravel()
    figures = {
        "avg_final_survival_rate": survived.mean(),
        "min_final_survival_rate": survived.min(),
        # Fish do not come back, so the lowest rate within an episode is its last.
        "avg_min_survival_rate": survived.mean(),
        "min_of_min_survival_rate": survived.min(),
        "median_min_survival_rate": np.median(survived),
        "mean_death_step": steps.mean(),
        "survival_fraction": (steps >= time_limit).mean(),
        "total_fish_samples": steps.size,
        "step_one_death_count": (deaths == 1).sum(),
        "step_one_death_ratio": (deaths == 1).mean(),
    }
    figures |= {f"early_death_fraction_{step}": (steps < step).mean() for step in EARLY}
    figures |= {name: np.percentile(steps, share) for name, share in PERCENTILES.items()}
    return {name: float(value) for name, value in figures.items()}

"""A handful of numbers in eight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def block(values: Sequence[float]) -> dict[str, float | None]:
    """Return count, mean, spread, percentiles and extremes; None where there is nothing."""
    if not values:
        names = ("mean", "std", "p10", "p50", "p90", "min", "max")
        return {"count": 0, **dict.fromkeys(names)}
    array = np.asarray(values, np.float64)
    p10, p50, p90 = np.percentile(array, (10, 50, 90))
    return {
        "count": len(array),
        "mean": float(array.mean()),
        "std": float(array.std()),
        "p10": float(p10),
        "p50": float(p50),
        "p90": float(p90),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def histogram(values: Sequence[float], edges: Sequence[float]) -> dict[str, list[float]]:
    """Return the counts between edges; the last edge belongs to the last bin."""
    counts, _ = np.histogram(np.asarray(values, np.float64), bins=np.asarray(edges, np.float64))
    return {"bins": counts.tolist(), "edges": [float(edge) for edge in edges]}

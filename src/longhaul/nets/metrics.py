"""What the generic policy tells about itself."""

from __future__ import annotations

from longhaul.core.metrics import Metric

METRICS = (Metric("policy/std", "mean standard deviation of continuous actions"),)

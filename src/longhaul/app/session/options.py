"""Options of a session; importing them does not import torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a session that are not part of the run's config."""

    as_json: bool = False
    quiet: bool = False
    require_gpu: bool = False
    report: bool = False
    """Whether a finished run writes films, plots and a report, as its config specifies."""

"""How the user wants a session to be carried out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How the user wants a run to be carried out."""

    as_json: bool = False
    quiet: bool = False
    require_gpu: bool = False
    report: bool = False
    """Whether a finished run leaves films, plots and a report behind, as its config says."""

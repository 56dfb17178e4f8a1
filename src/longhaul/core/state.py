"""Parts of a run that can be saved and restored."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

State = dict[str, Any]
"""A tree of dicts with string keys, lists, None, bool, int, float, str, bytes, NumPy arrays and
tensors. Nothing else may be saved: a checkpoint is safetensors and JSON, never pickle."""


@runtime_checkable
class Stateful(Protocol):
    """Something whose whole future depends on what `state_dict` returns."""

    def state_dict(self) -> State:
        """Return everything needed to continue exactly."""

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state."""

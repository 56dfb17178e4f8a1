"""The side-cars of the predecessor's checkpoints: the step count that overlapped runs lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longhaul.tasks.kind import MendedFile, MendRequest

PATTERN = "a3c_world*.json"
AUDIT = "reconstructed_step_source"
"""The field of a repaired side-car that names the formula."""


def mend_side_car(path: Path, request: MendRequest) -> MendedFile:
    """Return the state of a side-car; with its content if `global_step` can be computed."""
    try:
        side_car = json.loads(path.read_bytes())
    except ValueError:
        return MendedFile("not_json")
    saved = _table(side_car, "save_state")
    update, extra = _whole(saved, "global_update"), {}
    if not update:
        update = _whole(request.read_weights(path.with_suffix(".pt")), "global_update")
        extra = {"checkpoint_global_update": update}
    if not update:
        return MendedFile("no_update_info")
    num_envs = _whole(_table(side_car, "vector_env"), "num_envs")
    if not num_envs:
        return MendedFile("missing_num_envs")
    if AUDIT in side_car:
        return MendedFile("already_reconstructed")
    computed, step = update * num_envs * request.num_steps, _whole(saved, "global_step")
    if step and not request.if_lower:
        return MendedFile("already_has_step")
    if step >= computed:
        return MendedFile("current_step>=computed")
    audit = {
        "method": "checkpoint_plus_rollout" if extra else "assumed_rollout_steps",
        "rollout_steps": request.num_steps,
        "formula": "global_update * num_envs * rollout_steps",
        "computed_at": request.now,
        **extra,
    }
    side_car |= {"save_state": {**saved, "global_step": computed}, AUDIT: audit}
    return MendedFile(str(computed), (json.dumps(side_car, indent=2) + "\n").encode())


def _table(values: Any, name: str) -> dict[str, Any]:
    found = values.get(name) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def _whole(values: Mapping[str, Any], name: str) -> int:
    """Return a count, 0 if there is none."""
    found = values.get(name)
    return found if isinstance(found, int) and found > 0 else 0

"""The stages of bad starts as options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.fish.hard_starts.files import Applied


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A stage of bad starts."""

    iterations: int
    """Length of the stage."""
    path: str = ""
    """The file of starts; empty: a stage without bad starts."""
    type: str = ""
    """What the stage is counted under; several stages may share a type."""
    label: str = ""
    """The stage's name in logs; empty: `stage1:ne` and so on."""
    velocities: Literal["", "before", "after"] = ""
    """When a bare velocity is given to the predator; empty: as `options.tail.velocities`."""

    def resolved(self, number: int, velocities: Applied) -> StageSpec:
        """Return the stage with everything filled in that was left empty."""
        where = f"options.tail.stages: stage {number}"
        if self.iterations < 1:
            raise ConfigError(f"{where}: iterations = {self.iterations} must be at least 1")
        if not re.fullmatch(r"[\w-]*", self.type):
            raise ConfigError(
                f"{where}: type {self.type!r} becomes part of metric names and may "
                "contain only letters, digits, _ and -"
            )
        name = Path(self.path).stem if self.path else "rest"
        return replace(
            self,
            type=self.type.lower(),
            label=self.label or f"stage{number}:{name}",
            velocities=self.velocities or velocities,
        )

    @property
    def applied(self) -> Applied:
        """When a bare velocity is given to the predator."""
        return self.velocities or "after"


def with_reinjections(
    stages: Sequence[StageSpec], wanted: Mapping[str, float], *, where: str
) -> tuple[StageSpec, ...]:
    """Return the stages, with a type's last one again at the end until it comes back so often."""
    extended = list(stages)
    for stage_type, minimum in wanted.items():
        own = [stage for stage in stages if stage.type == stage_type]
        if not own:
            types = sorted({stage.type for stage in stages})
            raise ConfigError(
                f"{where}: no stage has type {stage_type!r}{suggestion(stage_type, types)}"
            )
        missing = int(minimum) - (len(own) - 1)
        extended += [
            replace(own[-1], label=f"{own[-1].label} again{number}")
            for number in range(1, missing + 1)
        ]
    return tuple(extended)

"""Where in its stages a queue of bad starts stands, from one number: how much is consumed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

NORTH_EAST = "ne"
"""The type whose returns the original counted separately."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stage as the tracker sees it."""

    capacity: int
    stage_type: str
    label: str


@dataclass(frozen=True, slots=True)
class TailStatus:
    """Everything a reader wants to know of the queue at one moment."""

    index: int  # of the stage, from 1
    label: str
    stage_type: str
    progress: float  # within the stage
    remaining: int
    remaining_ratio: float  # of the total
    consumed: int
    total_capacity: int
    remaining_by_type: Mapping[str, int]
    remaining_ratio_by_type: Mapping[str, float]  # each over the total capacity
    reinjections_by_type: Mapping[str, int]  # stages of the type entered so far, without the first

    @property
    def ne_reinjections(self) -> int:
        """The same for the type `ne`."""
        return self.reinjections_by_type.get(NORTH_EAST, 0)


@dataclass(frozen=True, slots=True)
class StageTracker:
    """The stages with their capacities, one after the other."""

    spans: tuple[Span, ...]

    @property
    def total(self) -> int:
        """The capacity of all stages."""
        return sum(span.capacity for span in self.spans)

    def ends(self) -> tuple[int, ...]:
        """Return what is consumed at the end of each stage."""
        return tuple(itertools.accumulate(span.capacity for span in self.spans))

    def position(self, consumed: int) -> int:
        """Return the number, from 0, of the first stage that ends after `consumed`.

        Once everything is consumed it is the number of stages.
        """
        return sum(end <= consumed for end in self.ends())

    def status(self, consumed: int, *, stage: int | None = None) -> TailStatus:
        """Return the status; after the end, that of a finished last stage.

        It tells of the stage that comes next, or of the one with the number `stage`, from 0.
        """
        total = self.total
        consumed = min(consumed, total)
        position = min(self.position(consumed) if stage is None else stage, len(self.spans) - 1)
        span, ends = self.spans[position], self.ends()
        begin = ends[position] - span.capacity
        left = {
            stage_type: sum(
                min(other.capacity, max(0, end - consumed))
                for other, end in zip(self.spans, ends, strict=True)
                if other.stage_type == stage_type
            )
            for stage_type in self.types()
        }
        entered = [other.stage_type for other in self.spans[: position + 1]]
        return TailStatus(
            index=position + 1,
            label=span.label,
            stage_type=span.stage_type,
            progress=min((consumed - begin) / span.capacity, 1.0),
            remaining=total - consumed,
            remaining_ratio=(total - consumed) / total,
            consumed=consumed,
            total_capacity=total,
            remaining_by_type=left,
            remaining_ratio_by_type={name: count / total for name, count in left.items()},
            reinjections_by_type={name: max(0, entered.count(name) - 1) for name in self.types()},
        )

    def types(self) -> tuple[str, ...]:
        """Return the types in the order they are met; stages without one have none."""
        return tuple(dict.fromkeys(span.stage_type for span in self.spans if span.stage_type))

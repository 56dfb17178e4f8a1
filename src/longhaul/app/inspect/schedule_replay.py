"""What a schedule would have decided over the metrics of a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.schedule.config import frozen
from longhaul.schedule.schedule import CHANGE_EVENT, Change, Move, Schedule

Agreement = Literal["same", "differs", "only replayed", "only recorded", "explains", "opening"]
"""Whether the run did the same. `explains`: the decision changed nothing. `opening`: a value the
first iteration began with, which a run does not record as a change."""


@dataclass(frozen=True, slots=True)
class RecordedMove:
    """A setting's change as a run recorded it."""

    iteration: int
    controller: str
    move: Move
    why: str = ""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One line of a replay: what was decided, and whether the recorded run did the same."""

    iteration: int
    controller: str
    move: Move | None  # None: the decision changed nothing and only explains
    why: str
    agreement: Agreement
    recorded: Move | None  # what the run did to this setting, None: nothing


def recorded_moves(events: Iterable[Mapping[str, Any]]) -> tuple[RecordedMove, ...]:
    """Return the moves among a run's events: rows of `Change.as_row` with their `iteration`."""
    found: list[RecordedMove] = []
    for event in events:
        if event.get("event") != CHANGE_EVENT:
            continue
        try:
            found += [
                RecordedMove(
                    int(event["iteration"]),
                    str(event["controller"]),
                    Move(
                        str(move["setting"]),
                        frozen(move["old"], "old"),
                        frozen(move["new"], "new"),
                    ),
                    str(event.get("why", "")),
                )
                for move in event["moves"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the recorded change {dict(event)!r} cannot be read") from error
    return tuple(found)


def replay(
    schedule: Schedule,
    rows: Iterable[Mapping[str, Any]],
    recorded: Iterable[RecordedMove] = (),
) -> Iterator[Replayed]:
    """Run a fresh schedule over recorded rows and yield its decisions in order.

    A row holds `iteration`, `env_steps`, `episodes` and, beside them, the metrics. They are those
    of the recorded run; the effect of other settings on them is unknown. Metrics that the
    controllers emit are computed again, not read.
    """
    by_iteration: dict[int, list[RecordedMove]] = {}
    for recorded_move in recorded:
        by_iteration.setdefault(recorded_move.iteration, []).append(recorded_move)
    own = schedule.emits
    settings, changes = schedule.begin(schedule.settings)
    yield from _opening(changes)
    for row in rows:
        progress, metrics = _row(row)
        measured = {name: value for name, value in metrics.items() if name not in own}
        settings, changes = schedule.step(View(progress, measured, settings))
        iteration = progress.iteration
        yield from _compared(iteration, changes, by_iteration.pop(iteration, ()))


def _opening(changes: Iterable[Change]) -> Iterator[Replayed]:
    for change in changes:
        for move in change.moves:
            yield Replayed(0, change.controller, move, change.why, "opening", None)


def _row(row: Mapping[str, Any]) -> tuple[Progress, Metrics]:
    try:
        progress = Progress(int(row["iteration"]), int(row["env_steps"]), int(row["episodes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"a recorded row needs whole numbers iteration, env_steps and episodes; it has "
            f"{', '.join(map(str, row))}"
        ) from error
    return progress, {name: value for name, value in row.items() if "/" in name}


def _compared(
    iteration: int, changes: Iterable[Change], recorded: Sequence[RecordedMove]
) -> Iterator[Replayed]:
    did = {entry.move.setting: entry for entry in recorded}
    for change in changes:
        if not change.moves:
            yield Replayed(iteration, change.controller, None, change.why, "explains", None)
        for move in change.moves:
            entry = did.pop(move.setting, None)
            then = None if entry is None else entry.move
            agreement = _agreement(move, then)
            yield Replayed(iteration, change.controller, move, change.why, agreement, then)
    for entry in did.values():
        yield Replayed(iteration, entry.controller, None, entry.why, "only recorded", entry.move)


def _agreement(replayed: Move, recorded: Move | None) -> Agreement:
    if recorded is None:
        return "only replayed"
    return "same" if replayed.new == recorded.new else "differs"

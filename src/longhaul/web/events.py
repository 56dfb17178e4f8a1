"""Events of a run in order: decisions, hints, faults, sessions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.hint import HINT_EVENT
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.follow import LogFollower, Row

MOST_KEPT = 400
MOST_SETTINGS = 100
LONGEST_TEXT = 2000
LONGEST_COOLDOWN = 500
"""Longest wait, in iterations, before a rule repeats its hint; it doubles each time."""
_PLACE = ("event", "time", "iteration", "env_steps", "pid", "host")


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One line of the events."""

    event: str
    step: float | None
    iteration: float | None
    time: str
    facts: dict[str, str]

    @property
    def silence(self) -> float:
        """Iterations after which a hint that still applies is repeated."""
        times = self.facts.get("times", "")
        count = int(times) if times.isdecimal() and len(times) < 10 else 1
        return LONGEST_COOLDOWN * 2.0 ** min(max(count, 1) - 1, 30)

    def as_row(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "event": self.event,
            "step": self.step,
            "iteration": self.iteration,
            "time": self.time,
            "facts": self.facts,
        }


@dataclass(slots=True)
class WorkerHealth:
    """Faults of one worker, or of the environments in the trainer's process."""

    kinds: Counter[str] = field(default_factory=Counter)
    last: str = ""
    time: str = ""


class RunEvents:
    """Follows events.jsonl and sessions.jsonl; all are counted, the newest are kept."""

    def __init__(self, directory: RunDirectory) -> None:
        self._events = LogFollower(directory.events)
        self._sessions = LogFollower(directory.sessions)
        self.restarted = False
        self._forget_events()
        self._forget_sessions()

    def _forget_events(self) -> None:
        self.decisions: deque[dict[str, Any]] = deque(maxlen=MOST_KEPT)
        self.others: deque[LoggedEvent] = deque(maxlen=MOST_KEPT)
        self.counts: Counter[str] = Counter()
        self.hints: dict[str, LoggedEvent] = {}
        self._seen: set[str] = set()

    def _forget_sessions(self) -> None:
        self.sessions: deque[LoggedEvent] = deque(maxlen=MOST_KEPT)
        self.session_counts: Counter[str] = Counter()
        self.session_hints: dict[str, LoggedEvent] = {}
        self.workers: dict[str, WorkerHealth] = {}

    def advance(self) -> tuple[list[Row], bool]:
        """Read a piece of each log; return the settings' values in it, and whether there is more.

        `restarted` means that the values returned before are invalid.
        """
        piece = self._events.next_piece()
        self.restarted = piece.restarted
        if piece.restarted:
            self._forget_events()
        moved = [row for event in piece.rows for row in self._take_event(event)]
        other = self._sessions.next_piece()
        if other.restarted:
            self._forget_sessions()
        for row in other.rows:
            self._take_session(row)
        return moved, not (piece.is_last and other.is_last)

    def _take_event(self, row: Row) -> list[Row]:
        event = str(row.get("event", ""))
        self._count(self.counts, event)
        if event == "schedule":
            return self._take_decision(row)
        happening = _logged_event(row)
        if event == HINT_EVENT:
            _keep_hint(self.hints, happening)
        else:
            self.others.append(happening)
        return []

    def _take_decision(self, row: Row) -> list[Row]:
        """Keep a decision; return the values after it, and before it for settings not seen yet."""
        moves = row.get("moves")
        moves = (
            [move for move in moves if isinstance(move, Mapping)] if isinstance(moves, list) else []
        )
        self.decisions.append(
            {
                "step": _number(row.get("env_steps")),
                "iteration": _number(row.get("iteration")),
                "controller": _text(row.get("controller", "")),
                "moves": [
                    {
                        "setting": _text(move.get("setting", "")),
                        "old": _text(move.get("old")),
                        "new": _text(move.get("new")),
                    }
                    for move in moves
                ],
                "why": _text(row.get("why", "")),
            }
        )
        before, after = {}, {}
        for move in moves:
            setting, old, new = str(move.get("setting", "")), move.get("old"), move.get("new")
            if _number(new) is None or len(self._seen | {setting}) > MOST_SETTINGS:
                continue
            if setting not in self._seen and _number(old) is not None:
                before[setting] = old
            self._seen.add(setting)
            after[setting] = new
        place = {"iteration": row.get("iteration"), "env_steps": row.get("env_steps")}
        rows = [{"iteration": 0, "env_steps": 0, **before}] if before else []
        return [*rows, {**place, **after}] if after else rows

    def _take_session(self, row: Row) -> None:
        happening = _logged_event(row)
        self._count(self.session_counts, happening.event)
        if happening.event == HINT_EVENT:
            _keep_hint(self.session_hints, happening)
            return
        self.sessions.append(happening)
        if happening.event == "env_fault" and len(self.workers) < MOST_KEPT:
            worker = row.get("worker")
            name = "trainer" if worker is None else f"worker {_text(worker)}"
            health = self.workers.setdefault(name, WorkerHealth())
            health.kinds[_text(row.get("kind", "fault"))[:40]] += 1
            health.last = _text(row.get("error", ""))
            health.time = happening.time

    @staticmethod
    def _count(counts: Counter[str], event: str) -> None:
        if event in counts or len(counts) < MOST_KEPT:
            counts[event[:80]] += 1


def _keep_hint(hints: dict[str, LoggedEvent], happening: LoggedEvent) -> None:
    """Keep the last hint of each rule; hints without a rule are kept once per text."""
    key = happening.facts.get("rule") or hint_text(happening)
    hints.pop(key, None)
    hints[key] = happening
    if len(hints) > MOST_KEPT:
        hints.pop(next(iter(hints)))


def hint_text(happening: LoggedEvent) -> str:
    """Return a hint's text."""
    facts = happening.facts
    return next((facts[name] for name in ("text", "why", "hint") if facts.get(name)), "")


def _logged_event(row: Row) -> LoggedEvent:
    facts = {str(name)[:80]: _text(value) for name, value in row.items() if name not in _PLACE}
    return LoggedEvent(
        event=_text(row.get("event", ""))[:80],
        step=_number(row.get("env_steps")),
        iteration=_number(row.get("iteration")),
        time=_text(row.get("time", ""))[:40],
        facts=dict(list(facts.items())[:20]),
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and len(value) > 12:
        return f"{len(value)} entries"
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e300 else None

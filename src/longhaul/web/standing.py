"""How a run stands: running, stalled, crashed, finished, stopped or failed, and why one says so."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import psutil

from longhaul.runs.lock import Holder
from longhaul.runs.reader import RunState
from longhaul.runs.record import Status

Kind = Literal["running", "stalled", "crashed", "finished", "stopped", "failed"]
SILENT_SECONDS = 20.0
"""A heart beats every two seconds; one this late stands still, or its machine does."""
STUCK_SECONDS = 120.0
"""No stage of a usual iteration takes this long."""
STUCK_ITERATIONS = 20.0
_SLACK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """The kind, and in words what it was told by."""

    kind: Kind
    words: str


def standing(state: RunState, *, now: float, slowest_iteration: float = 0.0) -> Standing:
    """Return how a run stands; `slowest_iteration` is what it has needed so far, in seconds."""
    reason = state.record.reason
    match state.record.status:
        case Status.FINISHED:
            return Standing("finished", reason or "it reached its end")
        case Status.STOPPED:
            return Standing("stopped", reason or "it was stopped and can be resumed")
        case Status.FAILED:
            return Standing("failed", reason or "it ended with an error")
        case Status.RUNNING:
            return _running(state, now, slowest_iteration)


def _running(state: RunState, now: float, slowest_iteration: float) -> Standing:
    holder, beat = state.holder, state.beat
    if holder is None or not is_there(holder):
        return Standing("crashed", "its process is gone and left no word; it can be resumed")
    if beat is None:
        return Standing("running", "it is starting")
    silence = now - beat.wall
    if silence > SILENT_SECONDS:
        return Standing("stalled", f"its last heartbeat was {silence:.0f} s ago")
    patience = max(STUCK_SECONDS, STUCK_ITERATIONS * slowest_iteration)
    if beat.stage_seconds > patience:
        return Standing("stalled", f"it has been in {beat.stage} for {beat.stage_seconds:.0f} s")
    return Standing("running", beat.stage)


def is_there(holder: Holder) -> bool:
    """Whether the trainer still runs; not if it is a zombie or its number is another's now."""
    if not holder.is_alive:
        return False
    if holder.host != socket.gethostname():
        return True
    try:
        process = psutil.Process(holder.pid)
        since = datetime.fromisoformat(holder.since).timestamp()
        is_younger = process.create_time() > since + _SLACK_SECONDS
        return process.status() != psutil.STATUS_ZOMBIE and not is_younger
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    except (psutil.AccessDenied, ValueError):
        return True

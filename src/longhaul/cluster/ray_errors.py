"""Errors of actors, told as if they had happened here."""

from __future__ import annotations

from typing import Any

from longhaul.cluster.errors import ClusterError
from longhaul.core.errors import LonghaulError

LONGEST_ERROR = 300


def told(who: str, error: Any) -> LonghaulError:
    """Return what an actor raised: a user's mistake as it is, anything else with its place."""
    cause = error.cause
    if isinstance(cause, LonghaulError):
        # Ray makes a class of both kinds of error, whose text is the whole traceback.
        plain = next(kind for kind in type(cause).__mro__ if kind.__module__.startswith("longhaul"))
        raised: LonghaulError = plain(f"{who}: {cause.args[0] if cause.args else cause}")
        return raised
    return ClusterError(f"{who} failed:\n{error}")


def shortened(error: BaseException) -> str:
    """Return an error in one line that is not too long for a log."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]} ..."

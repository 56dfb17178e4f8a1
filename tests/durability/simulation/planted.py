"""Bugs that are planted into the product, to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.envs.processes.messages import Channel, EpisodeReplay
from longhaul.envs.processes.repro import RunningEpisodes
from longhaul.envs.processes.vector import ProcessVectorEnv
from longhaul.runs import durable, recorder
from longhaul.runs.checkpoints import store
from longhaul.runs.logs import jsonl
from longhaul.runs.logs.rewind import Rewound


class AnySequence(int):
    """A sequence number that takes every other one for its own."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __add__(self, other: int) -> AnySequence:
        return AnySequence(int(self) + other)


@contextmanager
def patched(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """Put other functions into these places."""
    kept = [(place, name, vars(place)[name]) for place, name, _ in places]
    try:
        for place, name, value in places:
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in kept:
            setattr(place, name, value)


def old_answers_count() -> Any:
    """Accept the answer to an earlier order."""
    begin = Channel.__init__

    def begin_with_any(self: Channel, *given: Any) -> None:
        begin(self, *given)
        self.sequence = AnySequence(0)

    return patched((Channel, "__init__", begin_with_any))


def replays_end_early() -> Any:
    """Bring an episode back without its last step."""
    playback = RunningEpisodes.playback

    def shortened(self: RunningEpisodes, env: int, *, fresh: bool) -> EpisodeReplay:
        found = playback(self, env, fresh=fresh)
        return replace(found, actions=found.actions[:-1])

    def no_problem(self: RunningEpisodes, played: object) -> str:
        return ""

    return patched(
        (RunningEpisodes, "playback", shortened), (RunningEpisodes, "problem", no_problem)
    )


def lost_workers_count() -> Any:
    """Take what a lost worker wrote for its own, beside what the others did."""

    copy_rows = ProcessVectorEnv._copy_rows

    def copy_all(self: ProcessVectorEnv, env: int, *, everything: bool) -> None:
        if everything:
            np.copyto(self._block, self._mailbox.block)
        else:
            copy_rows(self, env, everything=False)

    return patched((ProcessVectorEnv, "_copy_rows", copy_all))


def folders_are_not_synced() -> Any:
    """Leave the names of files to the mercy of the disk."""

    def nothing(path: Path) -> None:
        pass

    return patched(*((module, "sync_directory", nothing) for module in (durable, store, jsonl)))


def logs_are_not_rewound() -> Any:
    """Keep log lines that are younger than the checkpoint."""

    def untouched(*given: object) -> Rewound:
        return Rewound(None, None)

    return patched((recorder, "rewind_log", untouched))


def logs_are_not_synced() -> Any:
    """Save a checkpoint before the logs it names are certain."""

    def flushed(self: jsonl.LogWriter) -> None:
        self.flush()

    return patched((jsonl.LogWriter, "sync", flushed))


BUGS: dict[str, Callable[[], Any]] = {
    bug.__name__: bug
    for bug in (
        old_answers_count,
        replays_end_early,
        lost_workers_count,
        folders_are_not_synced,
        logs_are_not_rewound,
        logs_are_not_synced,
    )
}

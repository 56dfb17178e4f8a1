"""How long an environment may take, learned from how long it usually takes."""

from __future__ import annotations

from collections.abc import Sequence

from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.mailbox import (
    BUCKETS,
    CONSTRUCT_TIMES,
    RESET_TIMES,
    STEP_TIMES,
)
from longhaul.envs.processes.messages import Stage

FACTOR = 20
RARE = 0.001
_TIMES = {
    Stage.STEP: STEP_TIMES,
    Stage.REPLAY: STEP_TIMES,
    Stage.IDLE: STEP_TIMES,  # a worker that does not even begin what it was asked for
    Stage.RESET: RESET_TIMES,
    Stage.CONSTRUCT: CONSTRUCT_TIMES,
}


class Deadlines:
    """The longest silence of a worker in each stage.

    Workers count their timings into buckets, each twice as wide as the one before, and nobody
    looks at these until somebody is late. A bucket's upper end is used, so that a deadline may be
    twice as long as exact timings would make it, never shorter.
    """

    def __init__(self, config: ProcessesConfig) -> None:
        self._config = config
        self._past = {times: [0] * BUCKETS for times in set(_TIMES.values())}

    def remember(self, words: Sequence[int] | memoryview) -> None:
        """Keep the timings of a worker that is about to be replaced."""
        for times, counts in self._past.items():
            for bucket in range(BUCKETS):
                counts[bucket] += words[times + bucket]

    def seconds(self, stage: Stage, own: memoryview, fleet: Sequence[memoryview]) -> float:
        """Return how long a worker may stay in `stage` without a sign of progress.

        An incarnation that has not done such a thing before gets the whole of the configured
        time: compilers and caches make the first time slow.
        """
        cap = self._cap(stage)
        times = _TIMES.get(stage)
        if times is None or not any(own[times + bucket] for bucket in range(BUCKETS)):
            return cap
        counts = list(self._past[times])
        for words in fleet:
            for bucket in range(BUCKETS):
                counts[bucket] += words[times + bucket]
        return min(cap, max(self._config.least_deadline_seconds, FACTOR * _rare_seconds(counts)))

    def _cap(self, stage: Stage) -> float:
        config = self._config
        match stage:
            case Stage.BOOT | Stage.IMPORT | Stage.CONSTRUCT:
                return config.construct_seconds
            case Stage.RESET | Stage.SNAPSHOT | Stage.FRAME:
                return config.reset_seconds
            case Stage.CLOSE:
                return config.close_seconds
            case Stage.STEP | Stage.REPLAY | Stage.IDLE:
                return config.step_seconds


def _rare_seconds(counts: Sequence[int]) -> float:
    """Return a time that only one in a thousand exceeds."""
    beyond = sum(counts) * RARE
    for bucket in range(len(counts) - 1, -1, -1):
        if counts[bucket] > beyond:
            return float(2**bucket) / 1e9
        beyond -= counts[bucket]
    return 0.0

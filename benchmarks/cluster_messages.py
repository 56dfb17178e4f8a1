"""What messages cost on a cluster, measured with messages of the real size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longhaul.cluster.join import join
from longhaul.cluster.messages import Fragment, PolicyWeights

CALLS = 200
PUTS = 20
FETCHES = 40


class Echo:
    """An actor that answers with what it was given at first."""

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment

    def nothing(self) -> None:
        """Answer at once."""

    def fragment(self) -> Fragment:
        """Answer with the fragment, as a collector does."""
        return self._fragment


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """Seconds, the median of many."""

    call: float
    put: float
    send: float
    """For an actor to lay a fragment out, its empty answer subtracted."""
    fetch: float
    fragments_per_second: float
    """One actor sending, the learner taking in and doing nothing else."""


def measure_messages(ray: Any, weights: PolicyWeights, fragment: Fragment) -> MessageCosts:
    """Return the costs of an actor's call, of laying out weights and of taking in a fragment."""
    actor = ray.remote(Echo).options(num_cpus=0).remote(fragment)
    rows = len(fragment.rollout.last.row)
    try:
        ray.get(actor.nothing.remote())
        call = _median(lambda: ray.get(actor.nothing.remote()), CALLS)
        put = _median(lambda: ray.put(weights), PUTS)
        began = time.perf_counter()
        fetches = [_fetch(ray, actor, rows) for _ in range(FETCHES)]
        rate = FETCHES / (time.perf_counter() - began)
        send, fetch = (statistics.median(times) for times in zip(*fetches, strict=True))
    finally:
        ray.kill(actor)
    return MessageCosts(call, put, max(0.0, send - call), fetch, rate)


def _fetch(ray: Any, actor: Any, rows: int) -> tuple[float, float]:
    """Return the time until a fragment is there, and from there to its place in a rollout."""
    began = time.perf_counter()
    reference = actor.fragment.remote()
    ray.wait([reference])
    there = time.perf_counter()
    join([ray.get(reference)], (), rows=rows)
    return there - began, time.perf_counter() - there


def _median(action: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)

"""How fast a cluster of any size would be, from costs measured on this one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Bound = Literal["collectors", "learner", "fragments' network", "weights' network"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured, in seconds and bytes."""

    transitions: int
    """In one fragment, over all rows."""
    fragment_seconds: float
    """A collector's time for a fragment, the loading of weights included."""
    call_seconds: float
    """From asking an actor that has nothing to do to its empty answer."""
    send_seconds: float
    """A collector's time to lay a fragment out in its node's store."""
    fragment_bytes: int
    state_bytes: int
    """Of the collector's state, which travels with every fragment."""
    fetch_seconds: float
    """The learner's time to take in one fragment: from the store into its place in the rollout."""
    weights_bytes: int
    put_seconds: float
    """The learner's time to lay out weights."""
    learn_seconds: float
    """The learner's time to learn from one fragment."""

    def with_learner(self, times_faster: float) -> Costs:
        """Return the costs of a learner so many times faster: several, or a graphics card."""
        return replace(self, learn_seconds=self.learn_seconds / times_faster)


@dataclass(frozen=True, slots=True)
class Network:
    """What no measurement on one machine can show."""

    gigabits_per_second: float = 10.0
    """Of the learner's node, in each direction."""
    collectors_per_node: int = 32
    """They share one copy of the weights."""

    @property
    def bytes_per_second(self) -> float:
        """The same in bytes."""
        return self.gigabits_per_second * 1e9 / 8


@dataclass(frozen=True, slots=True)
class Projection:
    """The speed of so many collectors, and what holds it up."""

    collectors: int
    steps_per_second: float
    bound: Bound
    seconds: dict[Bound, float]
    """What an update takes each of them; all go on at the same time, so the longest counts."""


def project(costs: Costs, network: Network, collectors: int) -> Projection:
    """Return the speed if every update learns from one fragment of each collector."""
    nodes = -(-collectors // network.collectors_per_node)
    asking = collectors * (costs.call_seconds + costs.fetch_seconds)
    message_bytes = costs.fragment_bytes + costs.state_bytes
    seconds: dict[Bound, float] = {
        "collectors": costs.fragment_seconds + costs.send_seconds + costs.call_seconds,
        "learner": costs.put_seconds + asking + collectors * costs.learn_seconds,
        "fragments' network": collectors * message_bytes / network.bytes_per_second,
        "weights' network": nodes * costs.weights_bytes / network.bytes_per_second,
    }
    bound = max(seconds, key=lambda name: seconds[name])
    speed = collectors * costs.transitions / seconds[bound]
    return Projection(collectors, speed, bound, seconds)


def most_useful(costs: Costs, network: Network, *, most: int = 100_000) -> int:
    """Return the number of collectors beyond which more of them bring next to nothing."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if project(costs, network, middle).bound == "collectors":
            low = middle + 1
        else:
            high = middle
    return low

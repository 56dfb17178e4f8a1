"""The interface of a fleet of collectors, and its implementation with Ray actors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from longhaul.cluster.config import ClusterConfig, EnvShare
from longhaul.cluster.connect import Connection, OwnCluster, actor_error, connect, shortened
from longhaul.cluster.messages import (
    Ask,
    CollectorHello,
    Fragment,
    PolicyWeights,
    Recipe,
    RemoteCollector,
)
from longhaul.core.state import State
from longhaul.core.system import cores


@dataclass(frozen=True, slots=True)
class Joined:
    """A collector is ready to be asked."""

    collector: int
    hello: CollectorHello


@dataclass(frozen=True, slots=True)
class Answered:
    """A collector has brought a fragment."""

    collector: int
    fragment: Fragment


@dataclass(frozen=True, slots=True)
class Died:
    """A collector died; its fragment in progress is lost."""

    collector: int
    error: str


News = Joined | Answered | Died


class CollectorFleet(Protocol):
    """Runs collectors somewhere; everything but `begin` and `news` returns at once."""

    def begin(self) -> float:
        """Prepare for hiring; return the number of free processors."""

    def hire(self, share: EnvShare, state: State | None) -> None:
        """Start a collector, from this state if there is one; it joins when it is ready."""

    def publish(self, weights: PolicyWeights) -> object:
        """Publish weights for all collectors; return the reference that `ask` takes."""

    def ask(self, ask: Ask, weights: object) -> None:
        """Ask the collector of the ticket's share, which has joined, for a fragment."""

    def news(self, seconds: float) -> Sequence[News]:
        """Return the news, as soon as there are any or after this time."""

    def dismiss(self, collector: int) -> None:
        """End a collector at once; it sends no more news."""

    def close(self) -> None:
        """End all collectors."""


FETCH_SECONDS = 30.0  # for a fragment that was announced to arrive
CLOSE_SECONDS = 3.0  # for collectors to end their environments by themselves


class RayFleet:
    """Hires one actor per share, spread over the nodes, and never lets Ray restart it.

    The learner restarts actors, because it knows the state to begin from.
    """

    def __init__(self, recipe: Recipe, config: ClusterConfig, *, store_megabytes: int) -> None:
        self._recipe = recipe
        self._config = config
        self._store_megabytes = config.object_store_megabytes or store_megabytes
        self._connection: Connection | None = None
        self._actors: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}  # by reference of the answer: the collector

    def begin(self) -> float:
        """Join the cluster; return the processors that are free for collectors."""
        wanted = self._config.collectors * self._config.cpus_per_collector
        own = OwnCluster(max(cores(), int(wanted + 0.999)), self._store_megabytes)
        self._connection = connect(self._config, own)
        # One processor is for the learner, if it runs on a node of the cluster.
        return max(1.0, float(self._ray.available_resources().get("CPU", 0.0)) - 1.0)

    @property
    def _ray(self) -> Any:
        assert self._connection is not None
        return self._connection.ray

    def hire(self, share: EnvShare, state: State | None) -> None:
        """Start an actor on a node with free processors."""
        self._forget(share.collector)
        kind = self._ray.remote(RemoteCollector).options(
            num_cpus=self._config.cpus_per_collector,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        actor = kind.remote(self._recipe, share, state)
        self._actors[share.collector] = actor
        self._pending[actor.hello.remote()] = share.collector

    def publish(self, weights: PolicyWeights) -> object:
        """Put weights into the object store, from where every node fetches them once."""
        reference: object = self._ray.put(weights)
        return reference

    def ask(self, ask: Ask, weights: object) -> None:
        """Ask an actor for a fragment."""
        collector = ask.ticket.share.collector
        reference = self._actors[collector].collect.remote(ask, weights)
        self._pending[reference] = collector

    def news(self, seconds: float) -> Sequence[News]:
        """Return the answers of actors, and which actors died."""
        waited_for = list(self._pending)
        if not waited_for:
            return ()
        ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=seconds)
        if ready:  # take all other answers as well
            ready, _ = self._ray.wait(waited_for, num_returns=len(waited_for), timeout=0)
        return [self._heard(reference) for reference in ready]

    def _heard(self, reference: Any) -> News:
        collector = self._pending.pop(reference)
        errors = self._ray.exceptions
        try:
            said = self._ray.get(reference, timeout=FETCH_SECONDS)
        except errors.RayTaskError as error:
            raise actor_error(f"collector {collector}", error) from error
        except (errors.RayError, TimeoutError) as error:
            self.dismiss(collector)
            return Died(collector, shortened(error))
        if isinstance(said, CollectorHello):
            return Joined(collector, said)
        assert isinstance(said, Fragment)
        return Answered(collector, said)

    def dismiss(self, collector: int) -> None:
        """Kill an actor."""
        actor = self._actors.get(collector)
        if actor is not None:
            self._ray.kill(actor, no_restart=True)
        self._forget(collector)

    def _forget(self, collector: int) -> None:
        self._actors.pop(collector, None)
        self._pending = {ref: who for ref, who in self._pending.items() if who != collector}

    def close(self) -> None:
        """End all actors, and the cluster if it was started here."""
        if self._connection is None:
            return
        leaving = [actor.close.remote() for actor in self._actors.values()]
        if leaving:
            self._ray.wait(leaving, num_returns=len(leaving), timeout=CLOSE_SECONDS)
        for collector in list(self._actors):
            self.dismiss(collector)
        self._connection.close()
        self._connection = None

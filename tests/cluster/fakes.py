"""A fleet in this very process, with a clock of its own, whose collectors fail when told to."""

from __future__ import annotations

import heapq
import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from longhaul.cluster.collector import ClusterCollector, Plan
from longhaul.cluster.config import ClusterConfig, EnvShare, SharedSeeds
from longhaul.cluster.fleet import Answered, Died, Joined, News
from longhaul.cluster.messages import Ask, Fragment, PolicyWeights, RemoteCollector, Reports
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.faults import Fault, Listeners
from tests.engine.diary import ROWS, SEEDS, SETTINGS, DiaryPolicy, diaries

STEPS, CHUNK, ENVS = 8, 4, 6
NEVER = float("inf")


def diary_collector(share: EnvShare, listeners: Listeners) -> RolloutCollector:
    """Return a collector of diaries, with the seeds they have in the whole run."""
    seeds = SharedSeeds(SEEDS, share.first)
    env = diaries(share.count, seeds=seeds)
    collector = RolloutCollector(env, DiaryPolicy(), Seeds(2), steps=STEPS, chunk=CHUNK)
    if share.collector:
        collector.draw_apart(Seeds(2), share.collector)
    return collector


def always(seconds: float) -> Callable[[int, int], float]:
    """Return a duration that does not depend on collector and ticket."""
    return lambda collector, ticket: seconds


@dataclass
class FakeFleet:
    """Runs collectors at once but tells of it when their time has come."""

    takes: Callable[[int, int], float] = lambda collector, ticket: 1.0
    """Seconds of a fragment, by collector and by ticket; one that never ends hangs."""
    dies: Callable[[int, int], bool] = lambda collector, ticket: False
    joins_after: Callable[[int], float] = lambda collector: 1.0
    processors: float = 3.0
    stall: float = 0.0
    """Seconds the next taking in of news holds up the learner, once."""
    now: float = 0.0
    published: list[int] = field(default_factory=list)
    dismissed: list[int] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    closed: bool = False
    _workers: dict[int, RemoteCollector] = field(default_factory=dict)
    _due: list[tuple[float, int, Any, News]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def clock(self) -> float:
        return self.now

    def begin(self) -> float:
        return self.processors

    def hire(self, share: EnvShare, state: State | None) -> None:
        worker = RemoteCollector(diary_collector, share, pickle.loads(pickle.dumps(state)))
        self._workers[share.collector] = worker
        after = self.joins_after(share.collector)
        if after < NEVER:
            self._tell(after, worker, Joined(share.collector, worker.hello()))

    def publish(self, weights: PolicyWeights) -> object:
        self.published.append(weights.version)
        return pickle.dumps(weights)

    def ask(self, ask: Ask, weights: object) -> None:
        collector, number = ask.ticket.share.collector, ask.ticket.number
        self.asked.append(ask)
        worker = self._workers[collector]
        seconds = self.takes(collector, number)
        if self.dies(collector, number):
            self._tell(seconds / 2, worker, Died(collector, "killed by the test"))
            return
        assert isinstance(weights, bytes)
        made = worker.collect(pickle.loads(pickle.dumps(ask)), pickle.loads(weights))
        fragment: Fragment = pickle.loads(pickle.dumps(replace(made, seconds=seconds)))
        if seconds < NEVER:
            self._tell(seconds, worker, Answered(collector, fragment))

    def _tell(self, after: float, worker: RemoteCollector, news: News) -> None:
        heapq.heappush(self._due, (self.now + after, next(self._numbers), worker, news))

    def news(self, seconds: float) -> Sequence[News]:
        until = self.now + seconds
        if self._due and self._due[0][0] <= until:
            self.now = max(self.now, self._due[0][0])
        else:
            self.now = until
        heard = []
        while self._due and self._due[0][0] <= self.now:
            _, _, worker, news = heapq.heappop(self._due)
            if self._workers.get(news.collector) is worker:  # nothing is heard of the dismissed
                heard.append(news)
        if heard and self.stall:
            self.now, self.stall = self.now + self.stall, 0.0
        return heard

    def dismiss(self, collector: int) -> None:
        self.dismissed.append(collector)
        self._workers.pop(collector)

    def close(self) -> None:
        self.closed = True


class Run:
    """A cluster of diaries with a policy whose weight counts updates."""

    def __init__(
        self,
        fleet: FakeFleet | None = None,
        *,
        collectors: int = 3,
        overlap: bool = True,
        learn_seconds: float = 0.5,
        **config: Any,
    ) -> None:
        self.fleet = fleet or FakeFleet()
        self.learned = DiaryPolicy()
        self.faults: list[Fault] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self._learn_seconds = learn_seconds
        self.collector = ClusterCollector(
            self.fleet,
            self.learned,
            Plan("test:diary", ENVS, ROWS, STEPS, overlap),
            ClusterConfig(address="local", collectors=collectors, **config),
            Reports(Listeners(on_fault=self.faults.append), self._note),
            clock=self.fleet.clock,
        )

    def _note(self, event: str, **facts: Any) -> None:
        self.notes.append((event, facts))

    def iterate(self, count: int, settings: Settings = SETTINGS) -> list[Rollout]:
        """Collect and update so many times."""
        rollouts = []
        for _ in range(count):
            rollouts.append(self.collector.collect(settings))
            self.fleet.now += self._learn_seconds
            with torch.no_grad():
                self.learned.version.add_(1.0)
        return rollouts

    def noted(self, event: str) -> list[dict[str, Any]]:
        """Return the facts of all notes of one event."""
        return [facts for name, facts in self.notes if name == event]

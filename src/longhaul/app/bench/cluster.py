"""What a cluster costs on one machine, and how fast one of any size would be."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from longhaul.app.assemble import build_policy, build_settings, build_task
from longhaul.app.bench.training import Stopwatch, conditions, measure_run, only_training
from longhaul.app.cluster import RemoteRecipe
from longhaul.app.config import RunConfig
from longhaul.app.text import columns
from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.connect import OwnCluster, connect
from longhaul.cluster.ledger import TransitionLedger
from longhaul.cluster.measure import MessageCosts, measure_messages
from longhaul.cluster.messages import Ask, Fragment, Weights, nbytes, state_nbytes
from longhaul.cluster.scaling import Costs, Network, Projection, most_useful, project
from longhaul.cluster.shares import share_out
from longhaul.cluster.worker import RemoteCollector
from longhaul.core.errors import ConfigError

LOCAL, CLUSTER = "this process", "Ray on this machine"
SIZES = (1, 4, 16, 64, 256, 1000)
STORE_MEGABYTES = 512
MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class ClusterBench:
    """Speeds on the same work, the costs of messages, and what follows from both."""

    task: str
    conditions: str
    rates: dict[str, tuple[float, ...]]
    messages: MessageCosts
    costs: Costs
    """As measured; the model has a learner that is `faster_learner` times as fast."""
    network: Network
    faster_learner: float = 1.0

    @property
    def overhead(self) -> float:
        """The share of steps per second the cluster loses: the median over repeats."""
        pairs = zip(self.rates[CLUSTER], self.rates[LOCAL], strict=True)
        return 1.0 - statistics.median(ours / local for ours, local in pairs)

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The model at several sizes."""
        costs = self.costs.with_learner(self.faster_learner)
        return tuple(project(costs, self.network, size) for size in SIZES)

    @property
    def most_useful(self) -> int:
        """Collectors beyond which more bring nothing."""
        return most_useful(self.costs.with_learner(self.faster_learner), self.network)

    def as_text(self) -> str:
        """Return the tables."""
        rates = [
            (way, f"{statistics.median(found):,.0f}", " ".join(f"{one:,.0f}" for one in found))
            for way, found in self.rates.items()
        ]
        costs = self.costs
        measured = [
            ("actor call", f"{1000 * costs.call_seconds:.2f} ms"),
            ("put of weights", f"{1000 * costs.put_seconds:.2f} ms"),
            ("weights", f"{costs.weights_bytes / MEGABYTE:.2f} MB"),
            ("fragment", f"{costs.fragment_bytes / MEGABYTE:.2f} MB"),
            ("state beside it", f"{costs.state_bytes / MEGABYTE:.2f} MB"),
            ("transitions in it", f"{costs.transitions:,}"),
            ("collector's time for it", f"{1000 * costs.fragment_seconds:.1f} ms"),
            ("laying it out", f"{1000 * costs.send_seconds:.2f} ms"),
            ("taking it in", f"{1000 * costs.fetch_seconds:.2f} ms"),
            ("fragments from one actor", f"{self.messages.fragments_per_second:,.0f} a second"),
            ("learning from it", f"{1000 * costs.learn_seconds:.1f} ms"),
        ]
        sizes = [
            (f"{one.collectors:,}", f"{one.steps_per_second:,.0f}", one.bound)
            for one in self.projections
        ]
        network = self.network
        return "\n\n".join(
            [
                self.conditions,
                columns(rates, header=(self.task, "steps/s", "each repeat")),
                f"the cluster makes {100 * self.overhead:.1f} % fewer steps a second",
                columns(measured, header=("measured", "")),
                columns(sizes, header=("collectors", "steps/s by the model", "held up by")),
                f"The model assumes {network.gigabits_per_second:g} Gbit/s at the learner, "
                f"{network.collectors_per_node} collectors a node, nodes as fast as this one and a "
                f"learner {self.faster_learner:g} times as fast; beyond {self.most_useful:,} "
                "collectors more bring nothing.",
            ]
        )

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": self.task,
                "conditions": self.conditions,
                "steps_per_second": self.rates,
                "overhead": self.overhead,
                "fragments_per_second": self.messages.fragments_per_second,
                "costs": asdict(self.costs),
                "network": asdict(self.network),
                "faster_learner": self.faster_learner,
                "most_useful": self.most_useful,
                "projections": [asdict(one) for one in self.projections],
            }
        )


def bench_cluster(
    config: RunConfig,
    *,
    total_timesteps: int,
    repeats: int,
    network: Network,
    faster_learner: float = 1.0,
) -> ClusterBench:
    """Train the same run in this process and with Ray on this machine, in turn."""
    if repeats < 1:
        raise ConfigError("--repeats must be at least 1")
    if not faster_learner > 0:
        raise ConfigError(f"--faster-learner must be more than 0, not {faster_learner}")
    config = only_training(config, total_timesteps)
    collectors = config.cluster.collectors or 1
    here = replace(config, cluster=ClusterConfig())
    there = replace(config, cluster=replace(config.cluster, address="local", collectors=collectors))
    processors = max(len(os.sched_getaffinity(0)), collectors + 1)
    connection = connect(there.cluster, OwnCluster(processors, STORE_MEGABYTES))
    try:
        fragment, weights = sample_messages(there)
        messages = measure_messages(connection.ray, weights, fragment)
        ways = ((LOCAL, here), (CLUSTER, there))
        rates: dict[str, list[float]] = {LOCAL: [], CLUSTER: []}
        for repeat in range(repeats):
            # In turns of changing order: a machine that gets slower must not favour one way.
            for way, one in ways if repeat % 2 == 0 else reversed(ways):
                watch = Stopwatch()
                rows = measure_run(one, watch)
                rates[way].append(watch.steps_per_second)
                if way == CLUSTER:
                    timings = rows
    finally:
        connection.close()
    costs = Costs(
        transitions=fragment.rollout.env_steps,
        fragment_seconds=_median(timings, "cluster/fragment_seconds"),
        call_seconds=messages.call,
        send_seconds=messages.send,
        fragment_bytes=nbytes(fragment),
        state_bytes=state_nbytes(fragment.state),
        fetch_seconds=messages.fetch,
        weights_bytes=sum(part.nbytes for part in weights.arrays.values()),
        put_seconds=messages.put,
        learn_seconds=_median(timings, "time/learn_seconds") / collectors,
    )
    return ClusterBench(
        config.task,
        conditions(
            there, f"{there.learn.algorithm}, {there.cluster.collectors} collector(s) there"
        ),
        {way: tuple(found) for way, found in rates.items()},
        messages,
        costs,
        network,
        faster_learner,
    )


def _median(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return statistics.median(float(row[name]) for row in rows if name in row)


def sample_messages(config: RunConfig) -> tuple[Fragment, Weights]:
    """Return a real fragment of the first collector, and real weights."""
    task = build_task(config)
    settings = build_settings(config, task)
    share = share_out(config.num_envs, config.cluster.collectors)[0]
    policy = build_policy(config, task, torch.device("cpu"))
    weights = Weights.of(0, policy.state_dict())
    collector = RemoteCollector(RemoteRecipe(config), share, None)
    try:
        collector.hello()
        ticket = TransitionLedger([share]).ask(0, config.collect.steps)
        return collector.collect(Ask(ticket, settings, deals_anew=False), weights), weights
    finally:
        collector.close()

"""What Ray costs on this machine, and how fast larger clusters would be by a model."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from benchmarks.cluster_messages import MessageCosts, measure_messages
from benchmarks.cluster_model import Costs, Network, most_useful, project

from benchmarks import command
from longhaul.app.bench.table import Section, Speeds, SpeedTable, ratio
from longhaul.app.bench.training import (
    BenchRequest,
    IterationTimer,
    conditions,
    measure_run,
    only_training,
)
from longhaul.app.build.components import build_policy, build_settings, build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.distributed import RemoteRecipe
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.cluster.config import ClusterConfig, share_out
from longhaul.cluster.connect import OwnCluster, connect
from longhaul.cluster.ledger import TransitionLedger
from longhaul.cluster.messages import (
    Ask,
    Fragment,
    PolicyWeights,
    RemoteCollector,
    nbytes,
    state_nbytes,
)
from longhaul.core.errors import ConfigError

LOCAL, CLUSTER = "this process", "Ray on this machine"
SIZES = (1, 4, 16, 64, 256, 1000)
STORE_MEGABYTES = 512
MEGABYTE = 1e6


def as_table(
    rates: Mapping[str, Sequence[float]],
    messages: MessageCosts,
    costs: Costs,
    network: Network,
    faster_learner: float = 1.0,
) -> SpeedTable:
    """Return speeds on the same work, the costs of messages, and what follows from both."""
    here, there = (Speeds(way, tuple(rates[way])) for way in (LOCAL, CLUSTER))
    kept = ratio(there.per_second, here.per_second)
    overhead = 1.0 - statistics.median(kept)
    modeled = costs.with_learner(faster_learner)
    projections = [project(modeled, network, size) for size in SIZES]
    most = most_useful(modeled, network)
    sizes = [
        (f"{one.collectors:,}", f"{one.steps_per_second:,.0f}", one.bound) for one in projections
    ]
    return SpeedTable(
        "cluster",
        "",
        (here, there),
        {f"{CLUSTER} / {LOCAL}": kept},
        (
            Section(("measured", ""), cost_rows(costs, messages)),
            Section(("collectors", "steps/s by the model", "held up by"), sizes),
        ),
        (
            f"the cluster makes {100 * overhead:.1f} % fewer steps a second",
            f"The model assumes {network.gigabits_per_second:g} Gbit/s at the learner, "
            f"{network.collectors_per_node} collectors a node, nodes as fast as this one and a "
            f"learner {faster_learner:g} times as fast; beyond {most:,} collectors more bring "
            "nothing.",
        ),
        {
            "overhead": overhead,
            "fragments_per_second": messages.fragments_per_second,
            "costs": asdict(costs),
            "network": asdict(network),
            "faster_learner": faster_learner,
            "most_useful": most,
            "projections": [asdict(one) for one in projections],
        },
    )


def cost_rows(costs: Costs, messages: MessageCosts) -> list[tuple[str, str]]:
    """Return every measured input of the model."""
    return [
        ("actor call", f"{1000 * costs.call_seconds:.2f} ms"),
        ("put of weights", f"{1000 * costs.put_seconds:.2f} ms"),
        ("weights", f"{costs.weights_bytes / MEGABYTE:.2f} MB"),
        ("fragment", f"{costs.fragment_bytes / MEGABYTE:.2f} MB"),
        ("state beside it", f"{costs.state_bytes / MEGABYTE:.2f} MB"),
        ("transitions in it", f"{costs.transitions:,}"),
        ("collector's time for it", f"{1000 * costs.fragment_seconds:.1f} ms"),
        ("laying it out", f"{1000 * costs.send_seconds:.2f} ms"),
        ("taking it in", f"{1000 * costs.fetch_seconds:.2f} ms"),
        ("fragments from one actor", f"{messages.fragments_per_second:,.0f} a second"),
        ("learning from it", f"{1000 * costs.learn_seconds:.1f} ms"),
    ]


def bench_cluster(
    config: RunConfig, request: BenchRequest, network: Network, faster_learner: float = 1.0
) -> SpeedTable:
    """Train the same run in this process and with Ray on this machine, in turn."""
    if not faster_learner > 0:
        raise ConfigError(f"--faster-learner must be more than 0, not {faster_learner}")
    config = only_training(config, request.total_timesteps)
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
        for repeat in range(request.repeats):
            # In turns of changing order: a machine that gets slower must not favor one way.
            for way, one in ways if repeat % 2 == 0 else reversed(ways):
                watch = IterationTimer()
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
    shared = f"{there.learn.algorithm}, {there.cluster.collectors} collector(s) there"
    found = as_table(rates, messages, costs, network, faster_learner)
    return replace(found, task=config.task, conditions=conditions(there, shared))


def _median(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return statistics.median(float(row[name]) for row in rows if name in row)


def sample_messages(config: RunConfig) -> tuple[Fragment, PolicyWeights]:
    """Return a real fragment of the first collector, and real weights."""
    task = build_task(config)
    settings = build_settings(config, task)
    share = share_out(config.num_envs, config.cluster.collectors)[0]
    policy = build_policy(config, task, torch.device("cpu"))
    weights = PolicyWeights.of(0, policy.state_dict())
    collector = RemoteCollector(RemoteRecipe(config), share, None)
    try:
        collector.hello()
        ticket = TransitionLedger([share]).ask(0, config.collect.num_steps)
        return collector.collect(Ask(ticket, settings, is_new_deal=False), weights), weights
    finally:
        collector.close()


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("cluster", __doc__, task="probe:chase", repeats=5)
    command.add_training(parser)
    parser.add_argument("--gigabits", type=float, default=10.0, help="of the model's network")
    parser.add_argument("--per-node", type=int, default=32, help="collectors of a node's model")
    parser.add_argument("--faster-learner", type=float, default=1.0, help="the model's, than here")
    asked = parser.parse_args(words)
    overlapped = ["collect.overlap=true", *asked.overrides]
    config = resolve(ConfigSources(asked.task, asked.preset, overrides=overlapped))
    network = Network(asked.gigabits, asked.per_node)
    found = bench_cluster(config, command.request(asked), network, asked.faster_learner)
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)

"""What a cluster costs: the tables, and a real measurement."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from benchmarks.cluster import CLUSTER, LOCAL, SIZES, as_table
from benchmarks.cluster_messages import MessageCosts
from benchmarks.cluster_model import Costs, Network

COSTS = Costs(
    transitions=2048,
    fragment_seconds=0.1,
    call_seconds=0.001,
    send_seconds=0.002,
    fragment_bytes=2_000_000,
    state_bytes=500_000,
    fetch_seconds=0.003,
    weights_bytes=1_000_000,
    put_seconds=0.001,
    learn_seconds=0.05,
)
RATES = {LOCAL: (1000.0, 1100.0, 900.0), CLUSTER: (900.0, 1100.0, 500.0)}
MESSAGES = MessageCosts(call=0.001, put=0.001, send=0.002, fetch=0.003, fragments_per_second=160.0)


def test_the_table_tells_every_input_of_the_model() -> None:
    found = as_table(RATES, MESSAGES, COSTS, Network())
    assert found.values["overhead"] == pytest.approx(0.1)
    text = found.as_text()
    assert "the cluster makes 10.0 % fewer steps a second" in text
    for words in ("2.00 ms", "0.50 MB", "160 a second", "10 Gbit/s"):
        assert words in text
    told = json.loads(found.as_json())
    assert [one["collectors"] for one in told["projections"]] == list(SIZES)
    assert set(told["costs"]) == set(COSTS.__slots__)


def test_a_faster_learner_is_told_beside_what_was_measured() -> None:
    found = as_table(RATES, MESSAGES, COSTS, Network())
    faster = as_table(RATES, MESSAGES, COSTS, Network(), faster_learner=10.0)
    assert "a learner 10 times as fast" in faster.as_text()
    assert faster.values["most_useful"] > found.values["most_useful"]
    assert faster.values["costs"] == found.values["costs"]


@pytest.mark.ray
@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_a_real_measurement_finds_every_cost() -> None:
    command = [
        sys.executable, "-m", "benchmarks.cluster", "probe:chase", "--json",
        "--total-timesteps", "4096", "--repeats", "1",
        "--set", "num_envs=8", "--set", "collect.num_steps=32", "--set", "collect.overlap=true",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    zero = [name for name, cost in told["costs"].items() if not cost and name != "send_seconds"]
    assert not zero
    assert all(len(rates) == 1 for rates in told["steps_per_second"].values())

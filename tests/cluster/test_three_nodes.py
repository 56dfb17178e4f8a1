"""A cluster whose actors, nodes and learner are killed in mid-run."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.three_nodes import ThreeNodes, Trainer

pytestmark = [
    pytest.mark.ray,
    # Not imported here: what it listens on is settled by then.
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray"),
]

Train = Callable[..., Trainer]
LOG = logging.getLogger(__name__)
REPETITIONS = [
    pytest.param(number, marks=pytest.mark.slow if number else pytest.mark.thorough)
    for number in range(10)
]
PROMISED_SECONDS = 60.0
LONGEST_EPISODE = 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreeNodes]:
    made = ThreeNodes()
    yield made
    made.close()


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Train]:
    """Return how to begin a trainer; none of them outlives the test."""
    made: list[Trainer] = []

    def begin(place: str, address: str, *overrides: str, steps: int = 10**9) -> Trainer:
        made.append(Trainer(tmp_path / place, address, *overrides, steps=steps))
        return made[-1]

    yield begin
    for trainer in made:
        trainer.kill()


def kill_an_actor(trainer: Trainer) -> int:
    """Kill the collector that joined last; return the process it was."""
    victim = int(trainer.events("collector_joined")[-1]["process"])
    os.kill(victim, signal.SIGKILL)
    return victim


def assert_sound(trainer: Trainer) -> None:
    """Compare the ledger with what the logs tell independently of it."""
    metrics = trainer.rows("metrics")
    assert [row["iteration"] for row in metrics] == list(range(1, len(metrics) + 1))
    balance = trainer.events("cluster_balance")[-1]
    parts = ("learned", "dropped", "lost", "under_way")
    assert balance["asked"] == sum(balance[part] for part in parts)
    # Every step of a pole is one row that acted, so that the run's own count must be the ledger's.
    assert balance["learned"] == metrics[-1]["env_steps"]
    episodes = Counter((row["env"], row["number"]) for row in trainer.rows("episodes"))
    assert set(episodes.values()) == {1}, "an episode was told twice"
    for env in range(12):
        numbers = sorted(number for one, number in episodes if one == env)
        assert numbers == list(range(len(numbers))), f"an episode of environment {env} is missing"
    # What was made and is in no finished episode is in those that every environment is in now.
    unfinished = balance["learned"] + balance["dropped"] - steps_of_episodes(trainer)
    assert 0 <= unfinished < 12 * LONGEST_EPISODE


def steps_of_episodes(trainer: Trainer) -> int:
    return sum(row["length"] for row in trainer.rows("episodes"))


def assert_losses_are_told(trainer: Trainer) -> None:
    """Compare what the resumed run's ledger counts as lost with what the run told of it."""
    resumed = trainer.events("resumed")[-1]
    before = trainer.rows("timings")[resumed["iteration"] - 1]["cluster/lost"]
    told = [row for row in trainer.events("fragment_lost") if row["pid"] == resumed["pid"]]
    balance = trainer.events("cluster_balance")[-1]
    assert balance["lost"] == before + sum(row["transitions"] for row in told)


@pytest.mark.measures
@pytest.mark.parametrize("repetition", REPETITIONS)
def test_a_killed_actor_a_killed_node_and_a_killed_learner_lose_nothing_in_silence(
    cluster: ThreeNodes, train: Train, repetition: int
) -> None:
    def promise(what: str, seconds: float) -> None:
        LOG.info("%.1f s until %s", seconds, what)
        assert seconds < PROMISED_SECONDS, f"{seconds:.0f} s until {what}"

    trainer = train("run", cluster.address, f"seed={repetition}")
    trainer.go_on(6 + repetition)

    victims = [kill_an_actor(trainer)]
    promise("training goes on without an actor", trainer.go_on(3))
    promise("the actor is replaced", trainer.until_replaced(victims))

    victims = cluster.kill_node(trainer.collectors())
    promise("training goes on without a node", trainer.go_on(3))
    promise("the node's actors are replaced", trainer.until_replaced(victims))
    assert trainer.events("fragment_lost"), "fragments of the dead are told of"
    cluster.add_node()

    trainer.kill()
    trainer.resume()
    resuming = trainer.until("the run is resumed", lambda: bool(trainer.events("resumed")))
    promise("a killed learner's run goes on", resuming + trainer.go_on(3))
    assert trainer.stop() == 143
    assert_sound(trainer)
    assert_losses_are_told(trainer)


@pytest.mark.slow
def test_a_killed_actor_changes_nothing_if_all_are_needed(
    cluster: ThreeNodes, train: Train
) -> None:
    steps = 12 * 32 * 60
    calm = train("calm", cluster.address, "cluster.quorum=1", steps=steps)
    assert calm.process.wait() == 0
    shaken = train("shaken", cluster.address, "cluster.quorum=1", steps=steps)
    for _ in range(2):
        shaken.go_on(10)
        kill_an_actor(shaken)
    assert shaken.process.wait() == 0
    assert len(shaken.events("collector_joined")) == 6
    for log in ("metrics", "episodes"):
        assert shaken.rows(log) == calm.rows(log)
    assert_sound(shaken)


@pytest.mark.slow
def test_a_cluster_of_ones_own_ends_with_the_run_and_listens_on_loopback_only(
    train: Train,
) -> None:
    trainer = train("run", "local")
    trainer.go_on(2)
    family = [psutil.Process(trainer.process.pid)]
    family += family[0].children(recursive=True)
    listening = [
        connection.laddr.ip
        for process in family
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert trainer.stop() == 143, "a signal ends the run after a checkpoint, as without Ray"
    assert_sound(trainer)
    _, left = psutil.wait_procs(family, timeout=30.0)
    assert not left

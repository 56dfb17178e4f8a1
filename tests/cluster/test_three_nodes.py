"""A cluster whose actors, nodes and learner are killed in mid-run."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.three_nodes import ThreeNodes, Trainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    # Not imported here: what it listens on is settled by then.
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray"),
]

Train = Callable[..., Trainer]
REPETITIONS = 10
PROMISED_SECONDS = 60.0


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


def kill_an_actor(trainer: Trainer) -> None:
    os.kill(trainer.events("collector_joined")[-1]["process"], signal.SIGKILL)


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


def lost_transitions(trainer: Trainer) -> int:
    return sum(row["transitions"] for row in trainer.events("fragment_lost"))


@pytest.mark.parametrize("repetition", range(REPETITIONS))
def test_a_killed_actor_a_killed_node_and_a_killed_learner_lose_nothing_in_silence(
    cluster: ThreeNodes, train: Train, repetition: int
) -> None:
    trainer = train("run", cluster.address, f"seed={repetition}")
    trainer.go_on(6 + repetition)

    kill_an_actor(trainer)
    assert trainer.go_on(3) < PROMISED_SECONDS
    trainer.until("the actor is replaced", lambda: len(trainer.events("collector_joined")) > 4)

    cluster.kill_node()
    assert trainer.go_on(3) < PROMISED_SECONDS
    cluster.add_node()

    trainer.kill()
    lost = lost_transitions(trainer)
    trainer.resume()
    seconds = trainer.until("the run goes on", lambda: bool(trainer.events("resumed")))
    assert seconds + trainer.go_on(5) < 2 * PROMISED_SECONDS
    assert trainer.stop() == 143
    assert_sound(trainer)
    assert lost >= 96, "the fragments of the dead were under way and are told of"


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

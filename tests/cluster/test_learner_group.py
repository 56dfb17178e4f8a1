"""Several learners of one run: who tells what to whom."""

from __future__ import annotations

import importlib.util
import queue
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from longhaul import api
from longhaul.cluster.config import Rank, launched_rank
from longhaul.cluster.learner_group import GroupUpdate, LeadingLearner, follow
from longhaul.core.errors import ConfigError, NumericalError
from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import flags
from tests.learn.fakes import random_rollout

BARE = Settings([])


@dataclass
class Counting:
    """A learner that counts its rollouts."""

    seen: list[Rollout] = field(default_factory=list)
    number: int = 0
    loaded: list[int] = field(default_factory=list)
    fails: bool = False

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        if self.fails:
            raise NumericalError("the loss is nan")
        self.seen.append(rollout)
        self.number += 1
        return {"train/n_updates": float(self.number)}

    def state_dict(self) -> State:
        return {"number": self.number}

    def load_state_dict(self, state: State) -> None:
        self.number = state["number"]
        self.loaded.append(self.number)


@dataclass
class Voice:
    """A team's voice: the leader's words go into a queue, a follower's come out of it."""

    words: queue.SimpleQueue[GroupUpdate | None]
    leads: bool
    closed: bool = False

    def broadcast(self, word: GroupUpdate | None) -> GroupUpdate | None:
        if self.leads:
            self.words.put(word)
            return word
        return self.words.get(timeout=30.0)

    def close(self) -> None:
        self.closed = True


def test_followers_learn_what_the_leader_does_until_it_lets_them_go() -> None:
    words: queue.SimpleQueue[GroupUpdate | None] = queue.SimpleQueue()
    ours, theirs = Counting(), Counting()
    leader = LeadingLearner(ours, Voice(words, leads=True))
    rollouts = [random_rollout(seed) for seed in range(4)]
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow, theirs, Voice(words, leads=False))
        leader.update(rollouts[0], BARE)
        assert leader.update(rollouts[1], BARE) == {"train/n_updates": 2.0}
        leader.load_state_dict({"number": 40})
        leader.update(rollouts[2], BARE)
        leader.update(rollouts[3], BARE)
        leader.close()
        assert following.result(timeout=30.0) == 4
    assert [id(one) for one in theirs.seen] == [id(one) for one in rollouts]
    assert theirs.loaded == [0, 40], "told at the beginning and after a resume"
    assert leader.state_dict() == theirs.state_dict() == {"number": 42}


def test_a_leader_that_fails_in_a_lesson_says_no_goodbye() -> None:
    voice = Voice(queue.SimpleQueue(), leads=True)
    leader = LeadingLearner(Counting(fails=True), voice)
    with pytest.raises(NumericalError):
        leader.update(random_rollout(1), BARE)
    voice.words.get_nowait()
    leader.close()
    assert voice.words.empty()
    assert voice.closed


def test_a_process_has_the_rank_it_was_launched_with(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched_rank() == Rank(0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert launched_rank() == Rank(2, 4)
    assert not launched_rank().is_leader
    monkeypatch.setenv("RANK", "two")
    with pytest.raises(ConfigError, match="must be numbers"):
        launched_rank()


@pytest.mark.parametrize("rank", ["0", "1"])
def test_replay_is_refused_to_several_learners(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rank: str
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="supports a single learner"):
        api.train("gym:CartPole-v1", overrides=["learn.replay.enabled=true"], runs_root=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch.distributed.run") is None, reason="no torchrun")
@pytest.mark.parametrize("algorithm", ["ppo", "vtrace"])
def test_two_processes_learn_what_one_does(tmp_path: Path, algorithm: str) -> None:
    words = ("train", "gym:CartPole-v1", "--no-report", "-q")
    # Several learners compute with torch; alone, native code would draw other actions.
    alike = (f"learn.algorithm={algorithm}", "learn.backend=torch")
    config = flags(*alike, "num_envs=8", "total_timesteps=2560")

    def metrics(launcher: list[str], root: Path) -> list[dict[str, float]]:
        command = [sys.executable, *launcher, "-m", "longhaul", *words, *config]
        subprocess.run([*command, "--runs-root", str(root)], check=True, capture_output=True)
        (log,) = root.glob("*/*/metrics.jsonl")
        return list(read_rows(log).rows)

    alone = metrics([], tmp_path / "alone")
    together = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    both = metrics(together, tmp_path / "both")
    assert len(alone) == len(both) == 20
    for one, two in zip(alone, both, strict=True):
        assert two["train/grad_norm"] == pytest.approx(one["train/grad_norm"], rel=1e-3)
        assert two["env_steps"] == one["env_steps"]
        assert two.get("rollout/ep_rew_mean") == one.get("rollout/ep_rew_mean")

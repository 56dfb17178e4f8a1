from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.errors import CheckpointError
from longhaul.core.rollout import Rollout
from longhaul.learn.config import ReplayConfig
from longhaul.learn.replay.buffer import PrioritizedReplay, ReplaySample
from longhaul.learn.replay.sum_tree import Weights
from tests.learn.fakes import generator, random_rollout

SMALL = ReplayConfig(enabled=True, capacity=96, length=4, batch=16)
SEQUENCES = 16 // 4 * 4  # of one made-up rollout


def push(replay: PrioritizedReplay, seed: int, priorities: Weights | None = None) -> None:
    pieces = replay.pieces(random_rollout(seed), recurrent=False)
    assert pieces is not None
    if priorities is None:
        priorities = np.random.default_rng(seed).exponential(size=pieces.rows)
    replay.push(pieces, priorities)


def draw(replay: PrioritizedReplay, *, alpha: float = 0.6, beta: float = 0.4) -> ReplaySample:
    return replay.draw(alpha=alpha, beta=beta, noise_seed=0)


class SlowReplay:
    """The same by the formulas alone: a list of priorities."""

    def __init__(self, capacity: int) -> None:
        self.priorities: list[float] = []
        self.capacity = capacity
        self.written = 0

    def push(self, priorities: list[float]) -> None:
        for priority in priorities:
            if len(self.priorities) < self.capacity:
                self.priorities.append(priority)
            else:
                self.priorities[self.written % self.capacity] = priority
            self.written += 1

    def probability(self, place: int, alpha: float) -> float:
        total = sum(p**alpha for p in self.priorities if p > 0)
        return self.priorities[place] ** alpha / total if self.priorities[place] > 0 else 0.0

    def weights(self, places: list[int], alpha: float, beta: float) -> list[float]:
        count = len(self.priorities)
        raw = [(count * self.probability(place, alpha)) ** -beta for place in places]
        return [weight / max(raw) for weight in raw]


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(["push", "revalue", "draw"]), max_size=12),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.integers(0, 1000),
)
def test_priorities_and_weights_follow_a_slow_reference(
    moves: list[str], alpha: float, beta: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    replay, slow = PrioritizedReplay(SMALL, generator(seed)), SlowReplay(24)
    for number, move in enumerate(["push", *moves, "draw"]):
        if move == "push":
            priorities = random.exponential(size=SEQUENCES) + 1e-5
            push(replay, number, priorities)
            slow.push(priorities.tolist())
            continue
        drawn = draw(replay, alpha=alpha, beta=beta)
        places = drawn.places.tolist()
        np.testing.assert_allclose(
            drawn.weight.numpy(), slow.weights(places, alpha, beta), rtol=1e-5
        )
        if move == "revalue":
            priorities = random.exponential(size=len(places))
            replay.revalue(drawn.places, priorities)
            for place, priority in zip(places, priorities.tolist(), strict=True):
                slow.priorities[place] = priority
    np.testing.assert_array_equal(replay._priorities[: len(slow.priorities)], slow.priorities)
    wanted = [slow.probability(place, alpha) for place in range(len(slow.priorities))]
    weights = replay._tree.weights[: len(wanted)]
    np.testing.assert_allclose(weights / replay._tree.total, wanted, rtol=1e-9)


def test_sequences_come_as_often_as_theory_says() -> None:
    """Row 40: the divergence of the counts from p^alpha / sum p^alpha is below 0.01."""
    config = ReplayConfig(enabled=True, capacity=640, length=4, batch=256)
    replay = PrioritizedReplay(config, generator(1))
    for seed in range(10):
        push(replay, seed)
    counts = np.zeros(160)
    for _ in range(600):
        np.add.at(counts, draw(replay).places, 1)
    theory = replay._priorities**0.6 / (replay._priorities**0.6).sum()
    share = counts / counts.sum()
    seen = share > 0
    assert float((share[seen] * np.log(share[seen] / theory[seen])).sum()) < 0.01


def test_every_rollout_is_kept_and_only_samples_follow_the_interval() -> None:
    for interval in (1, 2, 3, 5):
        config = ReplayConfig(enabled=True, capacity=96, length=4, batch=16, interval=interval)
        replay = PrioritizedReplay(config, generator())
        for update in range(7):
            push(replay, update)
            for _ in range(replay.due()):
                draw(replay)
        metrics = replay.metrics()
        assert metrics["replay/pushed_total"] == 7 * 16 * 4
        assert metrics["replay/samples_total"] == math.ceil(7 / interval)


def test_nothing_is_sampled_before_the_warm_up() -> None:
    config = ReplayConfig(enabled=True, capacity=960, length=4, batch=16, warm_up=150)
    replay = PrioritizedReplay(config, generator())
    due = []
    for update in range(4):
        push(replay, update)
        due.append(replay.due())
    assert due == [0, 0, 1, 1]


def test_a_sequence_with_nothing_to_learn_is_never_drawn_even_without_priorities() -> None:
    replay = PrioritizedReplay(SMALL, generator())
    priorities = np.ones(SEQUENCES)
    priorities[::2] = 0.0
    push(replay, 0, priorities)
    for alpha in (0.6, 0.0):
        drawn = np.concatenate([draw(replay, alpha=alpha).places for _ in range(50)])
        assert set((drawn % 2).tolist()) == {1}


def test_without_any_priority_all_are_drawn_alike() -> None:
    replay = PrioritizedReplay(SMALL, generator())
    push(replay, 0, np.zeros(SEQUENCES))
    drawn = [draw(replay) for _ in range(50)]
    assert all((one.weight == 1).all() for one in drawn)
    assert len(np.unique(np.concatenate([one.places for one in drawn]))) == SEQUENCES


def test_exploding_priorities_neither_break_the_tree_nor_starve_it_for_ever() -> None:
    replay = PrioritizedReplay(SMALL, generator())
    push(replay, 0)
    replay.revalue(np.array([0, 1, 2]), np.array([1e300, np.inf, np.nan]))
    assert np.isfinite(replay._tree.total)
    assert replay._priorities[0] == 1e12
    replay.revalue(np.array([0]), np.array([1.0]))
    drawn = draw(replay)
    assert len(np.unique(drawn.places)) > 1
    assert torch.isfinite(drawn.weight).all()


def test_another_alpha_takes_effect_with_the_next_sample() -> None:
    replay = PrioritizedReplay(SMALL, generator())
    push(replay, 0)
    draw(replay, alpha=1.0)
    np.testing.assert_allclose(replay._tree.weights[:SEQUENCES], replay._priorities[:SEQUENCES])


def test_a_saved_replay_goes_on_bit_for_bit() -> None:
    first = PrioritizedReplay(SMALL, generator(4))
    for seed in range(3):
        push(first, seed)
        draw(first, alpha=0.5)
    second = PrioritizedReplay(SMALL, generator(9))
    second.load_state_dict(first.state_dict())
    for replay in (first, second):
        push(replay, 7)
    assert np.array_equal(first._tree._nodes, second._tree._nodes)
    for _ in range(3):
        left, right = draw(first), draw(second)
        assert np.array_equal(left.places, right.places)
        assert torch.equal(left.weight, right.weight)
        assert torch.equal(left.rollout.obs["x"], right.rollout.obs["x"])
        assert torch.equal(left.rollout.truncations.value, right.rollout.truncations.value)
    assert first.metrics() == second.metrics()


def test_a_replay_that_is_left_out_of_checkpoints_fills_anew() -> None:
    config = ReplayConfig(enabled=True, capacity=96, length=4, batch=16, saved=False)
    first = PrioritizedReplay(config, generator(4))
    push(first, 0)
    draw(first)
    state = first.state_dict()
    assert "ring" not in state
    second = PrioritizedReplay(config, generator(9))
    second.load_state_dict(state)
    assert second.due() == 0
    assert second.metrics() == {}
    push(second, 1)
    assert second.due() == 1
    assert second.metrics()["replay/pushed_total"] == 128


def test_a_replay_of_another_size_is_refused() -> None:
    saved = PrioritizedReplay(SMALL, generator())
    push(saved, 0)
    larger = ReplayConfig(enabled=True, capacity=192, length=4, batch=16)
    with pytest.raises(CheckpointError, match="24 sequences, this run's 48"):
        PrioritizedReplay(larger, generator()).load_state_dict(saved.state_dict())


def test_the_replay_tells_what_it_holds_and_gave() -> None:
    replay = PrioritizedReplay(SMALL, generator())
    assert replay.metrics() == {}
    push(replay, 0, np.arange(SEQUENCES, dtype=np.float64))
    quiet = replay.metrics()
    assert quiet["replay/capacity"] == 96
    assert quiet["replay/size"] == 64
    assert quiet["replay/fill"] == pytest.approx(2 / 3)
    assert quiet["replay/priority_mean"] == 7.5
    assert quiet["replay/priority_p50"] == np.percentile(np.arange(16), 50)
    assert quiet["replay/priority_p99"] == pytest.approx(np.percentile(np.arange(16), 99))
    assert "replay/unique_ratio" not in quiet
    drawn = [draw(replay) for _ in range(3)]
    told = replay.metrics()
    ratios = [len(np.unique(one.places)) / 4 for one in drawn]
    assert told["replay/unique_ratio"] == ratios[-1]
    assert told["replay/unique_ratio_mean"] == pytest.approx(np.mean(ratios))
    steps = [int(one.rollout.trainable.sum()) for one in drawn]
    assert told["replay/batch_mean"] == pytest.approx(np.mean(steps))
    assert "replay/unique_ratio" not in replay.metrics()


def test_the_stages_of_a_sample_are_timed() -> None:
    class Notes:
        def __init__(self) -> None:
            self.entered: list[str] = []

        @contextmanager
        def part(self, name: str) -> Iterator[None]:
            self.entered.append(name)
            yield

    notes = Notes()
    replay = PrioritizedReplay(SMALL, generator(), notes.part)
    push(replay, 0)
    draw(replay)
    stages = ("sample", "priority", "draw", "weight", "gather")
    assert notes.entered == [f"replay_{stage}" for stage in stages]


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.parametrize(
    ("batch", "milliseconds"),
    [pytest.param(256, 5, id="256 transitions"), pytest.param(256 * 16, 40, id="256 sequences")],
)
def test_a_sample_of_a_full_replay_takes_its_share_of_five_milliseconds_per_256_transitions(
    batch: int, milliseconds: float, record_property: Callable[[str, object], None]
) -> None:
    """Row 42: the median of fifty samples from 2 GiB of 4x84x84."""
    replay = PrioritizedReplay(ReplayConfig(enabled=True, batch=batch), generator())
    rollout = pixels(random_rollout(0, steps=64, rows=32, chunk=64))
    while replay.metrics().get("replay/fill", 0.0) < 1.0:
        pieces = replay.pieces(rollout, recurrent=False)
        assert pieces is not None
        replay.push(pieces, replay._generator.exponential(size=pieces.rows))
    assert replay.metrics()["replay/size"] == 70_496
    times = []
    for _ in range(50):
        began = time.perf_counter()
        draw(replay)
        times.append(1000 * (time.perf_counter() - began))
    record_property("median milliseconds", f"{statistics.median(times):.2f}")
    assert statistics.median(times) < milliseconds


def pixels(rollout: Rollout) -> Rollout:
    """Return the rollout with frames to see."""

    def shown(*shape: int) -> dict[str, torch.Tensor]:
        return {"frame": torch.ones(*shape, 4, 84, 84, dtype=torch.uint8)}

    cuts = rollout.truncations
    return replace(
        rollout,
        obs=shown(64, 32),
        truncations=replace(cuts, obs=shown(len(cuts.row))),
        last=replace(rollout.last, obs=shown(32)),
    )

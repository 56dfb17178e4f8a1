from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.core.rollout import Bootstrap, Rollout
from longhaul.learn.config import ReplayConfig
from longhaul.learn.replay.plan import ReplayLayout, ReplayPlan, item
from longhaul.learn.replay.ring import Array, Ring, cut_up
from tests.learn.fakes import random_rollout

PER_STEP = (
    "action", "log_prob", "value", "reward",
    "terminated", "truncated", "started", "active", "forced", "lost", "mask",
)  # fmt: skip


def sequences(seed: int, *, length: int = 4) -> Rollout:
    rollout = random_rollout(seed, steps=8, rows=3, chunk=2, hidden=2)
    mask = torch.rand(8, 3, 5, generator=torch.Generator().manual_seed(seed)) < 0.5
    pixels = (rollout.obs["x"] * 100).to(torch.uint8)
    return cut_up(
        replace(
            rollout,
            mask=mask,
            obs={"x": pixels},
            truncations=_as_pixels(rollout.truncations),
            last=_as_pixels(rollout.last),
        ),
        length,
    )


def _as_pixels(bootstrap: Bootstrap) -> Bootstrap:
    return replace(bootstrap, obs={"x": (bootstrap.obs["x"] * 100).to(torch.uint8)})


def ring_for(pieces: Rollout, capacity: int, cut_room: float) -> Ring:
    layout = ReplayLayout.of(pieces)
    config = ReplayConfig(capacity=capacity * layout.length, cut_room=cut_room)
    return Ring(layout, ReplayPlan.of(layout, config))


def arrays_of(ring: Ring) -> list[tuple[str, Array]]:
    return [*ring._saved_sequences.items(), *ring._saved_cuts.items()]


def cuts_of(rollout: Rollout, row: int) -> dict[int, tuple[list[int], list[float], float]]:
    """Return the last observations of one row's truncated steps by step."""
    cuts = rollout.truncations
    mine = (cuts.row == row).nonzero().flatten().tolist()
    return {
        int(cuts.step[i]): (
            cuts.obs["x"][i].tolist(),
            cuts.memory["hidden"][i].tolist(),
            float(cuts.value[i]),
        )
        for i in mine
    }


def assert_same_row(kept: Rollout, at: int, pieces: Rollout, row: int) -> None:
    for name in PER_STEP:
        assert torch.equal(getattr(kept, name)[:, at], getattr(pieces, name)[:, row]), name
    assert torch.equal(kept.obs["x"][:, at], pieces.obs["x"][:, row])
    assert torch.equal(kept.memory["hidden"][0, at], pieces.memory["hidden"][0, row])
    assert cuts_of(kept, at) == cuts_of(pieces, row)
    if not (pieces.terminated | pieces.truncated)[-1, row]:
        assert torch.equal(kept.last.obs["x"][at], pieces.last.obs["x"][row])
        assert torch.equal(kept.last.memory["hidden"][at], pieces.last.memory["hidden"][row])
        assert kept.last.value[at] == pieces.last.value[row]


@settings(max_examples=25)
@given(st.integers(6, 20), st.integers(1, 6), st.sampled_from([2, 4]), st.integers(0, 1000))
def test_what_was_written_last_is_read_back_equal(
    capacity: int, rollouts: int, length: int, seed: int
) -> None:
    written = [sequences(seed + number, length=length) for number in range(rollouts)]
    capacity = max(capacity, written[0].rows)
    ring = ring_for(written[0], capacity, cut_room=10.0)
    history: list[tuple[Rollout, int]] = []
    for pieces in written:
        places = ring.write(pieces)
        expected = (np.arange(pieces.rows) + len(history)) % capacity
        assert np.array_equal(places, expected)
        history += [(pieces, row) for row in range(pieces.rows)]
    assert ring.size == min(len(history), capacity)
    first = len(history) - ring.size
    order = np.random.default_rng(seed).permutation(np.arange(first, len(history)))
    kept = ring.read(order % capacity, noise_seed=3)
    for at, number in enumerate(order.tolist()):
        assert_same_row(kept, at, *history[number])


@settings(max_examples=25)
@given(st.sampled_from([0.0, 0.1, 0.5]), st.integers(1, 8), st.integers(0, 1000))
def test_a_cut_that_had_to_make_room_makes_its_step_a_lost_one(
    cut_room: float, rollouts: int, seed: int
) -> None:
    ring = ring_for(sequences(seed), 10, cut_room)
    history: list[tuple[Rollout, int]] = []
    for number in range(rollouts):
        pieces = sequences(seed + number)
        ring.write(pieces)
        history += [(pieces, row) for row in range(pieces.rows)]
    for number in range(len(history) - ring.size, len(history)):
        pieces, row = history[number]
        kept = ring.read(np.array([number % 10]), noise_seed=0)
        found, wanted = cuts_of(kept, 0), cuts_of(pieces, row)
        for step, cut in wanted.items():
            assert found.get(step) == cut or kept.lost[step, 0]
        assert found.keys() <= wanted.keys()
        others = [step for step in range(4) if step not in wanted.keys() - found.keys()]
        assert torch.equal(kept.lost[others, 0], pieces.lost[others, row])


def test_observations_are_kept_as_they_are() -> None:
    pieces = sequences(1)
    ring = ring_for(pieces, 6, 1.0)
    ring.write(pieces)
    assert ring.read(np.arange(3), noise_seed=0).obs["x"].dtype == torch.uint8


def test_reading_gives_a_rollout_with_every_field() -> None:
    pieces = sequences(1)
    ring = ring_for(pieces, 6, 1.0)
    kept = ring.read(ring.write(pieces), noise_seed=7)
    assert kept.noise_seed == 7
    assert (kept.steps, kept.rows, kept.chunk) == (4, 6, 4)
    assert {field.name for field in fields(kept)} == {field.name for field in fields(pieces)}


def test_a_loaded_ring_reads_and_overwrites_like_the_saved_one() -> None:
    saved, loaded = (ring_for(sequences(0), 16, 0.3) for _ in range(2))
    for seed in range(4):
        saved.write(sequences(seed))
    loaded.load_state_dict(saved.state_dict())
    for ring in (saved, loaded):
        ring.write(sequences(9))
    for (name, left), (_, right) in zip(arrays_of(saved), arrays_of(loaded), strict=True):
        assert np.array_equal(left, right), name


def test_only_what_is_filled_is_saved() -> None:
    ring = ring_for(sequences(0), 1000, 1.0)
    ring.write(sequences(0))
    state = ring.state_dict()
    assert {len(array) for array in state["sequences"].values()} == {6}
    assert state["sequences"]["obs.x"].base is not None  # a view: nothing is copied to be saved


FRAMES = ReplayLayout(
    length=16,
    obs={"obs": item(np.uint8, (4, 84, 84))},
    action=item(np.int64, ()),
    choices=0,
    memory={},
)


def test_two_gibibytes_hold_nearly_as_many_frames_as_without_sequences() -> None:
    """Row 41: frames alone, one per transition and without what follows, would be 76,087."""
    frame = FRAMES.obs["obs"].itemsize
    assert (2048 << 20) // frame == 76_087
    plan = ReplayPlan.of(
        FRAMES, ReplayConfig(capacity=200_000, memory_megabytes=2048, cut_room=0.25)
    )
    # One more frame per 16 steps, room for a quarter of one, and 576 bytes of everything else.
    assert plan.sequences == int((2048 << 20) / (FRAMES.sequence_bytes + 0.25 * FRAMES.cut_bytes))
    assert 0.91 * 76_087 < plan.sequences * 16 < 76_087
    assert plan.nbytes <= 2048 << 20
    assert "instead of 200,000" in plan.notice
    assert "memory_megabytes = 2048" in plan.notice


def test_the_plan_counts_what_the_ring_takes() -> None:
    layout = ReplayLayout.of(sequences(0))
    plan = ReplayPlan.of(layout, ReplayConfig(capacity=400, cut_room=0.5))
    ring = Ring(layout, plan)
    arrays = [array for _, array in arrays_of(ring)]
    priorities = 40 * plan.sequences
    assert plan.nbytes == sum(array.nbytes for array in arrays) + priorities
    assert plan.notice == ""


@pytest.mark.parametrize(
    ("config", "remedy"),
    [
        (ReplayConfig(capacity=80), "raise learn.replay.capacity"),
        (ReplayConfig(memory_megabytes=1), "raise learn.replay.memory_megabytes"),
    ],
)
def test_a_replay_smaller_than_a_rollout_is_refused(config: ReplayConfig, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        ReplayPlan.of(FRAMES, config).demand(32)

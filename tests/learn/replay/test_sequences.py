from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from longhaul.core.errors import ConfigError
from longhaul.core.rollout import Rollout
from longhaul.learn.replay.ring import cut_up, sequence_length
from tests.learn.fakes import random_rollout

PER_STEP = ("action", "log_prob", "value", "reward", "terminated", "truncated", "started", "active")


@pytest.fixture(params=[4, 8])
def length(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def rollout() -> Rollout:
    return random_rollout(8, steps=16, rows=3, chunk=4, hidden=6)


def test_every_sequence_is_a_stretch_of_one_row(rollout: Rollout, length: int) -> None:
    pieces = cut_up(rollout, length)
    assert (pieces.steps, pieces.rows) == (length, 16 // length * 3)
    for column in range(pieces.rows):
        begin, row = column // 3 * length, column % 3
        stretch = slice(begin, begin + length)
        for name in PER_STEP:
            there, here = getattr(rollout, name), getattr(pieces, name)
            assert torch.equal(here[:, column], there[stretch, row]), name
        assert torch.equal(pieces.obs["x"][:, column], rollout.obs["x"][stretch, row])
        memory = rollout.memory["hidden"][begin // 4, row]
        assert torch.equal(pieces.memory["hidden"][0, column], memory)


def test_every_sequence_ends_with_what_was_seen_after_it(rollout: Rollout, length: int) -> None:
    pieces = cut_up(rollout, length)
    for column in range(pieces.rows):
        end, row = (column // 3 + 1) * length, column % 3
        if end < 16:
            seen, memory = rollout.obs["x"][end, row], rollout.memory["hidden"][end // 4, row]
            value = rollout.value[end, row]
        else:
            last = rollout.last
            seen, memory, value = last.obs["x"][row], last.memory["hidden"][row], last.value[row]
        assert torch.equal(pieces.last.obs["x"][column], seen)
        assert torch.equal(pieces.last.memory["hidden"][column], memory)
        assert pieces.last.value[column] == value


def test_truncated_steps_keep_their_last_observation(rollout: Rollout, length: int) -> None:
    cuts, pieces = rollout.truncations, cut_up(rollout, length)
    assert len(cuts.row) > 3
    assert pieces.truncated[pieces.truncations.step, pieces.truncations.row].all()
    for number, (step, row) in enumerate(zip(cuts.step.tolist(), cuts.row.tolist(), strict=True)):
        assert int(pieces.truncations.step[number]) == step % length
        assert int(pieces.truncations.row[number]) == step // length * 3 + row
    assert pieces.truncations.obs is cuts.obs


def test_a_rollout_of_one_sequence_stays_as_it_is(rollout: Rollout) -> None:
    assert cut_up(rollout, 16) is rollout


def test_a_row_away_at_the_border_has_lost_its_last_step() -> None:
    """Away from step 2 to 4: what step 1 led to is seen at step 5, in the next sequence."""
    rollout = random_rollout(0, steps=8, rows=2, chunk=8)
    nowhere = torch.zeros(8, 2, dtype=torch.bool)
    active = ~nowhere
    active[2:5, 0] = False
    plain = replace(rollout, terminated=nowhere, truncated=nowhere, lost=nowhere, active=active)
    assert cut_up(plain, 4).lost.T.tolist() == [[False, True, False, False], *[[False] * 4] * 3]
    ended = nowhere.clone()
    ended[1, 0] = True  # the row went away because its episode was over
    assert not cut_up(replace(plain, terminated=ended), 4).lost.any()


@pytest.mark.parametrize(
    ("wanted", "steps", "chunk", "recurrent", "length"),
    [
        (0, 128, 128, False, 16),
        (0, 40, 40, False, 10),
        (0, 40, 8, True, 8),
        (5, 40, 40, False, 5),
        (16, 128, 8, True, 16),
    ],
)
def test_the_length_follows_from_the_rollout_unless_it_is_given(
    wanted: int,
    steps: int,
    chunk: int,
    length: int,
    *,
    recurrent: bool,
) -> None:
    assert sequence_length(wanted, steps=steps, chunk=chunk, recurrent=recurrent) == length


@pytest.mark.parametrize(
    ("wanted", "recurrent", "named"),
    [(7, False, "must divide collect.num_steps = 40"), (10, True, "multiple of the 8 steps")],
)
def test_a_length_that_does_not_fit_is_refused(
    wanted: int,
    named: str,
    *,
    recurrent: bool,
) -> None:
    with pytest.raises(ConfigError, match=named):
        sequence_length(wanted, steps=40, chunk=8, recurrent=recurrent)

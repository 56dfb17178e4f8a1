"""Rollouts by collectors that may be late, die, hang and come back."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.cluster.connect import ClusterError
from longhaul.core.errors import CheckpointError
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.engine.async_collector import OverlapCollector
from longhaul.engine.collector import RolloutCollector
from tests.cluster.fakes import CHUNK, ENVS, NEVER, STEPS, FakeFleet, Run, always
from tests.engine.comparing import assert_equal, through_checkpoint
from tests.engine.diary import ROWS, SETTINGS, TILT, DiaryPolicy, diaries

WHOLE = STEPS * ENVS
SHARE = STEPS * ENVS // 3


def versions(rollout: Rollout) -> list[float | None]:
    """Return the version of the weights each environment acted with; None if it is absent."""
    found: list[float | None] = []
    for env in range(ENVS):
        row = env * ROWS
        if rollout.absent is not None and rollout.absent[row]:
            found.append(None)
            continue
        chosen = rollout.active[:, row] & ~rollout.forced[:, row]
        (version,) = set((-rollout.log_prob[:, row][chosen] // 100).tolist())
        found.append(version)
    return found


def local_overlap(learned: DiaryPolicy) -> OverlapCollector:
    inner = RolloutCollector(
        diaries(ENVS), copy.deepcopy(learned), Seeds(2), steps=STEPS, chunk=CHUNK
    )
    return OverlapCollector(inner, learned)


def test_one_collector_brings_what_one_machine_brings() -> None:
    run, learned = Run(collectors=1), DiaryPolicy()
    local = local_overlap(learned)
    expected = []
    for _ in range(5):
        expected.append(local.collect(SETTINGS))
        with torch.no_grad():
            learned.version.add_(1.0)
    local.close()
    assert_equal(run.iterate(5), expected)


def test_environments_keep_their_seeds_whoever_holds_them() -> None:
    def played(collectors: int) -> Counter[tuple[int, int, int]]:
        rollouts = Run(collectors=collectors).iterate(4)
        return Counter((e.env, e.number, e.seed) for r in rollouts for e in r.episodes)

    assert played(1) == played(3) == played(6)
    assert set(played(3).values()) == {1}


@pytest.mark.parametrize("overlap", [True, False])
def test_a_healthy_cluster_lags_as_one_machine_does(*, overlap: bool) -> None:
    run = Run(overlap=overlap)
    found = [set(versions(rollout)) for rollout in run.iterate(5)]
    assert found == [{max(k - overlap, 0)} for k in range(5)]
    assert run.collector.timings()["cluster/lag_max"] == float(overlap)


def test_weights_are_laid_out_once_per_update() -> None:
    run = Run()
    run.iterate(5)
    assert run.fleet.published == [0, 1, 2, 3, 4]


def slow_last(seconds: float) -> FakeFleet:
    """Return a fleet whose third collector takes this long, the others a second."""
    return FakeFleet(takes=lambda collector, ticket: seconds if collector == 2 else 1.0)


def test_a_straggler_stalls_no_update() -> None:
    run = Run(slow_last(5.0), quorum=0.5, patience=0.5)
    rollouts = run.iterate(8)
    late = [versions(rollout)[-1] is None for rollout in rollouts]
    assert late.count(True) >= 4
    assert late.count(False) >= 1, "what it brings late is learned from all the same"
    assert run.fleet.now < 8 * (1.0 + 0.5 + 0.5) + 2.0
    assert run.collector.ledger.check().dropped == 0


def test_a_straggler_is_waited_for_if_all_are_needed() -> None:
    rollouts = Run(slow_last(5.0), quorum=1.0).iterate(4)
    assert all(rollout.absent is None for rollout in rollouts)


def test_absent_rows_are_not_learned_from_and_keep_their_place() -> None:
    run = Run(slow_last(9.0), quorum=0.5, patience=0.0)
    rollouts = run.iterate(9)
    absent = [rollout for rollout in rollouts if rollout.absent is not None]
    assert absent
    for rollout in absent:
        assert rollout.absent is not None
        assert rollout.absent.tolist() == [False] * 8 + [True] * 4
        assert not rollout.trainable[:, rollout.absent].any()
        assert rollout.mask is not None
        assert rollout.mask[:, rollout.absent].all()
        assert rollout.rows == ENVS * ROWS
        assert rollout.env_steps == int((rollout.active & ~rollout.lost).sum())


def test_fragments_of_too_old_weights_are_dropped_and_their_episodes_told() -> None:
    run = Run(slow_last(6.0), quorum=0.5, patience=0.0, max_lag=2)
    rollouts = run.iterate(16)
    balance = run.collector.ledger.check()
    assert balance.dropped == SHARE * len(run.noted("fragment_dropped")) > 0
    assert all(note["lag"] > 2 for note in run.noted("fragment_dropped"))
    assert all(versions(rollout)[-1] is None for rollout in rollouts[1:])
    told = Counter((e.env, e.number) for r in rollouts for e in r.episodes)
    assert set(told.values()) == {1}
    assert {env for env, _ in told} == set(range(ENVS)), "episodes of dropped fragments count"


def test_a_dead_collector_is_replaced_and_changes_nothing_if_all_are_needed() -> None:
    calm = Run(quorum=1.0)
    shaken = Run(FakeFleet(dies=lambda collector, ticket: ticket in (4, 7, 11)), quorum=1.0)
    assert_equal(shaken.iterate(8), calm.iterate(8))
    assert shaken.collector.ledger.check().lost == 3 * SHARE
    assert [fault.kind for fault in shaken.faults] == ["died"] * 3
    assert len(shaken.noted("fragment_lost")) == 3
    assert calm.collector.ledger.check().lost == 0


def test_others_go_on_while_a_dead_collector_is_replaced() -> None:
    joins = iter([1.0, 1.0, 1.0, 6.0])
    fleet = FakeFleet(
        dies=lambda collector, ticket: ticket == 5, joins_after=lambda collector: next(joins)
    )
    run = Run(fleet, quorum=0.6)
    gone = [rollout.absent is not None for rollout in run.iterate(9)]
    assert True in gone
    assert gone[-1] is False, "it is back"
    assert run.collector.ledger.check().lost == SHARE


def test_a_hung_collector_is_ended_and_replaced() -> None:
    fleet = FakeFleet(takes=lambda collector, ticket: NEVER if ticket == 5 else 1.0)
    run = Run(fleet, quorum=1.0, least_deadline_seconds=7.0)
    assert_equal(run.iterate(5), Run(quorum=1.0).iterate(5))
    assert fleet.dismissed == [2]
    assert [fault.kind for fault in run.faults] == ["hung"]
    assert run.collector.ledger.check().lost == SHARE


def test_a_learner_that_was_held_up_blames_nobody() -> None:
    fleet = FakeFleet(takes=lambda collector, ticket: 1.0 + collector)
    run = Run(fleet, quorum=1.0, least_deadline_seconds=7.0)
    run.iterate(2)
    fleet.stall = 60.0
    run.iterate(3)
    assert fleet.dismissed == []
    assert run.collector.ledger.check().lost == 0


def test_a_collector_that_keeps_dying_ends_the_run() -> None:
    fleet = FakeFleet(dies=lambda collector, ticket: collector == 1)
    with pytest.raises(ClusterError, match=r"collector 1 died 4 times .* killed by the test"):
        Run(fleet, most_deaths=3, quorum=1.0).iterate(2)


def test_a_cluster_without_any_collector_ends_the_run() -> None:
    fleet = FakeFleet(joins_after=lambda collector: NEVER)
    run = Run(fleet, start_seconds=20.0)
    with pytest.raises(ClusterError, match="none of 3 collectors has started within 20 s"):
        run.iterate(1)
    assert fleet.now < 25.0
    assert ClusterError.exit_code == 3


def test_collectors_that_come_later_join_the_run() -> None:
    fleet = FakeFleet(joins_after=lambda collector: 60.0 if collector == 2 else 1.0)
    run = Run(fleet, learn_seconds=10.0)
    rollouts = run.iterate(9)
    assert versions(rollouts[0])[-1] is None
    assert versions(rollouts[-1])[-1] is not None
    assert run.noted("cluster_waits") == [{"collectors": 2, "hired": 3}]
    assert [note["collector"] for note in run.noted("collector_joined")] == [0, 1, 2]


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("cut", [1, 3])
def test_a_run_saved_in_mid_flight_continues_exactly(*, overlap: bool, cut: int) -> None:
    whole, resumed = Run(quorum=1.0, overlap=overlap), Run(quorum=1.0, overlap=overlap)
    whole.iterate(cut)
    saved = through_checkpoint(whole.collector.state_dict())
    resumed.collector.load_state_dict(saved)
    resumed.learned.load_state_dict(whole.learned.state_dict())
    assert_equal(resumed.iterate(4), whole.iterate(4))
    assert resumed.collector.ledger.check() == whole.collector.ledger.check()


def test_what_is_under_way_is_made_again_with_its_own_settings() -> None:
    whole, resumed = Run(quorum=1.0), Run(quorum=1.0)
    early, late = Settings([TILT]), Settings([TILT], {TILT.name: 0.25})
    whole.iterate(2, late)
    resumed.collector.load_state_dict(through_checkpoint(whole.collector.state_dict()))
    resumed.learned.load_state_dict(whole.learned.state_dict())
    assert_equal(resumed.iterate(3, early), whole.iterate(3, early))


def test_a_state_from_before_the_first_rollout_is_a_beginning() -> None:
    fresh, resumed = Run(quorum=1.0), Run(quorum=1.0)
    resumed.collector.load_state_dict(through_checkpoint(fresh.collector.state_dict()))
    assert_equal(resumed.iterate(3), fresh.iterate(3))


def test_a_resumed_run_keeps_its_number_of_collectors() -> None:
    small = Run(FakeFleet(processors=2.0), collectors=0, quorum=1.0)
    large = Run(FakeFleet(processors=6.0), collectors=0, quorum=1.0)
    small.iterate(2)
    large.collector.load_state_dict(through_checkpoint(small.collector.state_dict()))
    large.learned.load_state_dict(small.learned.state_dict())
    assert_equal(large.iterate(3), small.iterate(3))
    assert large.collector.timings()["cluster/collectors"] == 2.0


def test_the_state_of_a_run_on_one_machine_is_refused() -> None:
    local = local_overlap(DiaryPolicy())
    local.collect(SETTINGS)
    state = local.state_dict()
    local.close()
    with pytest.raises(CheckpointError, match=r"resume it with cluster\.address = ''"):
        Run().collector.load_state_dict(state)


def test_a_late_answer_to_a_ticket_that_was_given_up_is_not_used() -> None:
    fleet = FakeFleet(takes=lambda collector, ticket: 40.0 if ticket == 5 else 1.0)
    run = Run(fleet, quorum=0.6, patience=0.0, least_deadline_seconds=10.0, learn_seconds=3.0)
    told = [e for rollout in run.iterate(20) for e in rollout.episodes]
    assert set(Counter((e.env, e.number) for e in told).values()) == {1}
    balance = run.collector.ledger.check()
    assert balance.lost == SHARE
    assert balance.asked == balance.learned + SHARE + balance.under_way


def test_closing_tells_the_balance_and_ends_the_fleet() -> None:
    run = Run()
    run.iterate(2)
    run.collector.close()
    assert run.fleet.closed
    balance = {"asked": 3 * WHOLE, "learned": 2 * WHOLE, "dropped": 0, "lost": 0}
    assert run.noted("cluster_balance") == [{**balance, "under_way": WHOLE}]


tickets = st.sets(st.integers(0, 40), max_size=5)


@settings(max_examples=10)
@given(st.data())
def test_whatever_happens_the_ledger_balances_and_no_episode_is_told_twice(
    data: st.DataObject,
) -> None:
    times = data.draw(st.lists(st.sampled_from([0.5, 1.0, 4.0, 12.0]), min_size=1, max_size=8))
    deaths, hangs, slow_joins = (data.draw(tickets) for _ in range(3))
    hired = itertools.count()
    fleet = FakeFleet(
        takes=lambda collector, t: NEVER if t in hangs else times[t % len(times)],
        dies=lambda collector, t: t in deaths,
        joins_after=lambda collector: 6.0 if next(hired) in slow_joins else 0.5,
    )
    run = Run(
        fleet,
        quorum=data.draw(st.sampled_from([0.3, 0.7, 1.0])),
        patience=data.draw(st.sampled_from([0.0, 1.0])),
        max_lag=data.draw(st.sampled_from([1, 4])),
        overlap=data.draw(st.booleans()),
        least_deadline_seconds=6.0,
        most_deaths=20,
    )
    rollouts = []
    for _ in range(6):
        rollouts += run.iterate(1)
        balance = run.collector.ledger.check()
        assert balance.is_even
        if data.draw(st.integers(0, 4)) == 0:
            state = through_checkpoint(run.collector.state_dict())
            after = Run(fleet, quorum=0.7, most_deaths=50, least_deadline_seconds=6.0)
            after.collector.load_state_dict(state)
            assert replace(balance, under_way=0, asked=balance.asked - balance.under_way) == (
                after.collector.ledger.check()
            )
    present = [ENVS * ROWS - (0 if r.absent is None else int(r.absent.sum())) for r in rollouts]
    assert run.collector.ledger.check().learned == sum(present) // ROWS * STEPS
    told = Counter((e.env, e.number) for r in rollouts for e in r.episodes)
    assert set(told.values()) <= {1}


def test_a_fast_fleet_is_never_asked_for_more_than_one_fragment_at_a_time() -> None:
    run = Run(FakeFleet(takes=always(0.01)), learn_seconds=5.0)
    run.iterate(6)
    asked = Counter(ask.ticket.share.collector for ask in run.fleet.asked)
    assert asked == {0: 7, 1: 7, 2: 7}

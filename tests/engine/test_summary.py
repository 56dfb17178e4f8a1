"""What is told of a rollout, and that a restart changes none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from longhaul.core.control import Progress
from longhaul.core.env import Episode
from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.summary import WINDOW, Summary, reward_terms
from longhaul.envs.starts import STARTS, STARTS_DEALT
from tests.engine.comparing import through_checkpoint
from tests.engine.diary import SETTINGS, TILT, DiaryPolicy, diaries


def nothing(episodes: Sequence[Episode]) -> Metrics:
    return {}


@pytest.fixture
def rollout() -> Rollout:
    return RolloutCollector(diaries(1), DiaryPolicy(), Seeds(1), steps=4, chunk=0).collect(SETTINGS)


def ended(rollout: Rollout, returns: Sequence[float], begin: int = 0) -> Rollout:
    """Return the rollout with episodes of these returns, each as long as its number."""
    episodes = tuple(
        Episode(0, n, n, n, value, "over") for n, value in enumerate(returns, start=begin)
    )
    return replace(rollout, episodes=episodes)


def test_means_are_over_the_last_hundred_episodes(rollout: Rollout) -> None:
    summary = Summary(nothing)
    for begin in range(0, 250, 50):
        returns = [float(n**2) for n in range(begin, begin + 50)]
        metrics = summary.of(ended(rollout, returns, begin), Progress(1, 17))
    assert WINDOW == 100
    assert metrics["rollout/ep_rew_mean"] == pytest.approx(sum(n**2 for n in range(150, 250)) / 100)
    assert metrics["rollout/ep_len_mean"] == pytest.approx(sum(range(150, 250)) / 100)
    assert metrics["rollout/episodes"] == 50.0
    assert metrics["time/total_timesteps"] == 17.0


def test_what_the_steps_measure_is_summed_up_by_the_task(rollout: Rollout) -> None:
    def oldest(seen: Rollout) -> Metrics:
        return {"env/oldest": float(seen.measures["age"].max())}

    metrics = Summary(nothing, oldest).of(rollout, Progress())
    ages = rollout.obs["step"] + 1
    assert metrics["env/oldest"] == float(ages.max())
    torch.testing.assert_close(rollout.measures["age"], ages.float())


def test_before_the_first_episode_there_is_no_mean(rollout: Rollout) -> None:
    metrics = Summary(nothing).of(ended(rollout, []), Progress())
    assert "rollout/ep_rew_mean" not in metrics
    assert "rollout/ep_len_mean" not in metrics
    assert metrics["rollout/episodes"] == 0.0


def test_a_rollout_without_ends_repeats_the_mean(rollout: Rollout) -> None:
    summary = Summary(nothing)
    summary.of(ended(rollout, [3.0, 5.0]), Progress())
    assert summary.of(ended(rollout, []), Progress())["rollout/ep_rew_mean"] == 4.0


@pytest.mark.parametrize("before", [0, 30, 230])
def test_a_restart_changes_no_mean(rollout: Rollout, before: int) -> None:
    whole, resumed = Summary(nothing), Summary(nothing)
    returns = [0.1 * n**1.5 for n in range(before)]
    whole.of(ended(rollout, returns), Progress())
    resumed.load_state_dict(through_checkpoint(whole.state_dict()))
    for begin in range(before, before + 160, 40):
        more = ended(rollout, [0.3 * n**0.5 for n in range(begin, begin + 40)], begin)
        assert resumed.of(more, Progress()) == whole.of(more, Progress())
    assert resumed.state_dict() == whole.state_dict()


def test_a_loaded_window_still_forgets(rollout: Rollout) -> None:
    summary = Summary(nothing)
    summary.of(ended(rollout, [1000.0] * 100), Progress())
    summary.load_state_dict(through_checkpoint(summary.state_dict()))
    metrics = summary.of(ended(rollout, [1.0] * 100), Progress())
    assert metrics["rollout/ep_rew_mean"] == 1.0


def test_the_tasks_own_figures_are_of_this_rollouts_episodes(rollout: Rollout) -> None:
    summary = Summary(lambda episodes: {"env/count": float(len(episodes))})
    summary.of(ended(rollout, [1.0, 2.0]), Progress())
    assert summary.of(ended(rollout, [3.0]), Progress())["env/count"] == 1.0


def test_each_reward_term_is_told_with_its_share(rollout: Rollout) -> None:
    metrics = reward_terms(replace(rollout, terms={"bonus": 6.0, "cost": -2.0}))
    assert metrics == {
        "reward/bonus": 6.0,
        "reward/bonus_share": 0.75,
        "reward/cost": -2.0,
        "reward/cost_share": 0.25,
    }


def test_terms_that_are_all_zero_have_no_share(rollout: Rollout) -> None:
    metrics = reward_terms(replace(rollout, terms={"bonus": 0.0, "cost": 0.0}))
    assert metrics == {"reward/bonus": 0.0, "reward/cost": 0.0}


def test_terms_of_a_real_rollout_add_up_to_its_reward(rollout: Rollout) -> None:
    metrics = reward_terms(rollout)
    assert metrics["reward/bonus"] + metrics["reward/cost"] == pytest.approx(
        float(rollout.reward.sum())
    )
    assert metrics["reward/bonus_share"] + metrics["reward/cost_share"] == pytest.approx(1.0)


def test_starts_count_in_the_rollout_their_episodes_begin_in() -> None:
    starts = Settings([TILT, STARTS], {STARTS.name: (1, 2, 3)})
    collector = RolloutCollector(diaries(2), DiaryPolicy(), Seeds(1), steps=4, chunk=0)
    summary = Summary(nothing)
    dealt = [
        summary.of(collector.collect(starts), Progress(k)).get(STARTS_DEALT, 0.0) for k in range(9)
    ]
    assert dealt[0] >= 2.0
    assert sum(dealt) == 3.0


def test_quantiles_are_those_of_numpy(rollout: Rollout) -> None:
    returns = [float((7 * n) % 31) for n in range(57)]
    metrics = Summary(nothing).of(ended(rollout, returns), Progress())
    for percent in (10, 50, 90, 99):
        assert metrics[f"rollout/ep_rew_p{percent}"] == pytest.approx(
            np.percentile(returns, percent)
        )
    assert metrics["rollout/ep_rew_std"] == pytest.approx(np.std(returns))
    assert metrics["rollout/ep_rew_min"] == 0.0
    assert metrics["rollout/ep_len_max"] == 56.0


def test_the_window_is_configurable(rollout: Rollout) -> None:
    metrics = Summary(nothing, window=2).of(ended(rollout, [9.0, 1.0, 3.0]), Progress())
    assert metrics["rollout/ep_rew_mean"] == 2.0


def test_the_shares_of_reasons_add_up(rollout: Rollout) -> None:
    episodes = tuple(Episode(0, n, n, 5, 1.0, "goal" if n % 4 else "pit") for n in range(8))
    metrics = Summary(nothing).of(replace(rollout, episodes=episodes), Progress())
    assert metrics["rollout/ended/goal"] == 0.75
    assert metrics["rollout/ended/pit"] == 0.25


def test_goals_count_where_the_env_tells_them(rollout: Rollout) -> None:
    told = [{"is_success": 1.0}, {"is_success": 0.0}, {}]
    episodes = tuple(Episode(0, n, n, 5, 1.0, "over", one) for n, one in enumerate(told))
    metrics = Summary(nothing).of(replace(rollout, episodes=episodes), Progress())
    assert metrics["rollout/success_rate"] == 0.5
    assert "rollout/success_rate" not in Summary(nothing).of(ended(rollout, [1.0]), Progress())


def test_the_ages_of_running_episodes_grow_across_rollouts(rollout: Rollout) -> None:
    steps, rows = rollout.started.shape
    quiet = torch.zeros(steps, rows, dtype=torch.bool)
    begun = quiet.clone()
    begun[1] = True
    summary = Summary(nothing)
    first = replace(rollout, started=begun, terminated=quiet, truncated=quiet)
    later = replace(rollout, started=quiet, terminated=quiet, truncated=quiet)
    assert summary.of(first, Progress())["rollout/running_len_max"] == steps - 1
    summary.load_state_dict(through_checkpoint(summary.state_dict()))
    assert summary.of(later, Progress())["rollout/running_len_mean"] == 2 * steps - 1
    over = quiet.clone()
    over[-1] = True
    ended_now = replace(later, terminated=over)
    assert summary.of(ended_now, Progress())["rollout/running_len_max"] == 0.0


def test_the_ages_of_absent_rows_stay_as_they_were(rollout: Rollout) -> None:
    steps, rows = rollout.started.shape
    quiet = torch.zeros(steps, rows, dtype=torch.bool)
    still = replace(rollout, started=quiet, terminated=quiet, truncated=quiet)
    absent = torch.zeros(rows, dtype=torch.bool)
    absent[0] = True
    summary = Summary(nothing)
    summary.of(still, Progress())
    metrics = summary.of(replace(still, absent=absent), Progress())
    assert metrics["rollout/running_len_mean"] == steps * (2 * rows - 1) / rows


def test_a_checkpoint_from_before_reasons_were_kept_is_read(rollout: Rollout) -> None:
    summary = Summary(nothing)
    summary.load_state_dict({"recent": [[3.0, 7], [5.0, 9]]})
    metrics = summary.of(ended(rollout, []), Progress())
    assert metrics["rollout/ep_rew_mean"] == 4.0


def test_the_shares_of_actions_are_of_active_rows(rollout: Rollout) -> None:
    action = torch.zeros_like(rollout.action)
    action[0] = 2
    active = torch.ones_like(rollout.active)
    taken = replace(rollout, action=action, active=active, forced=torch.zeros_like(active))
    metrics = Summary(nothing).of(taken, Progress())
    steps = rollout.steps
    assert metrics["rollout/action_share/0"] == pytest.approx(1 - 1 / steps)
    assert metrics["rollout/action_share/2"] == pytest.approx(1 / steps)
    assert "rollout/action_share/1" not in metrics
    assert "rollout/forced_share" not in metrics

"""Every rule speaks once of a run that is as it says, and never of one that is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.core.hint import Finding, Recent, Rule
from longhaul.hints.advisor import GENERAL, Advisor, HintsConfig, choose_rules
from tests.hints.streams import Stream, steady, wobble


def healthy(number: int) -> dict[str, float]:
    """Return the metrics of a run that learns as it should."""
    return {
        "rollout/ep_rew_mean": 20 + number + wobble(number, 2),
        "rollout/ep_len_mean": 20 + number,
        "rollout/episodes": 10,
        "eval/mean_reward": 22 + number,
        "eval/std_reward": 5,
        "train/approx_kl": 0.008 + wobble(number, 0.004),
        "train/clip_fraction": 0.1 + wobble(number, 0.05),
        "train/learning_rate": 3e-4,
        "train/entropy_loss": -0.9 + number / 400,
        "train/value_loss": 5 + number / 10 + wobble(number, 2),
        "train/explained_variance": 0.6 + wobble(number, 0.2),
        "train/grad_norm": 1.5 + wobble(number, 1),
        "fault/skipped_updates": 0,
        "fault/rollbacks": 0,
        "policy/std": 1 - number / 400,
        "policy/expert_share/0": 0.4 + wobble(number, 0.1),
        "policy/expert_share/1": 0.6 - wobble(number, 0.1),
        "policy/mean_alpha_entropy": 0.65,
        "replay/fill": min(1.0, number / 100),
        "replay/capacity": 204_800,
        "replay/pushed_total": 2048 * number,
        "gate/pace_held": number % 8,
        "gate/pace_stage": number // 8,
        "gate/pace_missing/eval/p10": 3,
        "starts/tail_warning": 0,
        "starts/tail_remaining": 400 - number,
        "starts/tail_remaining_ratio": 1 - number / 400,
        "time/fps": 5000 + wobble(number, 1500),
        "time/iteration_seconds": 0.4,
        "time/collect_seconds": 0.2,
        "time/learn_seconds": 0.15,
        "time/other_seconds": 0.05,
        "time/env_step_ms_median": 0.5,
        "time/env_step_ms_slowest": 1.5,
        "time/env_slowest": number % 7,
        "mem/rss": (900 + min(number, 60) * 4) * 2.0**20,
        "gpu/0_percent_mean": 40.0,
    }


@dataclass(frozen=True)
class Trouble:
    """One thing that goes wrong with a healthy run, from some iteration on."""

    rule: str
    wrong: Any
    since: int = 40
    iterations: int = 200
    facts: Any = None

    def stream(self) -> Stream:
        def metrics(number: int) -> dict[str, float]:
            row = healthy(number)
            if number >= self.since:
                row |= self.wrong(number)
            return {name: value for name, value in row.items() if value is not None}

        return Stream(metrics, self.iterations, self.facts or {})


TROUBLES = (
    Trouble("returns-flat", steady(rollout__ep_rew_mean=0.0)),
    Trouble(
        "returns-flat",
        lambda n: {"rollout/ep_rew_mean": -9.4 + wobble(n, 0.1)},
        facts={"solved": 475.0},
    ),
    Trouble(
        "ending-pays",
        lambda n: {"rollout/ep_rew_mean": -9.4, "rollout/ep_len_mean": 9.4 + wobble(n, 0.2)},
    ),
    Trouble("episodes-never-end", steady(rollout__episodes=0.0)),
    Trouble(
        "evaluation-apart",
        lambda n: {"eval/mean_reward": 10.0 if n % 20 == 0 else None},
        since=1,
    ),
    Trouble(
        "evaluation-apart",
        lambda n: {
            "eval/mean_reward": 900.0 if n % 20 == 0 else None,
            "rollout/ep_rew_mean": 100.0,
        },
        since=1,
    ),
    Trouble("updates-too-large", steady(train__approx_kl=0.4, train__clip_fraction=0.6)),
    Trouble("updates-too-large", steady(train__clip_fraction=0.55)),
    Trouble("updates-too-large", steady(train__approx_kl=36.0), since=1),
    Trouble("updates-too-small", steady(train__approx_kl=1e-7, train__clip_fraction=0.0)),
    Trouble(
        "loss-abnormal",
        steady(train__value_loss=900.0, train__explained_variance=-3.0),
        since=150,
    ),
    Trouble("loss-abnormal", lambda n: {"fault/skipped_updates": float(n == 100)}),
    Trouble("entropy-abnormal", steady(train__entropy_loss=-0.001, rollout__ep_rew_mean=20.0)),
    Trouble("entropy-abnormal", steady(train__entropy_loss=-0.999), since=1),
    Trouble(
        "entropy-abnormal",
        lambda n: {"policy/std": 1 + n / 10},
        since=1,
        iterations=120,
        facts={"action.most_entropy": 0.0, "learn.ent_coef": 0.05},
    ),
    Trouble("gradients-too-long", steady(train__grad_norm=400.0)),
    Trouble(
        "gradients-too-long",
        steady(train__grad_norm=400.0),
        facts={"learn.normalize_reward": True},
    ),
    Trouble(
        "still-warming-up",
        lambda n: {"train/learning_rate": 3e-4 * n / 1000},
        since=1,
        iterations=300,
    ),
    Trouble("gate-stuck", lambda n: {"gate/pace_held": float(n), "gate/pace_stage": 2.0}),
    Trouble("start-queue-low", steady(starts__tail_warning=1.0)),
    Trouble("experts-collapsed", lambda n: {"policy/expert_share/1": 0.93}),
    Trouble("experts-collapsed", steady(policy__mean_alpha_entropy=0.1)),
    Trouble(
        "replay-underfilled",
        lambda n: {
            "replay/fill": n / 10_000,
            "replay/capacity": 20_480_000.0,
            "replay/pushed_total": 2048.0 * n,
        },
        since=1,
    ),
    Trouble(
        "throughput-dropped",
        steady(time__fps=900.0, time__collect_seconds=2.1),
        since=150,
        iterations=250,
    ),
    Trouble("one-env-slow", steady(time__env_step_ms_slowest=25.0, time__env_slowest=3.0)),
    Trouble(
        "memory-grows", lambda n: {"mem/rss": (900.0 + 3 * n) * 2.0**20}, since=1, iterations=500
    ),
    Trouble("device-idle", steady(gpu__0_percent_mean=2.0), facts={"device": "cuda:0"}),
    Trouble(
        "device-idle",
        lambda n: {"gpu/0_percent_mean": None, "time/learn_seconds": 0.01},
        since=1,
        facts={"device": "cuda"},
    ),
)
BY_NAME = {rule.name: rule for rule in GENERAL}


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.rule)
def test_a_rule_speaks_exactly_once_of_what_it_is_for(trouble: Trouble) -> None:
    said = trouble.stream().hints_of(BY_NAME[trouble.rule])
    assert len(said) == 1
    iteration, hint = said[0]
    assert iteration >= trouble.since
    for part in (hint.finding.evidence, hint.finding.cause, hint.finding.advice):
        assert part[0].isupper() or part[0].isdigit()
        assert part.endswith(".")
    assert any(character.isdigit() for character in hint.finding.evidence)


@pytest.mark.parametrize(
    "busy",
    [
        # Seen with sixteen equal Pendulums: the first one is stepped right after the policy.
        steady(
            time__env_step_ms_median=0.0133,
            time__env_step_ms_slowest=0.381,
            time__env_slowest=0.0,
            time__iteration_seconds=0.3,
        ),
        # Another one is held up every time.
        lambda n: {"time/env_step_ms_slowest": 25.0, "time/env_slowest": n * 5 % 16},
        # The same one, but only now and then.
        lambda n: {"time/env_step_ms_slowest": 25.0 if n % 2 else 0.6, "time/env_slowest": 0.0},
        # Always the same one, but nobody waits for long.
        steady(time__env_step_ms_slowest=6.0, time__env_slowest=0.0, time__iteration_seconds=9.0),
    ],
    ids=["first", "others", "now and then", "little"],
)
def test_equal_environments_on_a_busy_machine_are_not_called_slow(busy: Any) -> None:
    assert Trouble("one-env-slow", busy, since=1).stream().hints_of(BY_NAME["one-env-slow"]) == []


def test_every_rule_has_a_trouble_of_its_own() -> None:
    assert {trouble.rule for trouble in TROUBLES} == set(BY_NAME)


@pytest.mark.parametrize("rule", GENERAL, ids=lambda rule: rule.name)
@pytest.mark.parametrize("facts", [{}, {"device": "cuda", "solved": 475.0}])
def test_a_rule_says_nothing_of_a_healthy_run(rule: Rule, facts: dict[str, Any]) -> None:
    assert Stream(healthy, 200, facts).hints_of(rule) == []


@pytest.mark.parametrize("rule", GENERAL, ids=lambda rule: rule.name)
def test_a_rule_says_nothing_of_a_run_that_measures_nothing(rule: Rule) -> None:
    assert Stream(lambda number: {}).hints_of(rule) == []


def test_a_task_that_is_solved_may_be_sure_of_itself_and_flat() -> None:
    stream = Stream(
        steady(train__entropy_loss=-0.001, rollout__ep_rew_mean=-80.0, rollout__ep_len_mean=80.0),
        facts={"solved": -100.0},
    )
    for name in ("entropy-abnormal", "returns-flat", "ending-pays"):
        assert stream.hints_of(BY_NAME[name]) == []


def test_one_leap_is_told_at_once_and_what_comes_of_it_is_laid_to_it() -> None:
    def metrics(number: int) -> dict[str, float]:
        return {
            **healthy(number),
            "rollout/ep_rew_mean": 9.4,
            "train/approx_kl": 36.0 if number == 2 else 0.0,
            "train/clip_fraction": 0.6 if number == 2 else 0.0,
            "train/entropy_loss": -0.7 if number <= 2 else -1e-12,
        }

    stream = Stream(metrics, 120)
    ((iteration, leap),) = stream.hints_of(BY_NAME["updates-too-large"])
    assert iteration == 2
    assert "moved by 36 nats" in leap.text
    assert stream.hints_of(BY_NAME["updates-too-small"]) == []
    _, collapse = stream.hints_of(BY_NAME["entropy-abnormal"])[0]
    assert "36 nats (approx. KL, iteration 2)" in collapse.text
    assert collapse.finding.setting == "learn.learning_rate"


def test_a_gate_at_its_last_stage_or_without_a_blocking_metric_is_not_stuck() -> None:
    stream = Stream(lambda number: {"gate/pace_held": float(number), "gate/pace_stage": 4.0})
    assert stream.hints_of(BY_NAME["gate-stuck"]) == []


def test_a_gate_that_is_stuck_names_the_metric_and_the_distance() -> None:
    trouble = next(trouble for trouble in TROUBLES if trouble.rule == "gate-stuck")
    _, hint = trouble.stream().hints_of(BY_NAME["gate-stuck"])[0]
    assert "eval/p10, which is 3 from its threshold" in hint.text
    assert "'pace'" in hint.text


def test_a_config_changes_thresholds_and_silences_rules() -> None:
    config = HintsConfig(silent=("loss-abnormal",), rules={"returns-flat": {"window": 7}})
    rules = {rule.name: rule for rule in choose_rules(config)}
    assert "loss-abnormal" not in rules
    assert rules["returns-flat"].window == 7
    assert rules["returns-flat"].cooldown == BY_NAME["returns-flat"].cooldown
    assert choose_rules(HintsConfig(enabled=False)) == ()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (HintsConfig(silent=("returns-flt",)), "did you mean 'returns-flat'"),
        (HintsConfig(rules={"nonsense": {}}), "no rule 'nonsense'"),
        (HintsConfig(rules={"returns-flat": {"windw": 7}}), "did you mean"),
        (HintsConfig(rules={"returns-flat": {"window": "long"}}), "expected int"),
        (HintsConfig(rules={"returns-flat": {"name": "other"}}), "cannot be changed"),
    ],
)
def test_a_config_that_names_what_is_not_there_is_refused(config: HintsConfig, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        choose_rules(config)


@dataclass(frozen=True)
class Own:
    """A rule by somebody else."""

    name: str = "returns-flat"
    window: int = 1
    cooldown: int = 1
    timed: bool = False
    reads: tuple[str, ...] = ("rollout/ep_rew_mean",)

    def judge(self, recent: Recent) -> Finding | None:
        raise ZeroDivisionError


def test_a_tasks_rule_takes_the_place_of_a_general_one() -> None:
    rules = choose_rules(HintsConfig(), own=[Own()])
    assert [rule for rule in rules if rule.name == "returns-flat"] == [Own()]
    assert len(rules) == len(GENERAL)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two hint rules"):
        Advisor([Own(), Own()], {})


def test_a_rule_that_fails_is_left_out_and_the_others_go_on() -> None:
    flat = choose_rules(HintsConfig(rules={"updates-too-large": {"window": 2}}))
    rules = [Own(), *(rule for rule in flat if rule.name == "updates-too-large")]
    advisor = Advisor(rules, {"learn.learning_rate": 0.1})
    metrics = {"train/approx_kl": 1.0, "rollout/ep_rew_mean": 1.0}
    said = [advisor.take(Progress(number), metrics) for number in (1, 2, 3)]
    assert [len(hints) for hints in said] == [0, 1, 0]

"""Which backend a run gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longhaul.core.errors import ConfigError
from longhaul.core.policy import Policy
from longhaul.learn.backend import Backends, find_backends, learner_class
from longhaul.learn.config import (
    OnPolicyConfig,
    PPOConfig,
    ReplayConfig,
    TeacherConfig,
    VTraceConfig,
)
from longhaul.learn.native.ppo import NativePPO
from longhaul.learn.ppo import PPO
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import make_policy
from tests.learn.native.cases import CASES, SMALL, Case

MLP = CASES["separate"].build()


def backend(policy: Policy, config: OnPolicyConfig, *, learners: int = 1) -> str:
    found = find_backends(policy, config, learners=learners, begun=None)
    assert found.acting == found.learning
    return found.learning


def test_small_networks_are_native() -> None:
    for case in CASES.values():
        assert backend(case.build(), PPOConfig()) == "native"


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (VTraceConfig(), {}),
        (PPOConfig(replay=ReplayConfig(enabled=True)), {}),
        (PPOConfig(teacher=TeacherConfig(sources=("script",))), {}),
        (PPOConfig(), {"activation": "silu"}),
        (PPOConfig(), {"core": "gru"}),
        (PPOConfig(), {"noisy": "heads"}),
        (PPOConfig(), {"compile": True}),
    ],
)
def test_what_has_no_native_counterpart_is_torchs(
    config: OnPolicyConfig, changes: dict[str, object]
) -> None:
    policy = Case(CASES["separate"].action, {**SMALL, **changes}).build()
    assert backend(policy, config) == "torch"
    with pytest.raises(ConfigError, match=r"learn\.backend = 'native' does not support"):
        backend(policy, replace(config, backend="native"))


def test_policies_that_say_nothing_and_several_learners_are_torchs() -> None:
    assert backend(make_policy(), PPOConfig()) == "torch"
    assert backend(MLP, PPOConfig(), learners=2) == "torch"


def test_a_run_keeps_what_it_was_begun_with() -> None:
    auto = PPOConfig()
    for begun in (
        Backends("torch", "torch"),
        Backends("native", "torch"),
        Backends("native", "native"),
    ):
        assert find_backends(MLP, auto, learners=1, begun=begun) == begun


def test_a_native_run_refuses_what_only_torch_computes() -> None:
    compiled = Case(CASES["separate"].action, {**SMALL, "compile": True}).build()
    begun = Backends("native", "native")
    with pytest.raises(ConfigError, match="begun with native updates, which do not support"):
        find_backends(compiled, PPOConfig(), learners=1, begun=begun)
    torchs = find_backends(compiled, PPOConfig(backend="torch"), learners=1, begun=begun)
    assert torchs == Backends("torch", "torch")


def test_a_run_may_be_given_another_backend_and_acts_natively_only_if_it_began_so() -> None:
    native, torch = PPOConfig(backend="native"), PPOConfig(backend="torch")
    was_native, was_torch = Backends("native", "native"), Backends("torch", "torch")
    assert find_backends(MLP, native, learners=1, begun=was_torch) == Backends("native", "torch")
    assert find_backends(MLP, torch, learners=1, begun=was_native) == was_torch


def test_the_learner_is_that_of_the_backend() -> None:
    assert learner_class(PPOConfig(), "native") is NativePPO
    assert learner_class(PPOConfig(), "torch") is PPO
    assert learner_class(VTraceConfig(), "torch") is VTrace

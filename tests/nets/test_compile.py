"""What torch.compile makes of a network learns as the plain one does, and shares its weights."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from longhaul.app.build.config import SessionOptions
from longhaul.app.evaluation.load import Run
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run, find_run
from longhaul.core.spaces import EnvSpec
from longhaul.engine.stop import after_iterations
from longhaul.nets.actor_critic import build_policy
from longhaul.nets.config import PolicyConfig
from tests.app.small import CARTPOLE, small_config
from tests.nets.rolling import ACTIONS, MIXED, SETTINGS, roll

pytestmark = [
    pytest.mark.slow,
    # Of torch's own modules, when its compiler is imported.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
]

SPEC = EnvSpec("fake", MIXED, ACTIONS["categorical"], has_masks=True)
SMALL = PolicyConfig(hidden=(16,), image_features=24, activation="relu")


def learned(config: PolicyConfig) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return log-probabilities, values and gradients of a rollout with the same weights."""
    torch.manual_seed(3)
    policy = build_policy(SPEC, config)
    rolled = roll(policy, SPEC, steps=5, rows=4, seed=1)
    found = policy.evaluate_actions(rolled.sequences, SETTINGS)
    (found.log_prob.sum() + found.value.square().sum()).backward()
    gradients = {
        name: part.grad for name, part in policy.named_parameters() if part.grad is not None
    }
    return found.log_prob.detach(), found.value.detach(), gradients


@pytest.mark.parametrize(
    "changes",
    [{"trunk": "lean"}, {"trunk": "nature"}, {"trunk": "lean", "core": "gru"}],
    ids=["lean", "nature", "gru"],
)
def test_a_compiled_network_has_the_values_and_gradients_of_the_plain_one(
    changes: dict[str, Any],
) -> None:
    plain = dataclasses.replace(SMALL, **changes)
    expected = learned(plain)
    found = learned(dataclasses.replace(plain, compile=True))
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], expected[1], atol=1e-5, rtol=1e-5)
    assert found[2].keys() == expected[2].keys()
    for name, gradient in found[2].items():
        torch.testing.assert_close(gradient, expected[2][name], atol=1e-5, rtol=1e-4)


def hashes(weights: Mapping[str, Tensor]) -> dict[str, str]:
    return {
        name: hashlib.sha256(part.numpy().tobytes()).hexdigest() for name, part in weights.items()
    }


@pytest.mark.parametrize(("first", "then"), [("true", "false"), ("false", "true")])
def test_weights_pass_between_compiled_and_plain_runs(
    tmp_path: Path, first: str, then: str
) -> None:
    quiet = SessionOptions(quiet=True)
    config = small_config(CARTPOLE, f"policy.compile={first}", "learn.backend=torch")
    run = begin_run(config, tmp_path).directory
    run_session(run, config, quiet, also_until=after_iterations(2))
    weights = Run(run).agent("latest").policy.state_dict()
    before = hashes(weights)
    changed = find_run(run.path, total_timesteps=None, overrides=[f"policy.compile={then}"])
    assert changed.config.policy.compile == (then == "true")
    other = build_policy(Run(run).task.envs.spec, changed.config.policy)
    other.load_state_dict(weights)
    assert hashes(other.state_dict()) == before
    assert run_session(run, changed.config, quiet).exit_code == 0
    after = hashes(Run(run).agent("latest").policy.state_dict())
    assert after.keys() == before.keys()
    assert after != before

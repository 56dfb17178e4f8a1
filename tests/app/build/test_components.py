from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.app.build.components import build_task, check_task, identity
from longhaul.app.session.assemble import begun_backends, begun_tier
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import Tier
from longhaul.learn.backend import Backends
from longhaul.runs.checkpoints.manifest import decode_manifest, encode_manifest
from tests.app.small import CARTPOLE, small_config, stopped_run


def test_runs_that_compute_the_same_have_one_identity() -> None:
    plain = identity(small_config())
    assert identity(small_config(CARTPOLE, "total_timesteps=9", "checkpoint.keep_last=9")) == plain
    assert plain["task"] == CARTPOLE


def test_a_value_that_changes_the_computation_changes_the_identity() -> None:
    found = {
        identity(small_config(CARTPOLE, override))["config"]
        for override in ("seed=1", "seed=2", "learn.n_epochs=2", "options.max_episode_steps=9")
    }
    assert len(found) == 4


def test_a_default_is_no_part_of_the_identity() -> None:
    # So that a version with one more key still knows the checkpoints of the one before.
    assert identity(small_config(CARTPOLE, "policy.noise_scale=0.5")) == identity(small_config())


@pytest.mark.parametrize("task", [CARTPOLE, "probe:chase", "probe:recall"])
@pytest.mark.parametrize("tier", [Tier.REPLAY, Tier.RESTART, Tier.NONE])
def test_every_task_honors_the_configured_tier(task: str, tier: Tier) -> None:
    config = small_config(task, f"env.tier={tier.value}")
    assert build_task(config).envs.spec.tier is tier


def test_snapshots_can_be_had_only_where_they_are_offered() -> None:
    assert (
        build_task(small_config("probe:chase", "env.tier=snapshot")).envs.spec.tier is Tier.SNAPSHOT
    )
    with pytest.raises(ConfigError, match="CartPole-v1 offers no snapshots"):
        build_task(small_config(CARTPOLE, "env.tier=snapshot"))


@pytest.mark.parametrize("begun", [Tier.REPLAY, Tier.NONE])
def test_a_resumed_run_keeps_the_tier_it_was_begun_with(tmp_path: Path, begun: Tier) -> None:
    run = stopped_run(tmp_path, f"env.tier={begun.value}", iterations=1)
    found = begun_tier(run)
    assert found is begun
    config = small_config(CARTPOLE, "env.check_seeds=true")
    assert check_task(config, build_task(config), lambda line: None, found).envs.spec.tier is begun


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("torch", "torch")),
        ({"backend": "native"}, ("native", "torch")),
        ({"backend": "native", "acting": "native"}, ("native", "native")),
    ],
)
def test_runs_older_than_native_code_go_on_without_it(
    tmp_path: Path, facts: dict[str, str], expected: tuple[str, str]
) -> None:
    run = stopped_run(tmp_path, "learn.backend=native", iterations=1)
    assert begun_backends(run) == Backends("native", "native")
    for file in run.checkpoints.glob("*/manifest.json"):
        manifest = decode_manifest(file.read_bytes())
        kept = {name: fact for name, fact in manifest.facts.items() if name in ("tier", "order")}
        file.write_bytes(encode_manifest(replace(manifest, facts={**kept, **facts})))
    assert begun_backends(run) == Backends(*expected)


def test_a_run_without_checkpoints_has_its_seeds_checked(tmp_path: Path) -> None:
    run = stopped_run(tmp_path, iterations=1)
    shutil.rmtree(run.checkpoints)
    assert begun_tier(run) is None
    assert begun_backends(run) is None

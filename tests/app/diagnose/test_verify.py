from __future__ import annotations

import json
from pathlib import Path

import pytest

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.diagnose.verify import ODD_ENVS, Interruption, compare, odd_sized, verify
from longhaul.core.errors import ConfigError, EnvError
from longhaul.runs.checkpoints.inspect import list_checkpoints
from tests.app.small import CARTPOLE, finished_run, small_config

TRIAL = Interruption(iterations=6, interruptions=2)
CORE = ("policy.core_size=16", "policy.memory_length=8", "policy.core_heads=2")
EVERYTHING = (
    *CORE,
    "collect.num_steps=20",
    "collect.chunk=10",
    "policy.normalize_observations=true",
    "policy.noisy=heads",
    "learn.normalize_reward=true",
)
REPLAY = (
    "learn.replay.enabled=true",
    "learn.replay.capacity=128",
    "learn.replay.batch=32",
    "learn.replay.interval=2",
)
LOGS = {"metrics.jsonl", "episodes.jsonl", "events.jsonl"}


THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("task", "overrides"),
    [
        pytest.param(CARTPOLE, (), id="ppo"),
        pytest.param(CARTPOLE, ("collect.overlap=true",), id="ppo-overlap"),
        pytest.param(
            CARTPOLE, ("learn.algorithm=vtrace", "policy.core=gru", *CORE), id="vtrace-gru"
        ),
        pytest.param(
            CARTPOLE,
            ("learn.algorithm=vtrace", "policy.core=gru", "collect.overlap=true", *CORE),
            id="vtrace-gru-overlap",
        ),
        pytest.param(
            CARTPOLE,
            ("evaluate.every_iterations=2", "evaluate.episodes=2"),
            id="eval",
            marks=THOROUGH,
        ),
        pytest.param("probe:chase", (), id="batched-rows"),
        pytest.param(
            "probe:chase", ("collect.overlap=true",), id="batched-rows-overlap", marks=THOROUGH
        ),
        pytest.param(
            "probe:recall", ("policy.core=lstm", *EVERYTHING), id="lstm-everything", marks=THOROUGH
        ),
        pytest.param(
            "probe:recall", ("policy.core=transformer", *EVERYTHING), id="transformer-everything"
        ),
        pytest.param(CARTPOLE, REPLAY, id="ppo-replay"),
        pytest.param(
            "probe:recall",
            (
                *("policy.core=gru", "learn.algorithm=vtrace", "collect.overlap=true"),
                *(*EVERYTHING, *REPLAY, "learn.replay.batches=2"),
            ),
            id="vtrace-overlap-replay-everything",
        ),
        pytest.param("gym:Toy/Walk-v0", (), id="short-episodes", marks=THOROUGH),
        pytest.param("gym:Pendulum-v1", (), id="continuous", marks=THOROUGH),
    ],
)
def test_an_interrupted_run_ends_with_the_same_bytes(task: str, overrides: tuple[str, ...]) -> None:
    result = verify(small_config(task, *overrides), TRIAL)
    assert result.equal, result.as_text()
    assert len(result.interruptions) == 2


def test_the_logs_and_every_part_of_the_checkpoint_are_compared() -> None:
    result = verify(small_config(), Interruption(iterations=3, interruptions=1))
    files = {file.file: file.size for file in result.files}
    parts = {name.partition("/")[2] for name in files} - {""}
    assert files.keys() >= LOGS
    assert parts == {"collector.safetensors", "learner.safetensors", "state.json"}
    assert all(size > 0 for name, size in files.items() if name != "events.jsonl")


def test_a_replay_is_a_part_of_its_own_in_the_checkpoint() -> None:
    result = verify(small_config(CARTPOLE, *REPLAY), Interruption(iterations=3, interruptions=1))
    assert "replay.safetensors" in {file.file.partition("/")[2] for file in result.files}


def test_a_replay_that_is_not_saved_cannot_be_verified() -> None:
    with pytest.raises(ConfigError, match=r"learn.replay.saved = false"):
        verify(small_config(CARTPOLE, *REPLAY, "learn.replay.saved=false"), TRIAL)


def test_an_environment_that_forgets_its_generator_is_found_out() -> None:
    result = verify(small_config("gym:Toy/Forgetful-v0", "collect.num_steps=12"), TRIAL)
    assert not result.equal
    different = {
        file.file.partition("/")[2] or file.file for file in result.files if not file.equal
    }
    assert "learner.safetensors" in different
    assert "DIFFERENT" in result.as_text()
    assert "NOT the same run" in result.as_text()
    assert json.loads(result.as_json())["equal"] is False


def test_one_changed_byte_is_found(tmp_path: Path) -> None:
    one, two = finished_run(tmp_path / "one"), finished_run(tmp_path / "two")
    assert all(file.equal for file in compare(one, two))
    weights = list_checkpoints(two.checkpoints)[0] / "learner.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert [file.file for file in compare(one, two) if not file.equal] == [
        f"{weights.parent.name}/{weights.name}"
    ]


def test_a_file_that_only_one_run_has_counts_as_different(tmp_path: Path) -> None:
    one, two = finished_run(tmp_path / "one"), finished_run(tmp_path / "two")
    two.episodes.unlink()
    assert [file.file for file in compare(one, two) if not file.equal] == ["episodes.jsonl"]


def test_a_short_run_is_made_long_enough_for_its_interruptions() -> None:
    # Three iterations fill total_timesteps; the interruptions come after that.
    result = verify(small_config(CARTPOLE, "total_timesteps=96"), Interruption(iterations=8))
    last = next(file.file for file in result.files if "/" in file.file)
    assert last.startswith(f"step-{8 * 32:012d}")


def test_an_environment_without_exact_states_is_refused_with_its_tier() -> None:
    with pytest.raises(EnvError, match="tier none"):
        verify(small_config("gym:Toy/Unseeded-v0", "env.check_seeds=true"), TRIAL)


def test_a_trial_without_an_interruption_proves_nothing_and_is_refused() -> None:
    with pytest.raises(ConfigError, match="--iterations must be at least 2"):
        Interruption(iterations=1)
    with pytest.raises(ConfigError, match="--interruptions must be at least 1"):
        Interruption(interruptions=0)


def test_an_overlapped_trial_has_an_odd_number_of_environments_unless_one_is_given(
    tmp_path: Path,
) -> None:
    def count(*overrides: str, file: Path | None = None, num_envs: int | None = None) -> int:
        flags = {"num_envs": num_envs}
        sources = ConfigSources(CARTPOLE, file=file, flags=flags, overrides=overrides)
        return odd_sized(resolve(sources), sources).num_envs

    overlap = "collect.overlap=true"
    file = tmp_path / "config.toml"
    file.write_text("num_envs = 12\n")
    assert count() == 16
    assert count(overlap) == ODD_ENVS
    assert count(overlap, "num_envs=8") == 8
    assert count(overlap, num_envs=4) == 4
    assert count(overlap, file=file) == 12

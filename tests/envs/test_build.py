"""The runtime follows from what a source declares."""

from __future__ import annotations

import msgspec
import pytest

from longhaul.core.errors import ConfigError
from longhaul.envs.build import make_vector_env
from longhaul.envs.config import EnvConfig, Runtime
from longhaul.envs.serial import BatchedVectorEnv, SerialVectorEnv
from longhaul.tasks.probe.chase import chase_envs
from tests.contracts.vector_env_contract import SEEDS
from tests.envs.school import SchoolFactory


@pytest.mark.parametrize("runtime", ["auto", "serial"])
def test_single_envs_run_one_after_another(runtime: Runtime) -> None:
    vector = make_vector_env(SchoolFactory().source(), count=2, seeds=SEEDS, runtime=runtime)
    assert isinstance(vector, SerialVectorEnv)


@pytest.mark.parametrize("runtime", ["auto", "serial", "batched"])
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_batches_run_as_arrays(runtime: Runtime, threads: int) -> None:
    vector = make_vector_env(chase_envs(), count=4, seeds=SEEDS, runtime=runtime, threads=threads)
    assert isinstance(vector, BatchedVectorEnv)
    vector.close()


def test_single_envs_cannot_be_batched() -> None:
    with pytest.raises(ConfigError, match="test:school has no batched version"):
        make_vector_env(SchoolFactory().source(), count=2, seeds=SEEDS, runtime="batched")


@pytest.mark.parametrize(("count", "threads"), [(0, 1), (-3, 1), (2, -1)])
def test_impossible_numbers_are_config_errors(count: int, threads: int) -> None:
    with pytest.raises(ConfigError, match=r"env\.(count|threads) = "):
        make_vector_env(chase_envs(), count=count, seeds=SEEDS, threads=threads)


def test_the_config_is_read_from_plain_data() -> None:
    config = msgspec.convert({"threads": 4, "tier": "none"}, EnvConfig)
    assert config == EnvConfig(threads=4, tier="none")

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError, ResourceError
from longhaul.core.spaces import Discrete, EnvSpec, Part
from longhaul.core.system import processes_left
from longhaul.envs.processes.limits import check_room
from longhaul.envs.processes.mailbox import Mailbox
from longhaul.envs.processes.process import start_worker
from longhaul.envs.processes.vector import ProcessVectorEnv, share_out
from tests.contracts.vector_env_contract import SEEDS
from tests.envs.school import SchoolFactory


def test_too_few_descriptors_are_told_before_anything_starts() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(ResourceError, match=r"file descriptors.*ulimit -n"):
        check_room(hard)


def test_a_containers_process_limit_is_read(tmp_path: Path) -> None:
    assert processes_left(tmp_path) is None
    (tmp_path / "pids.max").write_text("100\n")
    (tmp_path / "pids.current").write_text("93\n")
    assert processes_left(tmp_path) == 7
    (tmp_path / "pids.max").write_text("max\n")
    assert processes_left(tmp_path) is None


def test_too_few_processes_are_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("100\n")
    (tmp_path / "pids.current").write_text("93\n")
    with pytest.raises(ResourceError, match="4 worker processes are more than the 7 the container"):
        check_room(4, tmp_path)


def test_descriptors_that_run_out_later_are_told_as_well() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(ResourceError, match="no file descriptors are left"):
            start_worker(0, 1, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


def test_shared_memory_the_system_does_not_give_is_told(tmp_path: Path) -> None:
    huge = EnvSpec("test:huge", {"obs": Part((2**20, 2**20, 2**12), "uint8")}, Discrete(2))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a Path keeps the folder open
    with pytest.raises(ResourceError, match="shared memory needs"):
        Mailbox.create(huge, count=1, workers=1)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above


@pytest.mark.parametrize(
    ("count", "workers", "sizes"), [(5, 2, [2, 3]), (2, 8, [1, 1]), (8, 1, [8]), (7, 3, [2, 2, 3])]
)
def test_envs_are_shared_out_evenly_and_in_order(
    count: int, workers: int, sizes: list[int]
) -> None:
    shares = share_out(count, workers)
    assert [len(envs) for envs in shares.values()] == sizes
    assert [env for envs in shares.values() for env in envs] == list(range(count))


def test_a_negative_number_of_workers_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"env\.processes\.workers = -1"):
        share_out(4, -1)


def test_a_factory_that_cannot_be_sent_is_a_config_error() -> None:
    spec = SchoolFactory().spec
    with pytest.raises(ConfigError, match="cannot be pickled"):
        ProcessVectorEnv(SingleEnvs(spec, lambda: SchoolFactory()()), 2, SEEDS)


def test_no_environments_at_all_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"env\.count = 0"):
        ProcessVectorEnv(SchoolFactory().source(), 0, SEEDS)

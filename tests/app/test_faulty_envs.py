"""Whole runs whose environments die, raise and lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul import api
from longhaul.app.build.config import SessionOptions
from longhaul.app.diagnose.verify import Interruption, verify
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import ConfigError, EnvError, NumericalError
from longhaul.engine.summary import LOST_STEPS
from longhaul.envs.processes.repro import reproduce
from longhaul.runs.checkpoints.inspect import list_checkpoints, read_manifest
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import Row, read_rows
from tests.app.small import QUIET, finished_run, small_config, stopped_run
from tests.faults.gymnasium_walk import GYMNASIUM_ID
from tests.faults.trouble import Plan, tell, turns
from tests.faults.walk import LONGEST

pytestmark = pytest.mark.thorough

TASK = f"gym:{GYMNASIUM_ID}"
PROCESSES = ("env.runtime=processes", "env.processes.workers=2")
LOGS = ("metrics.jsonl", "episodes.jsonl", "events.jsonl")


def told(folder: Path) -> str:
    return f'options.kwargs={{folder="{folder}"}}'


def rows(run: RunDirectory, log: str) -> list[Row]:
    return read_rows(run.path / log).rows


@pytest.mark.parametrize("overlap", ["false", "true"])
def test_killed_workers_change_no_byte_of_the_logs(tmp_path: Path, overlap: str) -> None:
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    for folder in (quiet, loud):
        folder.mkdir()
    common = (f"collect.overlap={overlap}", "num_envs=4")
    plain = finished_run(tmp_path / "a", told(quiet), *common, task=TASK)
    tell(loud, Plan("kill", steps=(9,), times=1))
    killed = finished_run(tmp_path / "b", told(loud), *common, *PROCESSES, task=TASK)
    assert turns(loud) >= 2
    for log in LOGS:
        assert (killed.path / log).read_bytes() == (plain.path / log).read_bytes(), log
    faults = [row for row in rows(killed, "sessions.jsonl") if row["event"] == "env_fault"]
    assert {fault["kind"] for fault in faults} == {"died", "replaced"}
    assert sum(fault["kind"] == "died" for fault in faults) == turns(loud)


def test_a_poisoned_seed_is_told_kept_and_changes_nothing_on_a_resume(tmp_path: Path) -> None:
    tell(tmp_path, Plan("runtime", steps=(5,)))
    result = verify(
        small_config(TASK, told(tmp_path), *PROCESSES), Interruption(iterations=3, interruptions=1)
    )
    assert result.equal, result.as_text()
    run = finished_run(tmp_path / "runs", told(tmp_path), *PROCESSES, task=TASK)
    lost = [row for row in rows(run, "events.jsonl") if row["event"] == "episode_lost"]
    assert lost
    assert lost[0]["kind"] == "raised"
    assert "the simulator lost its ball" in str(lost[0]["traceback"])
    assert lost[0]["env_id"] == GYMNASIUM_ID
    counts = [
        row["fault/lost_steps"] for row in rows(run, "metrics.jsonl") if "fault/lost_steps" in row
    ]
    assert sum(float(str(count)) for count in counts) >= len(lost)
    files = sorted(run.crash.glob("repro-*.json"))
    assert len(files) == len(lost)
    assert reproduce(files[0]).is_same


@pytest.mark.parametrize("runtime", ["serial", "processes"])
def test_what_nobody_can_use_is_dropped_counted_and_told_by_any_runtime(
    tmp_path: Path, runtime: str
) -> None:
    tell(tmp_path, Plan("nan", steps=(5,), times=1))
    kept = (f"env.runtime={runtime}", "env.processes.workers=1")
    run = finished_run(tmp_path / "runs", told(tmp_path), *kept, task=TASK)
    lost = [row for row in rows(run, "events.jsonl") if row["event"] == "episode_lost"]
    assert lost
    assert {row["kind"] for row in lost} == {"unusable"}
    assert "observation 'obs' is nan" in str(lost[0]["error"])
    faults = [row for row in rows(run, "sessions.jsonl") if row["event"] == "env_fault"]
    assert len(faults) == len(lost)
    counted = sum(float(str(row.get(LOST_STEPS, 0))) for row in rows(run, "metrics.jsonl"))
    assert counted == len(lost)


@pytest.mark.parametrize("runtime", ["serial", "processes"])
def test_a_run_that_drops_too_much_ends_as_numerically_broken(tmp_path: Path, runtime: str) -> None:
    tell(tmp_path, Plan("nan", steps=(3,)))
    kept = (f"env.runtime={runtime}", "env.processes.workers=1", "env.most_dropped=3")
    with pytest.raises(NumericalError, match="4 transitions were dropped") as caught:
        finished_run(tmp_path / "runs", told(tmp_path), *kept, task=TASK)
    assert caught.value.exit_code == 4


FIRST_COME = ("env.order=first-come", "num_envs=3", "collect.chunk=8")


@pytest.mark.parametrize("core", [pytest.param("none", marks=pytest.mark.slow), "gru"])
def test_a_run_first_come_first_served_survives_deaths_and_says_what_it_is(
    tmp_path: Path, core: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(tmp_path, Plan("kill", steps=(9,), times=1))
    config = small_config(TASK, told(tmp_path), *FIRST_COME, f"policy.core={core}")
    run = begin_run(config, tmp_path / "runs").directory
    assert run_session(run, config, SessionOptions()).exit_code == 0
    assert "not deterministic" in capsys.readouterr().err
    assert turns(tmp_path) >= 1
    kinds = {row["kind"] for row in rows(run, "sessions.jsonl") if row["event"] == "env_fault"}
    assert kinds == {"died", "replaced"}
    checkpoint = read_manifest(list_checkpoints(run.checkpoints)[0])
    assert checkpoint.facts["order"] == "first-come"


def test_a_run_first_come_first_served_goes_on_after_a_stop(tmp_path: Path) -> None:
    run = stopped_run(tmp_path, told(tmp_path), *FIRST_COME, iterations=2, task=TASK)
    resumed = api.resume(run.path, total_timesteps=200, session=QUIET)
    assert resumed is not None
    assert resumed.outcome is not None
    assert resumed.outcome.exit_code == 0
    steps = [int(str(row["env_steps"])) for row in rows(run, "metrics.jsonl")]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 200
    lengths = [int(str(row["length"])) for row in rows(run, "episodes.jsonl")]
    assert lengths
    assert max(lengths) <= LONGEST


def test_what_depends_on_timing_cannot_be_verified() -> None:
    with pytest.raises(ConfigError, match="no two runs are bit for bit the same"):
        verify(small_config(TASK, *FIRST_COME), Interruption(iterations=2, interruptions=1))


@pytest.mark.parametrize("where", ["probe:chase", "env.runtime=serial"])
def test_first_come_is_for_worker_processes_only(tmp_path: Path, where: str) -> None:
    task, override = (where, "seed=1") if ":" in where else (TASK, where)
    with pytest.raises(ConfigError, match="needs worker processes"):
        finished_run(tmp_path, "env.order=first-come", override, task=task)


@pytest.mark.parametrize("how", ["exit", pytest.param("segfault", marks=pytest.mark.slow)])
def test_an_env_that_cannot_even_be_made_ends_the_command_not_the_trainer(
    tmp_path: Path, how: str
) -> None:
    tell(tmp_path, Plan(how, "construct"))
    few = "env.processes.construct_restarts=2"
    with pytest.raises(EnvError, match="cannot be made: the environment crashed 3 times") as caught:
        finished_run(tmp_path / "runs", told(tmp_path), *PROCESSES, few, task=TASK)
    assert caught.value.exit_code == 3

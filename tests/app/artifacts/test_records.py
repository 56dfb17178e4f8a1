"""Records a task makes of its runs: by themselves, again on request, the same after a restart."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from longhaul.app.artifacts.records import record_run
from longhaul.app.diagnose.verify import Interruption, verify
from longhaul.app.evaluation.load import Run
from longhaul.app.inspect.runs import list_tools, run_tool
from longhaul.app.session.run import run_session
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import QUIET, finished_run, small_config, stopped_run

FISH = (
    "options.fish=5",
    "options.time_limit=20",
    "collect.num_steps=8",
    "total_iterations=4",
)
CLOCKED = ("generated_at", "timestamp")


def tail_flags(folder: Path) -> tuple[str, ...]:
    path = folder / "ne.json"
    path.write_text(json.dumps({"velocities": [[0.5, 1.9], [-0.8, 1.7], [0.1, 2.4]]}))
    ne, rest = f"{{iterations=1, path='{path}', type='ne'}}", "{iterations=1, type='rest'}"
    main = f"{{iterations=2, path='{path}', type='main'}}"
    stages = f"options.tail.stages=[{ne}, {rest}, {main}]"
    return (*FISH, stages, "options.tail.force_reset_steps=6")


def without_clock(text: str) -> list[object]:
    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {
                name: plain(part)
                for name, part in value.items()
                if name not in CLOCKED and not name.endswith(("_seconds", "_path", "_saved"))
            }
        return [plain(part) for part in value] if isinstance(value, list) else value

    try:
        return [plain(json.loads(text))]
    except ValueError:
        return [plain(json.loads(line)) for line in text.splitlines()]


def contents(run: RunDirectory) -> dict[str, list[object]]:
    return {
        path.name: without_clock(path.read_text())
        for path in sorted(run.evaluations.iterdir())
        if path.suffix in (".json", ".jsonl") and not path.name.startswith("step-")
    }


@pytest.mark.parametrize("every", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_leaves_its_records_and_a_restart_changes_none(tmp_path: Path, every: int) -> None:
    flags = (*tail_flags(tmp_path), f"evaluate.every_iterations={every}")
    whole = finished_run(tmp_path / "whole", *flags, task="fish")
    cut = stopped_run(tmp_path / "cut", *flags, iterations=2, task="fish")
    assert contents(cut)["eval_multi_history.jsonl"] == []
    run_session(cut, small_config("fish", *flags), QUIET)
    assert contents(cut) == contents(whole)
    trace = json.loads((whole.evaluations / "schedule_trace.json").read_text())["trace"]
    rows = read_rows(whole.metrics).rows
    assert [entry["iteration"] for entry in trace] == [row["iteration"] for row in rows]
    assert len(trace) == 4
    assert trace[-1]["tail_prewarm_injections_total"] == sum(
        row.get("starts/dealt", 0) for row in rows
    )
    made = contents(whole)
    assert bool(made["eval_multi_history.jsonl"]) == bool(every)
    assert len(record_run(Run(whole)).splitlines()) == len(made) == 8
    assert contents(whole) == made


def test_a_task_without_records_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no records"):
        record_run(Run(finished_run(tmp_path)))


def test_tools_are_listed_and_found_by_name() -> None:
    assert re.search(r"fish +mix +", list_tools())
    with pytest.raises(ConfigError, match="did you mean 'mix'"):
        run_tool("fish", "mixer", [])
    with pytest.raises(ConfigError, match="no tool 'mix'"):
        run_tool("probe", "mix", [])


@pytest.mark.slow
@pytest.mark.parametrize("overlap", ["false", "true"])
@pytest.mark.parametrize("unit", ["iterations", "resets"])
def test_runs_with_a_tail_go_on_bit_for_bit(tmp_path: Path, overlap: str, unit: str) -> None:
    flags = (
        *tail_flags(tmp_path),
        "evaluate.every_iterations=3",
        "total_iterations=20",
        f"collect.overlap={overlap}",
        f"options.tail.unit={unit}",
        "options.tail.decay=0.7",
        "options.tail.filter_window=1",
        "options.tail.filter_lost=0.1",
    )
    assert verify(small_config("fish", *flags), Interruption(iterations=6, interruptions=3)).equal


@pytest.mark.slow
def test_a_tail_a_gate_and_a_curriculum_in_mid_flight_go_on_bit_for_bit(tmp_path: Path) -> None:
    gate = {
        "phase_allowance": "[1, 2, 3]",
        "success_step_one": 500,
        "success_early_death": 0.9,
        "success_early_death_window": 1,
        "success_p10": 1,
        "success_median_window": 1,
        "failure_p10": 0,
        "failure_min_final": 0,
        "infeasible": "warn",
    }
    flags = (
        *tail_flags(tmp_path),
        "total_iterations=20",
        "evaluate.every_iterations=3",
        "options.training.curriculum=[{fish=3, iterations=4}, {fish=4, iterations=4}, "
        "{fish=5, iterations=12}]",
        "options.training.ladder.phase_targets=[0.0, 0.05, 0.1]",
        *(f"options.training.gate.{name}={value}" for name, value in gate.items()),
    )
    config = small_config("fish", *flags)
    assert verify(config, Interruption(iterations=14, interruptions=3)).equal
    events = read_rows(finished_run(tmp_path / "run", *flags, task="fish").events).rows
    movers = {event["controller"] for event in events if event.get("moves")}
    assert {"tail", "penalty-gate"} <= movers

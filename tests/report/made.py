"""Run directories written by hand, with every kind of line a report reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.core.metrics import Panel
from longhaul.runs.directory import RunDirectory, Status, begin_record, create_run, write_status

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ITERATIONS = 40
STEPS = 100

PANELS = (
    Panel("Survival", ("env/survival", "tail/ratio"), right=("rollout/ep_len_mean",),
          dashed=("tail/ratio",), limits=(0.0, 1.05), is_filmed=True),
    Panel("Glance", ("env/survival", "rollout/ep_rew_mean", "rollout/ep_len_mean"), "overview"),
    Panel("Warning", ("tail/ratio", "tail/threshold", "tail/active"), "spans",
          right=("tail/since",)),
    Panel("Deaths", ("deaths",), "histogram", records="events.jsonl", event="evaluated",
          bins=(0.0, 25.0, 50.0)),
    Panel("Headings", ("angle", "speed"), "polar", records="events.jsonl", event="evaluated",
          each="starts"),
    Panel("Places", ("x", "y"), "map", records="events.jsonl", event="evaluated", each="starts",
          bins=(10.0,)),
    Panel("Kinds", ("kind", "count"), "bars", records="events.jsonl", event="evaluated",
          each="starts"),
    Panel("Stack", ("reward/alive_share", "reward/death_share"), "area"),
    Panel("Table", ("kind", "speed", "count"), "matrix", records="events.jsonl",
          event="evaluated", each="starts"),
    Panel("Spread", ("event", "deaths"), "distribution", records="events.jsonl",
          event="evaluated"),
    Panel("Absent", ("env/nothing",), is_filmed=True),
    Panel("Absent glance", ("env/nothing",), "overview"),
    Panel("Absent stack", ("env/nothing",), "area"),
    Panel("Absent table", ("kind", "speed", "nothing"), "matrix", records="events.jsonl"),
    Panel("Absent spread", ("kind", "nothing"), "distribution", records="events.jsonl"),
)  # fmt: skip


def metrics(iteration: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "iteration": iteration,
        "env_steps": iteration * STEPS,
        "episodes": iteration * 4,
        "rollout/ep_rew_mean": 10.0 * iteration,
        "rollout/ep_len_mean": 5.0 + iteration,
        "reward/alive_share": 0.75,
        "reward/death_share": 0.25,
        "train/value_loss": 1.0 / iteration,
        "train/approx_kl": 0.01,
        "env/survival": iteration / ITERATIONS,
        "tail/ratio": 1.0 - iteration / ITERATIONS,
        "tail/threshold": 0.5,
        "tail/active": float(20 < iteration < 30),
        "tail/since": 3.0,
        "gate/stage": float(iteration > 20),
    }
    if iteration % 10 == 0:
        row |= {
            "eval/mean_reward": 8.0 * iteration,
            "eval/std_reward": 4.0,
            "eval/min_reward": 1.0,
            "eval/max_reward": 9.0 * iteration,
            "eval/episodes": 16.0,
        }
    return row


def events() -> Iterable[dict[str, Any]]:
    for iteration, why in ((10, "survival was 0.25"), (20, "survival was 0.5")):
        yield {
            "iteration": iteration,
            "env_steps": iteration * STEPS,
            "event": "schedule",
            "controller": "gate",
            "moves": [{"setting": "env.wind", "old": iteration / 100, "new": iteration / 50}],
            "why": why,
        }
        yield {
            "iteration": iteration,
            "env_steps": iteration * STEPS,
            "event": "evaluated",
            "deaths": [1, 3, 30, 31, 49],
            "starts": [
                {"angle": 10.0, "speed": 1.0, "x": 1.0, "y": 2.0, "kind": "main", "count": 3},
                {"angle": 100.0, "speed": 2.0, "x": -1.0, "y": 2.5, "kind": "ne", "count": 1},
            ],
        }
    yield {"iteration": 21, "event": "env_restarted", "env": 3, "reason": "it hung"}
    yield {"iteration": 22, "event": "hint", "text": "lower learn.learning_rate"}


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def made_run(
    root: Path,
    *,
    task: str = "gym:CartPole-v1",
    name: str = "first",
    seed: int = 3,
    scale: float = 1.0,
) -> RunDirectory:
    """Return a finished run of forty iterations; `scale` multiplies its returns."""
    record = begin_record(
        task, name, seed, now=NOON, command=["longhaul", "train", task, "--name", name]
    )
    run = create_run(root, record, f'task = "{task}"\nname = "{name}"\nseed = {seed}\n')
    rows = [metrics(number) for number in range(1, ITERATIONS + 1)]
    for row in rows:
        for key in ("rollout/ep_rew_mean", "eval/mean_reward"):
            if key in row:
                row[key] *= scale
    write_lines(run.metrics, rows)
    write_logs(run, scale)
    run.panels.write_text(
        json.dumps({"score": "eval/mean_reward", "panels": [panel_values(p) for p in PANELS]})
    )
    run.evaluations.mkdir()
    write_evaluation(run, [scale * (300.0 + number) for number in range(20)])
    write_status(run.record, Status.FINISHED, "total_timesteps reached")
    return run


def write_logs(run: RunDirectory, scale: float) -> None:
    write_lines(
        run.timings,
        (
            {
                "iteration": number,
                "time/fps": 1000.0 + number,
                "time/iteration_seconds": 0.5,
                "time/collect_seconds": 0.2,
                "time/learn_seconds": 0.3,
            }
            for number in range(1, ITERATIONS + 1)
        ),
    )
    write_lines(
        run.episodes,
        (
            {
                "iteration": number,
                "env": env,
                "number": number,
                "seed": 7,
                "length": 5 + number,
                "episode_return": scale * (10.0 * number + env),
                "reason": "terminated",
                "metrics": {},
            }
            for number in range(1, ITERATIONS + 1)
            for env in range(4)
        ),
    )
    write_lines(run.events, events())
    write_lines(
        run.sessions,
        (
            {"time": "t", "event": "started", "pid": 1},
            {"time": "t", "event": "resumed", "pid": 2, "checkpoint": "step-000000000100"},
        ),
    )


def write_evaluation(run: RunDirectory, returns: list[float], **changes: Any) -> None:
    mean = sum(returns) / len(returns)
    spread = (sum((value - mean) ** 2 for value in returns) / len(returns)) ** 0.5
    found = {
        "task": "gym:CartPole-v1",
        "checkpoint": "step-000000004000",
        "seed": 5,
        "greedy": True,
        "solved": 475.0,
        "metrics": {"eval/mean_reward": mean, "eval/std_reward": spread},
        "episodes": [
            {
                "env": number,
                "number": 0,
                "seed": 1000 + number,
                "length": 10,
                "episode_return": value,
                "reason": "terminated",
                "metrics": {},
                "facts": {},
            }
            for number, value in enumerate(returns)
        ],
        "passed_over": [],
        **changes,
    }
    name = f"step-000000004000-{len(returns)}-greedy-seed{found['seed']}.json"
    (run.evaluations / name).write_text(json.dumps(found))


def panel_values(panel: Panel) -> dict[str, Any]:
    return {
        field: getattr(panel, field)
        for field in Panel.__dataclass_fields__
        if getattr(panel, field)
    }

"""The golden runs: what they train, what is kept of them, and how it is recorded.

`python -m tests.golden.runs [NAME ...]` records them for this kind of machine. A change of a
recorded byte needs a line in the changelog. Renamed keys go into `RENAMED`, and the record stays.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.memory import machine_kind
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.engine.stop import after_iterations
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.checkpoints.manifest import decode_manifest
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows

RECORDED = Path(__file__).with_name("recorded.json")
RENAMED: dict[str, str] = {
    "learn.gamma": "learn.discount",
    "learn.ent_coef": "learn.entropy_weight",
    "learn.vf_coef": "learn.value_weight",
}
"""Present names of metrics, settings, events and parts, and those of the record."""
ADDED = frozenset(
    {
        "env/forward_share",
        "env/distance",
        "env/mean_x",
        "env/farthest_x",
        "env/idle_steps",
        "env/stuck_envs",
        "env/paid",
        "env/paid_raw",
    }
)
"""Metrics that came after the record."""
ITERATIONS = 4
COMMON = (
    "checkpoint.every_iterations=1000",
    "evaluate.final_episodes=0",
    "report.at_end=false",
    "report.film_evaluations=0",
)
TORCH = "learn.backend=torch"
STANDIN = ("num_envs=8", "learn.minibatch_size=256", "evaluate.every_iterations=0")
RUNS: dict[str, ConfigSources] = {
    "fish": ConfigSources("fish", overrides=("num_envs=8", "collect.num_steps=32", TORCH)),
    "fish-gate": ConfigSources(
        "fish", preset="gate", overrides=("num_envs=8", "evaluate.every_iterations=2", TORCH)
    ),
    "cartpole": ConfigSources("gym:CartPole-v1", overrides=(TORCH,)),
    "fish-native": ConfigSources("fish", overrides=("num_envs=8", "collect.num_steps=32")),
    "cartpole-native": ConfigSources("gym:CartPole-v1"),
    "pendulum-native": ConfigSources("gym:Pendulum-v1"),
    "recall-gru": ConfigSources("probe:recall", overrides=("policy.core=gru",)),
    "chase-vtrace": ConfigSources(
        "probe:chase",
        overrides=(
            "learn.algorithm=vtrace",
            "collect.overlap=true",
            "learn.replay.enabled=true",
            "learn.replay.capacity=4096",
        ),
    ),
    "standin": ConfigSources("mario:standin", preset="fast", overrides=(*STANDIN, TORCH)),
    "standin-native": ConfigSources("mario:standin", preset="fast", overrides=STANDIN),
    "nethack": ConfigSources("nethack", preset="smoke"),
}


def digests(name: str, root: Path) -> dict[str, str]:
    """Train one of the runs and return the digest of everything that must stay the same."""
    sources = RUNS[name]
    config = resolve(
        ConfigSources(sources.task, preset=sources.preset, overrides=(*sources.overrides, *COMMON))
    )
    run = begin_run(config, root).directory
    run_session(run, config, SessionOptions(quiet=True), also_until=after_iterations(ITERATIONS))
    return {**_logs(run), **_parts(run)}


def _logs(run: RunDirectory) -> dict[str, str]:
    return {
        log.name: _digest([_as_recorded(row) for row in read_rows(log).rows])
        for log in (run.metrics, run.events, run.episodes)
    }


def _parts(run: RunDirectory) -> dict[str, str]:
    """Return the hashes of the last checkpoint's tensors, as its manifest has them."""
    newest = list_checkpoints(run.checkpoints)[0]
    parts = decode_manifest((newest / "manifest.json").read_bytes()).parts
    return {
        RENAMED.get(name, name): part.sha256
        for name, part in sorted(parts.items())
        if name.endswith(".safetensors")
    }


def _as_recorded(value: Any) -> Any:
    """Return a row with the names the record has."""
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if key not in ADDED}
        return {RENAMED.get(key, key): _as_recorded(part) for key, part in kept.items()}
    if isinstance(value, list):
        return [_as_recorded(part) for part in value]
    return RENAMED.get(value, value) if isinstance(value, str) else value


def _digest(rows: list[Any]) -> str:
    lines = (json.dumps(row, allow_nan=False) + "\n" for row in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def read_recorded() -> dict[str, dict[str, dict[str, str]]]:
    """Return the digests by machine kind, run and file."""
    found: dict[str, dict[str, dict[str, str]]] = json.loads(RECORDED.read_text("utf-8"))
    return found


def record(root: Path, names: Iterable[str]) -> None:
    """Record runs for this kind of machine, beside others and those of other kinds."""
    recorded = read_recorded() if RECORDED.exists() else {}
    recorded.setdefault(machine_kind(), {}).update({name: digests(name, root) for name in names})
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asked = sys.argv[1:] or list(RUNS)
        record(Path(folder), asked)
    sys.stdout.write(f"{RECORDED}: recorded {len(asked)} runs for {machine_kind()}\n")

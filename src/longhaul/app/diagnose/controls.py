"""Negative controls: a resumed run that lacks one part of its checkpoint must end differently."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from longhaul.app.build.components import (
    CollectorMonitor,
    build_policy,
    build_rollout_collector,
    build_settings,
    checkpoint_config,
)
from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.text import columns
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import LonghaulError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Assignment
from longhaul.core.state import State
from longhaul.core.task import Task
from longhaul.engine.stop import after_iterations
from longhaul.envs.lockstep import Lockstep
from longhaul.runs.checkpoints import manifest as exact_json
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.state_tree import safetensors_chunks, split_state
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore, Loaded, load_newest
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.segments import list_segments, log_size

QUIET = SessionOptions(quiet=True)
MOST_ENVS = 16
"""Environments that are left out, each once; of more, so many are chosen evenly."""
NORMALIZER = ".normalizers."
"""Within the names of the policy's tensors that hold statistics of observations."""
LOGS = ("metrics.jsonl", "episodes.jsonl", "events.jsonl")

Found = Literal["different", "refused", "nothing in it", "the same"]
Differing = Callable[[RunDirectory], Sequence[str]]
"""Returns the files in which a run differs from the uninterrupted one."""


@dataclass(frozen=True, slots=True)
class Control:
    """One part that was left out, and what became of the resumed run."""

    part: str
    found: Found
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Controls:
    """All parts of a checkpoint, each left out once."""

    controls: tuple[Control, ...]
    iteration: int
    """After which the run was interrupted."""

    def parts(self, *found: Found) -> tuple[str, ...]:
        """Return the parts whose loss was found to be one of these."""
        return tuple(one.part for one in self.controls if one.found in found)

    def as_values(self) -> dict[str, str]:
        """Return what became of the run without each part, for programs."""
        return {one.part: one.found for one in self.controls}

    def as_text(self) -> str:
        """Return a table of the parts and the verdict."""
        rows = [(one.part, one.found, one.detail) for one in self.controls]
        table = columns(rows, header=("left out", "resumed run", "where"))
        noticed, idle = self.parts("different", "refused"), self.parts("the same")
        verdict = (
            f"resumed after iteration {self.iteration}, each time without one part: "
            f"{len(noticed)} of {len(noticed) + len(idle)} losses were noticed"
        )
        if idle:
            verdict += f"; nothing depended on {', '.join(idle)} within these iterations"
        return f"{table}\n\n{verdict}"


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is left when one part of a checkpoint is as in a new run."""

    part: str
    states: Mapping[str, State]
    settings: Mapping[str, Any]
    lost_log: str = ""


def without_each_part(
    config: RunConfig, task: Task, folder: Path, iterations: int, differing: Differing
) -> Controls:
    """Interrupt a run halfway, and go on without each part of its checkpoint in turn."""
    _, new = _interrupted(config, folder / "new", 0)
    cut, loaded = _interrupted(config, folder / "halfway", max(1, iterations // 2))
    whole = _digest(loaded.states), loaded.manifest.settings
    controls = []
    for reduced in reductions(config, task, new, loaded):
        if reduced.lost_log:
            is_empty = not log_size(cut.path / reduced.lost_log)
        else:
            is_empty = (_digest(reduced.states), reduced.settings) == whole
        if is_empty:
            controls.append(Control(reduced.part, "nothing in it"))
            continue
        run = RunDirectory(folder / "reduced" / cut.path.name)
        shutil.copytree(cut.path, run.path)
        try:
            _save_instead(run, config, task, loaded, reduced)
            run_session(run, config, QUIET, also_until=after_iterations(iterations))
            files = differing(run)
            found: Found = "different" if files else "the same"
            controls.append(
                Control(reduced.part, found, ", ".join(file.rpartition("/")[2] for file in files))
            )
        except LonghaulError as error:
            controls.append(Control(reduced.part, "refused", str(error).splitlines()[0]))
        shutil.rmtree(run.path.parent)
    return Controls(tuple(controls), loaded.manifest.progress.iteration)


def _interrupted(config: RunConfig, root: Path, iterations: int) -> tuple[RunDirectory, Loaded]:
    run = begin_run(config, root).directory
    run_session(run, config, QUIET, also_until=after_iterations(iterations))
    loaded = load_newest(run.checkpoints)
    assert loaded is not None
    return run, loaded


def _save_instead(
    run: RunDirectory, config: RunConfig, task: Task, loaded: Loaded, reduced: Reduced
) -> None:
    """Put the reduced checkpoint in the place of the run's checkpoint, or remove a log."""
    if reduced.lost_log:
        log = run.path / reduced.lost_log
        for path in (log, *(segment.path for segment in list_segments(log))):
            path.unlink()
        return
    manifest = loaded.manifest
    shutil.rmtree(run.checkpoints)
    settings = build_settings(config, task).with_(
        Assignment(name, value) for name, value in reduced.settings.items()
    )
    stamp = Stamp(manifest.identity, manifest.versions, manifest.facts)
    score = None if manifest.score is None else manifest.score.value
    store = CheckpointStore(run.checkpoints, checkpoint_config(config, task), stamp, Clocks())
    store.save(CheckpointContent(manifest.progress, settings, reduced.states, manifest.logs, score))


def reductions(config: RunConfig, task: Task, new: Loaded, loaded: Loaded) -> Iterator[Reduced]:
    """Yield the checkpoint without each of its parts."""
    states, settings = loaded.states, loaded.manifest.settings
    for name, state in states.items():
        begun = new.states.get(name, {})
        match name:
            case "collector":
                pieces = _collector_pieces(config, task, new, state)
            case "learner":
                pieces = _learner_pieces(begun, state)
            case "schedule":
                pieces = _controllers(begun, state)
            case "replay":
                pieces = _replay_pieces(begun, state)
            case _:
                pieces = iter([("", begun)])
        for piece, reduced in pieces:
            title = f"{name}: {piece}" if piece else name
            yield Reduced(title, {**states, name: reduced}, settings)
    yield Reduced("settings", states, new.manifest.settings)
    for log in LOGS:
        yield Reduced(log, states, settings, lost_log=log)


Pieces = Iterator[tuple[str, State]]
"""What is left out of a part, and the part's state without it."""


def _collector_pieces(config: RunConfig, task: Task, new: Loaded, state: State) -> Pieces:
    """Yield the collector without memory, each generator, each environment and each other piece."""
    if not (has_envs := "begun" in state.get("inner", state)):
        yield "", new.states["collector"]
        return
    if "inner" in state:  # overlapped: what it collects is made with these
        yield "weights that act", {**state, "weights": new.states["learner"]["policy"]}
        yield "settings that act", {**state, "settings": new.manifest.settings}
    assert has_envs
    inner = state.get("inner", state)
    for piece, reduced in _rollout_pieces(config, task, inner):
        yield piece, {**state, "inner": reduced} if "inner" in state else reduced


def _rollout_pieces(config: RunConfig, task: Task, state: State) -> Pieces:
    policy = build_policy(config, task, torch.device("cpu"))
    seeds = DerivedSeeds(Seeds(config.seed))
    collector = build_rollout_collector(config, task, policy, seeds, CollectorMonitor())
    try:
        begun = collector.state_dict()
        yield "generator of actions", {**state, "actions": begun["actions"]}
        yield "generator of noise", {**state, "noise": begun["noise"]}
        blank = {name: torch.zeros_like(part) for name, part in state["memory"].items()}
        yield "memory of the policy", {**state, "memory": blank}
        env = collector.env
        if not (state["begun"] and isinstance(env, Lockstep)):
            return
        for number in _spread(env.count):
            env.load_state_dict(state["env"])
            env.begin_again(number)
            yield f"environment {number}", {**state, "env": env.state_dict()}
    finally:
        collector.close()


def _learner_pieces(begun: State, state: State) -> Pieces:
    """Yield the learner without weights, normalizer, optimizer, generator and each other piece."""
    for name, kept in state.items():
        if name != "policy":
            yield name, {**state, name: begun.get(name, kept)}
            continue
        for piece, is_left_out in (("weights", False), ("normalizer", True)):
            fresh = {n: part for n, part in begun[name].items() if (NORMALIZER in n) == is_left_out}
            yield piece, {**state, name: {**kept, **fresh}}


def _controllers(begun: State, state: State) -> Pieces:
    for number, controller in enumerate(state["controllers"]):
        kept = list(state["controllers"])
        kept[number] = begun["controllers"][number]
        yield controller["name"], {**state, "controllers": kept}


def _replay_pieces(begun: State, state: State) -> Pieces:
    """Yield the replay without generator, counts, priorities, and all that it remembers."""
    for name in ("generator", "counts"):
        yield name, {**state, name: begun[name]}
    if "ring" in state:
        even = {**state, "priorities": (state["priorities"] > 0).astype(state["priorities"].dtype)}
        yield "priorities", even
        memory = {"length", "priorities", "ring"}
        yield "sequences", {name: kept for name, kept in state.items() if name not in memory}


def _spread(count: int) -> list[int]:
    """Return all numbers below `count`, or as many as are tried, evenly spread."""
    if count <= MOST_ENVS:
        return list(range(count))
    return [number * (count - 1) // (MOST_ENVS - 1) for number in range(MOST_ENVS)]


def _digest(states: Mapping[str, State]) -> str:
    """Return the hash of what a checkpoint of these states would hold."""
    running = hashlib.sha256()
    for name in sorted(states):
        split = split_state(states[name], name)
        running.update(exact_json.dumps({name: split.tree}))
        for chunk in safetensors_chunks(split.arrays):
            running.update(chunk)
    return running.hexdigest()

"""Facts about runs, checkpoints and tasks."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import find_kind, task_names, to_values
from longhaul.app.build.text import columns
from longhaul.app.evaluation.zoo import zoo_cards
from longhaul.core.errors import CheckpointError, ConfigError, suggestion
from longhaul.report.run_data import RunData, gather
from longhaul.runs.checkpoints.inspect import MANIFEST_FILE, list_checkpoints, verify
from longhaul.runs.directory import RunDirectory
from longhaul.runs.reader import list_runs as read_runs
from longhaul.runs.reader import read_metrics, read_run, read_sessions
from longhaul.runs.score import Source
from longhaul.runs.toml import write_toml

if TYPE_CHECKING:
    from torch import Tensor


SHOWN = (
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "eval/mean_reward",
    "train/approx_kl",
    "train/explained_variance",
    "time/session_fps",
)


def inspect_path(path: Path, *, as_json: bool) -> str:
    """Return the facts about a run directory or a checkpoint."""
    if (path / MANIFEST_FILE).exists():
        facts = checkpoint_facts(path)
    elif (path / "run.json").exists():
        facts = run_facts(RunDirectory(path))
    elif not path.exists():
        raise ConfigError(f"{path} does not exist")
    else:
        raise ConfigError(f"{path} is neither a run directory nor a checkpoint")
    return json.dumps(facts) if as_json else as_text(facts)


def checkpoint_facts(path: Path) -> dict[str, Any]:
    """Return the contents of a checkpoint after verifying every byte."""
    try:
        manifest = verify(path)
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be used: {error}") from error
    # Imported late: torch takes seconds to import, and the facts of a run do not need it.
    from longhaul.app.evaluation.load import load_named

    return {
        "checkpoint": path.name,
        "whole": True,
        "created": manifest.created,
        **asdict(manifest.progress),
        "task": manifest.identity.get("task", ""),
        "score": None if manifest.score is None else asdict(manifest.score),
        "facts": manifest.facts,
        "versions": manifest.versions,
        "settings": manifest.settings,
        "parts": {name: digest.length for name, digest in sorted(manifest.parts.items())},
        "hashes": {name: digest.sha256 for name, digest in sorted(manifest.parts.items())},
        "parameters": parameter_facts(load_named(path).states.get("learner", {}).get("policy", {})),
    }


def parameter_facts(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the number of parameters, and statistics of each tensor."""
    tensors = {}
    for name, tensor in weights.items():
        numbers = tensor.detach().double()
        tensors[name] = {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "mean": float(numbers.mean()) if numbers.numel() else 0.0,
            "std": float(numbers.std(correction=0)) if numbers.numel() else 0.0,
            "largest": float(numbers.abs().max()) if numbers.numel() else 0.0,
            "not_finite": int((~numbers.isfinite()).sum()),
        }
    return {
        "count": sum(tensor.numel() for tensor in weights.values()),
        "tensors": {name: _spread_words(one) for name, one in tensors.items()},
    }


def _spread_words(facts: Mapping[str, Any]) -> str:
    """Return the statistics of one tensor in a line."""
    odd = f", {facts['not_finite']} NOT FINITE" if facts["not_finite"] else ""
    return (
        f"{facts['dtype']} {facts['shape']} mean {facts['mean']:.3g} std {facts['std']:.3g} "
        f"largest {facts['largest']:.3g}{odd}"
    )


def run_facts(directory: RunDirectory) -> dict[str, Any]:
    """Return status, progress and checkpoints of a run."""
    run = read_run(directory)
    rows = read_metrics(directory).rows
    last = rows[-1] if rows else {}
    sessions = read_sessions(directory).rows
    return {
        "run": str(directory.path),
        "task": run.record.task,
        "name": run.record.name,
        "seed": run.record.seed,
        "status": run.status,
        "reason": run.record.reason,
        "created": run.record.created,
        "continued_from": run.record.continued_from,
        "iteration": last.get("iteration", 0),
        "env_steps": last.get("env_steps", 0),
        "episodes": last.get("episodes", 0),
        "resumed": sum(row.get("event") == "resumed" for row in sessions),
        "metrics": {name: last[name] for name in SHOWN if name in last},
        "checkpoints": {
            path.name: _soundness(path) for path in list_checkpoints(directory.checkpoints)
        },
        "versions": run.record.versions,
    }


def _soundness(path: Path) -> str:
    """Return `whole` if every byte of a checkpoint is verified, else its damage."""
    try:
        verify(path)
    except CheckpointError as error:
        return f"damaged: {error}"
    return "whole"


def as_text(facts: dict[str, Any], indent: str = "") -> str:
    """Return nested facts as indented lines."""
    plain = [(f"{indent}{key}", _said(v)) for key, v in facts.items() if not isinstance(v, dict)]
    lines = [columns(plain)] if plain else []
    for key, value in facts.items():
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key}", as_text(value, indent + "  ")]
    return "\n".join(lines)


def _said(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


SHORT = {Source.FINAL: "final", Source.EVALUATION: "evaluation", Source.TRAINING: "training"}


@dataclass(frozen=True, slots=True)
class RunLine:
    """One line in the list of runs."""

    run: str
    task: str
    name: str
    seed: int
    status: str
    steps: int
    score: float | None
    """The last evaluation, else the training return, as `source` indicates."""
    source: Source | None
    measured_by: str
    interval: tuple[float, float] | None
    """The 95 % confidence interval of the score, if known."""
    target: float | None
    solved: bool | None
    best_evaluation: float | None
    """The best evaluation during training."""
    created: str

    def cells(self) -> tuple[str, ...]:
        """Return the line as it is printed."""
        score = "-"
        if self.score is not None and self.source is not None:
            score = f"{self.score:.4g} ({SHORT[self.source]})"
        return (
            self.task,
            self.name,
            str(self.seed),
            self.status,
            f"{self.steps:,}",
            score,
            "-" if self.solved is None else "yes" if self.solved else "no",
            "-" if self.best_evaluation is None else f"{self.best_evaluation:.4g}",
            self.created[:16].replace("T", " "),
            self.run,
        )


HEADER = (
    "task", "name", "seed", "status", "steps", "score", "solved", "best evaluation", "created",
    "run",
)  # fmt: skip


def list_runs(root: Path, *, task: str, as_json: bool) -> str:
    """Return the runs below `root`, oldest first."""
    states = [state for state in read_runs(root) if not task or state.record.task == task]
    lines = [describe(gather(state.directory.path)) for state in states]
    if as_json:
        return json.dumps([asdict(line) for line in lines])
    if not lines:
        return f"no runs in {root}"
    return columns([line.cells() for line in lines], header=HEADER)


def describe(run: RunData) -> RunLine:
    """Return the line of one run."""
    record, reached, best = run.state.record, run.reached, run.best
    interval = None
    if reached is not None and reached.low is not None and reached.high is not None:
        interval = (reached.low, reached.high)
    return RunLine(
        run=str(run.directory.path),
        task=record.task,
        name=record.name,
        seed=record.seed,
        status=run.state.status,
        steps=int(run.last.get("env_steps", 0)),
        score=None if reached is None else reached.value,
        source=None if reached is None else reached.source,
        measured_by=run.score if reached is None else reached.metric,
        interval=interval,
        target=run.measure.target,
        solved=None if reached is None else reached.is_solved,
        best_evaluation=None if best is None else best.value,
        created=record.created,
    )


def list_tasks(*, as_json: bool) -> str:
    """Return all installed tasks with their presets."""
    kinds = [find_kind(name) for name in task_names()]
    if as_json:
        return json.dumps(
            [
                {
                    "name": kind.name,
                    "summary": kind.summary,
                    "examples": kind.examples,
                    "presets": kind.preset_names(),
                }
                for kind in kinds
            ]
        )
    rows = [
        (kind.name, kind.summary, ", ".join(kind.examples), ", ".join(kind.preset_names()))
        for kind in kinds
    ]
    return columns(rows, header=("task", "what it is", "for example", "presets"))


def show_config(config: RunConfig, *, as_json: bool) -> str:
    """Return a configuration as TOML that `--config` accepts, or as JSON."""
    values = to_values(config)
    return json.dumps(values) if as_json else write_toml(values).rstrip("\n")


def list_tools() -> str:
    """Return all tools of all tasks with what they do."""
    kinds = [find_kind(name) for name in task_names()]
    rows = [(kind.name, tool.name, tool.summary) for kind in kinds for tool in kind.tools]
    return columns(rows, header=("task", "tool", "what it does"))


def run_tool(task: str, name: str, arguments: Sequence[str]) -> str:
    """Run a tool with the given arguments and return its output."""
    kind = find_kind(task)
    tools = {tool.name: tool for tool in kind.tools}
    if name not in tools:
        there = ", ".join(tools) or "none"
        raise ConfigError(
            f"task {kind.name!r} has no tool {name!r}{suggestion(name, tools)} (tools: {there})"
        )
    return tools[name].run(arguments)


def serve_runs(
    root: Path,
    notify: Callable[[str], None],
    *,
    host: str,
    port: int,
    token: str,
    allowed_hosts: Sequence[str],
) -> None:
    """Serve the page until a signal; its address is passed to `notify`."""
    missing = [name for name in ("starlette", "uvicorn") if not importlib.util.find_spec(name)]
    if missing:
        raise ConfigError(
            f"the live page needs {' and '.join(missing)}; install the extra: "
            "pip install 'longhaul-rl[web]'"
        )
    from longhaul.web.server import Address, Service, serve

    def show_address(address: Address) -> None:
        notify(f"the page of {root}: {address.as_text()}")
        notify("stop it with Ctrl-C; the runs are not affected")

    zoo = [card.as_values() for card in zoo_cards()]
    serve(Service(root, host, port, token, tuple(allowed_hosts), zoo), show_address)

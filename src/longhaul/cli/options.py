"""Arguments that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from longhaul.core.errors import ConfigError


def demand_run(path: Path) -> Path:
    """Return the path of a run; raise early, before torch is imported, if it is none."""
    from longhaul.runs.directory import RunDirectory

    RunDirectory(path).read_record()
    return path


def whole_number(flag: str) -> Callable[[str | int], int]:
    """Return a parser of whole numbers for a flag, which also takes 1e6 and 1_000_000."""

    def read(text: str | int) -> int:
        try:
            return int(text)
        except ValueError:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
        if not number.is_integer():
            raise ConfigError(f"{flag} takes a whole number such as 100000 or 1e6, not {text!r}")
        return int(number)

    return read


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """Return the seconds of `90s`, `15m`, `2h` or `1h30m`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ConfigError(f"invalid duration {text!r}; use 90s, 15m, 2h or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Task = Annotated[
    str, typer.Argument(help="Task to train on, e.g. gym:CartPole-v1; see `longhaul tasks`.")
]
Run = Annotated[Path, typer.Argument(help="Run directory.", callback=demand_run)]
Checkpoint = Annotated[
    str, typer.Option(help="latest, best, or the number of steps of a checkpoint.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs to stdout.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one config key; may be repeated."),
]
Preset = Annotated[str, typer.Option(help="Preset to use instead of the task's default.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file with config values.")]
RunsRoot = Annotated[Path, typer.Option(help="Folder that holds the run directories.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the run.")]
NumEnvs = Annotated[
    int | None,
    typer.Option(parser=whole_number("--num-envs"), help="Environments stepped in parallel."),
]
TotalTimesteps = Annotated[
    int | None,
    typer.Option(
        parser=whole_number("--total-timesteps"),
        help="Steps to train for, summed over all environments.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while training.")]
RequireGpu = Annotated[
    bool, typer.Option("--require-gpu", help="Fail instead of falling back to the CPU.")
]
Report = Annotated[
    bool,
    typer.Option(
        "--report/--no-report", help="Write films, plots and a report when the run finishes."
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Also log curves to tensorboard, wandb or mlflow; may be repeated."),
]
ContinueFrom = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="Start a new run, with another --name, from all the state of this run or of one "
        "of its checkpoints: weights, optimizer, schedules, counters, replay, generators and "
        "logs. Its config is taken instead of a preset; --set may change what a schedule may.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="auto|local|HOST:PORT",
        help="Collect on a Ray cluster. auto: join this machine's cluster or start one; "
        "local: start one here; HOST:PORT: connect to that head.",
    ),
]
Jobs = Annotated[int, typer.Option(help="Runs trained in parallel.")]
JobsCluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="auto|local|HOST:PORT",
        help="Train the runs on the nodes of a Ray cluster, which must share --runs-root.",
    ),
]
CpusPerJob = Annotated[float, typer.Option(help="CPUs the cluster reserves for each run.")]
CaptureVideo = Annotated[
    bool, typer.Option("--capture-video", help="Film the worst episode of every evaluation.")
]
Runtimes = Annotated[
    str,
    typer.Option(
        help="serial, processes, batched, or both (every runtime the environment supports)."
    ),
]
ResumeChoice = Annotated[
    str,
    typer.Option(
        "--resume",
        help="What to do if this run exists. same: continue the unfinished run with this name "
        "and seed (its config must match). auto: continue your newest run with this name and "
        "config, else start one. never: always start a new run.",
    ),
]
OnMemory = Annotated[
    str,
    typer.Option(
        metavar="stop|shrink",
        help="What to do when memory runs out. stop: end with exit code 6. shrink: begin again "
        "with half the rollout, then half the environments, at most four times.",
    ),
]

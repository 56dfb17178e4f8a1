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
    """Return the path of a run; any other is refused before torch is imported."""
    from longhaul.runs.directory import RunDirectory

    RunDirectory(path).read_record()
    return path


def whole_number(flag: str) -> Callable[[str | int], int]:
    """Return how the value of a flag is read: as a whole number, 1e6 and 1_000_000 included."""

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
        raise ConfigError(f"{text!r} is no time; write 90s, 15m, 2h or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Task = Annotated[
    str, typer.Argument(help="What to train on, e.g. gym:CartPole-v1; see `longhaul tasks`.")
]
Run = Annotated[Path, typer.Argument(help="A run directory.", callback=demand_run)]
Checkpoint = Annotated[
    str, typer.Option(help="latest, best, or the number of steps of a checkpoint.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for programs to stdout.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one config key; may be repeated."),
]
Preset = Annotated[str, typer.Option(help="A named preset of the task instead of its own.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with config values.")
]
RunsRoot = Annotated[Path, typer.Option(help="Where run directories are made.")]
Seed = Annotated[int | None, typer.Option(help="The run's seed.")]
NumEnvs = Annotated[
    int | None,
    typer.Option(parser=whole_number("--num-envs"), help="Environments stepped side by side."),
]
TotalTimesteps = Annotated[
    int | None,
    typer.Option(
        parser=whole_number("--total-timesteps"), help="Steps to train for, over all envs."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while training.")]
RequireGpu = Annotated[
    bool, typer.Option("--require-gpu", help="Fail instead of falling back to the CPU.")
]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Leave films, plots and a report behind.")
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Show curves in tensorboard, wandb or mlflow as well; may be repeated."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="auto|local|HOST:PORT",
        help="Collect on a Ray cluster: the one this machine belongs to or else one begun here, "
        "always one begun here, or the one with this head.",
    ),
]
Jobs = Annotated[int, typer.Option(help="Runs that are trained side by side.")]
JobsCluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="auto|local|HOST:PORT",
        help="Train the runs on the nodes of a Ray cluster, which must share --runs-root.",
    ),
]
CpusPerJob = Annotated[float, typer.Option(help="Processors the cluster sets aside for each run.")]
CaptureVideo = Annotated[
    bool, typer.Option("--capture-video", help="Film the worst episode of every evaluation.")
]
Runtimes = Annotated[
    str, typer.Option(help="How to run them: serial, processes, batched, or both it can have.")
]

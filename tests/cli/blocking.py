"""Environments that stop in mid-step until their process is ended, and a report that does."""

from __future__ import annotations

import contextlib
import itertools
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from tests.app.toys import Result, Walk


class Blocking(Walk):
    """Stays in its 20th step, and makes a file when it gets there and one per signal it hears."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.taken = 0

    def step(self, action: Any) -> Result:
        self.taken += 1
        if self.taken == 20:
            for heard in itertools.count():
                (self.folder / f"heard-{heard}").touch()
                signal.pause()
        return super().step(action)


class Staged(Walk):
    """Waits for ever in one stage of its run, unless there is a file `go` in its folder."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - as the base class has it
    render_mode = "rgb_array"

    def __init__(self, folder: str, stage: str, render_mode: str = "rgb_array") -> None:
        super().__init__()
        self.folder = Path(folder)
        self.stage = stage
        # The task is looked at before there is a run.
        self.wait_if("set-up", "run.json")

    def step(self, action: Any) -> Result:
        self.wait_if("final evaluation", "checkpoints/step-000000000096")
        self.wait_if("films", "evaluations/final.json")
        with contextlib.suppress(BaseException):
            self.wait_if("careless evaluation", "checkpoints/step-000000000096")
        if (self.folder / "reached").exists() and self.stage == "careless evaluation":
            (self.folder / "heard").touch()
            signal.pause()
        return super().step(action)

    def wait_if(self, stage: str, file: str) -> None:
        """Wait if the stage is the chosen one, which is known by a file of the run."""
        if stage == self.stage and [*self.folder.glob(f"runs/*/*/{file}")]:
            wait_in(self.folder)

    def render(self) -> Any:
        return np.zeros((64, 64, 3), np.uint8)


def wait_in(folder: Path) -> None:
    """Say that the stage is reached, and stay there until the process is ended."""
    (folder / "reached").touch()
    while not (folder / "go").exists():
        signal.pause()


gym.register("Blocking-v0", "tests.cli.blocking:Blocking")
gym.register("Staged-v0", "tests.cli.blocking:Staged")


def main() -> None:
    """Run the command line with a report that waits in the folder of the environment."""
    import sys

    from longhaul.app.artifacts import report as finish
    from longhaul.app.artifacts.report import report_run
    from longhaul.cli.main import main as longhaul

    (option,) = [word for word in sys.argv if word.startswith("options.kwargs.folder=")]
    folder = Path(option.partition("=")[2].strip("'"))

    def waiting(path: Path) -> Any:
        wait_in(folder)
        return report_run(path)

    vars(finish)["report_run"] = waiting
    longhaul()


if __name__ == "__main__":
    main()

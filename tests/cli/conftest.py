"""The command line, called in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from longhaul.cli.main import main
from tests.app.toys import register_toys


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def problem(self) -> str:
        """The one line of a refusal."""
        assert self.out == ""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("longhaul: ")
        return lines[0]


Longhaul = Callable[..., Outcome]


@pytest.fixture
def longhaul(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Longhaul:
    """Return a function that runs one command and tells how it ended."""

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["longhaul", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            main()
        code = ending.value.code
        captured = capsys.readouterr()
        return Outcome(code if isinstance(code, int) else int(code or 0), *captured)

    return run


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    yield
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(mode)


@pytest.fixture(scope="session", autouse=True)
def _toys() -> None:
    register_toys()


def everything_in(folder: Path) -> dict[str, bytes]:
    """Return every path below `folder`; folders have no content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }

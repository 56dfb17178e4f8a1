"""Commands in processes of their own: asked to stop, ended by force, gone with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from longhaul.app.experiments.jobs import Child
from longhaul.core.system import is_linux

WAITS = "import signal; print('here', flush=True); signal.pause()"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('here', flush=True); signal.pause()"
)
PARENT = """
import sys, signal
from pathlib import Path
from longhaul.app.experiments.jobs import Child
child = Child([sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]))
print(child.pid, flush=True)
signal.pause()
"""


def started(program: str, log: Path) -> Child:
    child = Child([sys.executable, "-c", program], log)
    while log.read_text() != "here\n":
        assert child.wait(0.01) is None
    return child


def test_a_child_that_is_asked_stops_and_its_words_are_kept(tmp_path: Path) -> None:
    child = started(WAITS, tmp_path / "log")
    child.ask_to_stop()
    assert child.end() == -signal.SIGTERM
    assert (tmp_path / "log").read_text() == "here\n"


def test_a_child_that_does_not_listen_is_ended_by_force(tmp_path: Path) -> None:
    assert started(DEAF, tmp_path / "log").end(seconds=0.1) == -signal.SIGKILL


def test_ctrl_c_in_the_terminal_does_not_reach_a_child(tmp_path: Path) -> None:
    child = started(WAITS, tmp_path / "log")
    assert os.getpgid(child.pid) != os.getpgid(0)
    child.end()


@pytest.mark.skipif(not is_linux(), reason="here only longhaul itself looks after its parent")
def test_a_child_is_asked_to_stop_when_its_parent_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, WAITS, str(log)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        while log.read_text() != "here\n":
            assert child.is_running()
        parent.kill()
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

"""A worker that is still booting can be asked for its stack without harm."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from longhaul.envs.processes.mailbox import Mailbox
from longhaul.envs.processes.messages import ChannelClosedError
from longhaul.envs.processes.process import start_worker
from tests.faults.walk import WalkFactory


def test_a_booting_worker_survives_a_request_for_its_stack_and_answers_it_later() -> None:
    mailbox = Mailbox.create(WalkFactory().spec, count=1, workers=1)
    worker = start_worker(0, 1, mailbox.descriptor)
    os.kill(worker.pid, signal.SIGUSR1)  # long before the interpreter has come to its handler
    try:
        assert _first_words(worker.channel.receive)
        assert worker.popen.poll() is None
        assert "process.py" in worker.stack()
    finally:
        worker.kill()
        worker.crash_note()
        os.close(mailbox.descriptor)


def _first_words(receive: object) -> bool:
    """Wait for the worker's first mark; it comes once its handler stands."""
    assert callable(receive)
    try:
        while (received := receive()) is None:
            pass
    except ChannelClosedError:
        return False
    return bool(received["stage"] == "import_start")


def test_what_an_env_starts_can_be_signalled_as_ever() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    mailbox = Mailbox.create(WalkFactory().spec, count=1, workers=1)
    worker = start_worker(0, 1, mailbox.descriptor)
    try:
        assert _first_words(worker.channel.receive)
        lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
        masked = next(line for line in lines if line.startswith("SigBlk"))
        assert int(masked.split()[1], 16) == 0
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    finally:
        worker.kill()
        worker.crash_note()
        os.close(mailbox.descriptor)

"""Run directories and a server, made for tests of the page."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.core.system import boot_id
from longhaul.runs.directory import RunDirectory, Status, begin_record, create_run, write_status
from longhaul.web.files import open_runs_folder
from longhaul.web.guard import AccessRules
from longhaul.web.patience import USUAL, Patience
from longhaul.web.run_index import RunIndex
from longhaul.web.server import make_server

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def metric_row(iteration: int, *, scale: float = 1.0) -> dict[str, Any]:
    row: dict[str, Any] = {
        "iteration": iteration,
        "env_steps": iteration * 100,
        "episodes": iteration * 4,
        "rollout/ep_rew_mean": scale * iteration,
        "train/loss": 1.0 / iteration,
    }
    if iteration % 5 == 0:
        row["eval/mean_reward"] = scale * iteration * 2
    return row


def decision(iteration: int, old: float, new: float) -> dict[str, Any]:
    return {
        "iteration": iteration,
        "env_steps": iteration * 100,
        "event": "schedule",
        "controller": "gate",
        "moves": [{"setting": "env.wind", "old": old, "new": new}],
        "why": f"survival was {new}",
    }


def made_run(
    root: Path,
    *,
    task: str = "gym:CartPole-v1",
    name: str = "first",
    seed: int = 3,
    iterations: int = 20,
    scale: float = 1.0,
    config: str = "",
) -> RunDirectory:
    """Return a finished run with every log."""
    record = begin_record(task, name, seed, now=NOON, command=["longhaul", "train", task])
    plain = f'task = "{task}"\nname = "{name}"\nseed = {seed}\ntotal_timesteps = 4000\n'
    run = create_run(root, record, config or plain)
    numbers = range(1, iterations + 1)
    run.metrics.write_bytes(lines(metric_row(number, scale=scale) for number in numbers))
    run.timings.write_bytes(
        lines(
            {"iteration": number, "time/fps": 500.0, "time/iteration_seconds": 2.0}
            for number in numbers
        )
    )
    run.events.write_bytes(
        lines(
            [
                decision(5, 0.0, 0.25),
                decision(10, 0.25, 0.5),
                {"iteration": 11, "env_steps": 1100, "event": "hint", "text": "lower the rate"},
            ]
        )
    )
    run.sessions.write_bytes(
        lines(
            [
                {"time": "2026-05-01T12:00:00+00:00", "event": "started", "pid": 1, "host": "here"},
                {
                    "time": "2026-05-01T12:01:00+00:00",
                    "event": "env_fault",
                    "kind": "died",
                    "worker": 2,
                    "error": "killed by signal 9",
                },
            ]
        )
    )
    write_status(run.record, Status.FINISHED, "total_timesteps reached")
    return run


def hold(
    run: RunDirectory, *, pid: int | None = None, wall: float = 0.0, stage: float = 1.0
) -> None:
    """Make a run look as if a trainer, this process by default, were at work."""
    holder = {
        "pid": os.getpid() if pid is None else pid,
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "since": datetime.now(UTC).isoformat(),
    }
    run.lock.write_text(json.dumps(holder))
    beat = {
        "stage": "learn",
        "stage_seconds": stage,
        "progress": {"iteration": 20, "env_steps": 2000, "episodes": 80},
        "rates": {"time/fps": 512.0},
        "pid": holder["pid"],
        "host": holder["host"],
        "wall": wall,
        "monotonic": 1.0,
        "details": {},
    }
    run.heartbeat.write_text(json.dumps(beat))
    write_status(run.record, Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Site:
    """A server that answers, and a way to ask it for anything, however wrong."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        host: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if host != "":
                connection.putheader("Host", f"127.0.0.1:{self.port}" if host is None else host)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            connection.close()


@contextmanager
def served(
    root: Path,
    rules: AccessRules | None = None,
    port: int = 0,
    zoo: Sequence[Mapping[str, Any]] = (),
    patience: Patience = USUAL,
) -> Iterator[Site]:
    """Serve a folder of runs from a thread for as long as the block lasts."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = make_server(
        RunIndex(open_runs_folder(root)), rules or AccessRules(), zoo, patience=patience
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        # Connections wait in the listener's queue until the server takes them.
        listener.listen()
        yield Site(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()

"""Clients that ask a byte at a time or never read: others are served, and they lose their place."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from longhaul.web.patience import Patience
from tests.web.made import Site, made_run, served

REQUEST = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
FILM_BYTES = 64 << 20
"""More than every buffer between the server and its client holds."""
SHORT = Patience(request_seconds=1.0, read_seconds=1.0, most_connections=50)
LIMIT_SECONDS = 20.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    run = made_run(tmp_path)
    run.media.mkdir()
    with (run.media / "long.mp4").open("wb") as film:
        film.truncate(FILM_BYTES)
    with served(tmp_path, patience=SHORT) as found:
        yield found


def film_request(root: Path) -> bytes:
    (film,) = root.glob("*/*/media/long.mp4")
    task, run = film.parts[-4], film.parts[-3]
    return f"GET /files/media/{task}/{run}/long.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def connected(site: Site) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=LIMIT_SECONDS)


def is_cut_off(client: socket.socket, *, dripping: bytes = b"") -> bool:
    """Whether the server ends the connection, while the client sends a byte now and then."""
    until = time.monotonic() + LIMIT_SECONDS
    client.settimeout(0.1)
    drops = iter(dripping)
    while time.monotonic() < until:
        try:
            if (drop := next(drops, None)) is not None:
                client.sendall(bytes([drop]))
            if client.recv(1) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_others_are_served_beside_clients_that_ask_a_byte_at_a_time(site: Site) -> None:
    with ExitStack() as clients:
        slow = [clients.enter_context(connected(site)) for _ in range(40)]
        for client in slow:
            client.sendall(REQUEST[:10])
        assert site.ask("/api/runs").status == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(REQUEST[:10], id="a part"),
        pytest.param(REQUEST, id="a whole request, then a part"),
    ],
)
def test_a_request_that_takes_too_long_ends_its_connection(site: Site, sent: bytes) -> None:
    with connected(site) as client:
        client.sendall(sent)
        if sent == REQUEST:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert is_cut_off(client, dripping=b"GET /" + b"x" * 1000)


def test_a_body_that_never_ends_ends_its_connection(site: Site) -> None:
    with connected(site) as client:
        client.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nContent-Length: 100000\r\n\r\n"))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert is_cut_off(client, dripping=b"x" * 1000)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_clients_that_never_read_hold_nothing_for_long(site: Site, tmp_path: Path) -> None:
    site.ask("/api/runs")
    before = open_descriptors()
    with ExitStack() as clients:
        for _ in range(20):
            client = clients.enter_context(connected(site))
            client.sendall(film_request(tmp_path))
        assert site.ask("/api/runs").status == 200
        until = time.monotonic() + LIMIT_SECONDS
        # What is left are the clients' own ends.
        while open_descriptors() > before + 20 and time.monotonic() < until:
            time.sleep(0.05)
        assert open_descriptors() <= before + 20


def test_a_client_that_reads_slowly_but_steadily_gets_everything(
    site: Site, tmp_path: Path
) -> None:
    received, pause = 0, 2.5 * SHORT.read_seconds / 32
    with connected(site) as client:
        client.sendall(
            film_request(tmp_path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        while piece := client.recv(FILM_BYTES // 16, socket.MSG_WAITALL):
            received += len(piece)
            time.sleep(pause)
    assert received > FILM_BYTES


def test_too_many_connections_are_refused_in_words(site: Site) -> None:
    with ExitStack() as clients:
        for _ in range(SHORT.most_connections):
            clients.enter_context(connected(site))
        answer = site.ask("/api/runs")
    assert answer.status == 503

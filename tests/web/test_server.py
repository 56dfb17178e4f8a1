from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError
from longhaul.web.server import Address, Service, is_loopback, serve
from tests.web.made import made_run


def refused(service: Service) -> str:
    with pytest.raises(ConfigError) as caught:
        serve(service, lambda address: pytest.fail("it was served"))
    return str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "none is not a folder" in refused(Service(tmp_path / "none"))


def test_a_single_run_is_answered_with_the_folder_of_all_runs(tmp_path: Path) -> None:
    run = made_run(tmp_path / "runs")
    assert f"give the folder of all tasks, {tmp_path / 'runs'}" in refused(Service(run.path))


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refused(Service(tmp_path, port=port))


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_cannot_be_is_refused(tmp_path: Path, port: int) -> None:
    assert "--port" in refused(Service(tmp_path, port=port))


@pytest.mark.parametrize("token", ["short", "ä" * 20])
def test_a_token_that_is_easily_guessed_or_cannot_be_sent_is_refused(
    tmp_path: Path, token: str
) -> None:
    told = refused(Service(tmp_path, token=token))
    assert token not in told


@pytest.mark.parametrize("name", ["http://box", "box:80", ""])
def test_an_allowed_host_is_a_name_and_nothing_else(tmp_path: Path, name: str) -> None:
    assert "--allow-host" in refused(Service(tmp_path, port=0, allowed_hosts=(name,)))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (("127.0.0.1", "::1", "localhost", "127.9.9.9"), {True}),
        (("0.0.0.0", "::", "192.168.1.5", "box.example"), {False}),
    ],
)
def test_only_addresses_of_this_machine_need_no_token(
    hosts: tuple[str, ...], expected: set[bool]
) -> None:
    assert set(map(is_loopback, hosts)) == expected


def test_the_address_holds_the_token_and_its_description_does_not() -> None:
    address = Address("http://box:1/", "a-token-of-some-length")
    assert address.as_text() == "http://box:1/?token=a-token-of-some-length"
    assert "a-token" not in repr(address)


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "longhaul", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{url}api/runs", timeout=30) as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
        finally:
            process.kill()

"""A cluster that is not to be had is told in one line, at once."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

import pytest

from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.connect import (
    ClusterError,
    check_cluster,
    find_cluster,
    import_ray,
    is_only_here,
    parse_address,
)
from longhaul.core.errors import ConfigError


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize("address", ["auto", "local", "127.0.0.1:6379"])
def test_without_ray_the_remedy_is_told(address: str) -> None:
    with pytest.raises(ClusterError, match=r"pip install 'longhaul-rl\[cluster\]'"):
        check_cluster(ClusterConfig(address=address))
    with pytest.raises(ClusterError, match="not installed"):
        import_ray(only_loopback=True)


@pytest.mark.usefixtures("without_ray")
def test_without_a_cluster_nobody_asks_for_ray() -> None:
    check_cluster(ClusterConfig())


def test_an_address_where_nobody_listens_is_told_at_once() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray")
    config = ClusterConfig(address=f"127.0.0.1:{free_port()}", connect_seconds=1.0)
    with pytest.raises(ClusterError, match=r"cannot be reached: .*refused"):
        check_cluster(config)


@pytest.mark.parametrize("address", ["head", "ray://head:10001", "head:", ":6379", "head:port"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="use auto, local, or host:port"):
        parse_address(address)


def test_an_address_is_host_and_port() -> None:
    assert parse_address("head.example:6379") == ("head.example", 6379)
    assert parse_address("[::1]:6379") == ("::1", 6379)


def test_auto_takes_the_cluster_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6379")
    assert find_cluster() == "10.0.0.7:6379"


def test_auto_takes_the_cluster_of_this_machine_only_while_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert find_cluster() == "local"
    note = tmp_path / "ray" / "ray_current_cluster"
    note.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        note.write_text(address)
        assert find_cluster() == address
    assert find_cluster() == "local"


def test_a_head_on_loopback_may_be_one_that_others_reach_too() -> None:
    elsewhere = "127.0.0.2"  # as good as any other address, and nobody hears of it
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        assert is_only_here("127.0.0.1", port, [elsewhere])
        with socket.create_server((elsewhere, port)):
            assert not is_only_here("127.0.0.1", port, [elsewhere])
        assert not is_only_here("10.0.0.7", port, [elsewhere])

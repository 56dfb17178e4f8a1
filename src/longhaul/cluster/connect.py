"""Joining a Ray cluster, or starting one on this machine, without hangs and dashboards."""

from __future__ import annotations

import importlib.util
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from longhaul.cluster.config import ClusterConfig
from longhaul.core.errors import ConfigError, EnvError, LonghaulError


class ClusterError(EnvError):
    """The cluster cannot be reached, or runs no collector; the command ends with code 3."""


LONGEST_ERROR = 300


def actor_error(who: str, error: Any) -> LonghaulError:
    """Return the error an actor raised: ours as it is, any other with its traceback."""
    cause = error.cause
    if isinstance(cause, LonghaulError):
        # Ray derives a class from both errors, whose text is the whole traceback.
        plain = next(kind for kind in type(cause).__mro__ if kind.__module__.startswith("longhaul"))
        raised: LonghaulError = plain(f"{who}: {cause.args[0] if cause.args else cause}")
        return raised
    return ClusterError(f"{who} failed:\n{error}")


def shortened(error: BaseException) -> str:
    """Return an error in one line that is not too long for a log."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]} ..."


LOOPBACK = ("127.0.0.1", "localhost", "::1")
MEGABYTE = 1 << 20
MISSING = "--cluster needs Ray, which is not installed: pip install 'longhaul-rl[cluster]'"
REGISTER_SECONDS = "RAY_worker_register_timeout_seconds"
PROBE_SECONDS = 2.0  # for a cluster of this machine to answer

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# By default Ray refuses loopback and listens on every interface. Despite its name, this switch
# allows a node on loopback on every system.
_ONLY_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@dataclass(frozen=True, slots=True)
class OwnCluster:
    """Resources of a cluster that is started here."""

    processors: int
    store_megabytes: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster connection, and whether we close it."""

    ray: Any
    is_ours: bool

    def close(self) -> None:
        """Disconnect; a cluster that was started here ends."""
        if self.is_ours:
            self.ray.shutdown()


def check_cluster(config: ClusterConfig) -> None:
    """Raise before a run begins if its cluster is not available; nothing is started."""
    if not config.address:
        return
    if importlib.util.find_spec("ray") is None:
        raise ClusterError(MISSING)
    if config.address not in ("auto", "local"):
        host, port = parse_address(config.address)
        _demand_listener(host, port, config.connect_seconds)


def connect(config: ClusterConfig, own: OwnCluster) -> Connection:
    """Return a connection to the configured cluster, or to a new one."""
    address = find_cluster() if config.address == "auto" else config.address
    is_own = address == "local"
    host, port = ("127.0.0.1", 0) if is_own else parse_address(address)
    ray = import_ray(only_loopback=is_own or is_only_here(host, port))
    if ray.is_initialized():
        return Connection(ray, is_ours=False)
    if is_own:
        # Ray ends a process that has not registered after 60 s and starts the next one: on a busy
        # machine a collector would never come.
        os.environ.setdefault(REGISTER_SECONDS, str(math.ceil(config.start_seconds)))
    else:
        _demand_answer(host, port, config.connect_seconds)
    options: dict[str, Any] = {
        "log_to_driver": False, "logging_level": "ERROR", "namespace": "longhaul",
    }  # fmt: skip
    if is_own:
        options |= {
            "include_dashboard": False,
            "num_cpus": own.processors,
            "object_store_memory": own.store_megabytes * MEGABYTE,
        }
    try:
        with _own_signals():
            ray.init(address=address, **options)
    except Exception as error:  # Ray raises a bare Exception when a node does not start in time
        raise ClusterError(
            f"cluster.address = {config.address!r} cannot be joined: {_one_line(error)}"
        ) from error
    _silence_ray()
    return Connection(ray, is_ours=True)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep our signal handlers: those of Ray would end a run before it saves a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)


def _silence_ray() -> None:
    """Keep Ray's messages about dead nodes off stdout; longhaul reports them itself.

    Ray has no setting for it: `log_to_driver` is about the output of workers.
    """
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *args, **kwargs: None


def import_ray(*, only_loopback: bool) -> ModuleType:
    """Return ray with usage reports off; raise `ClusterError` if it is not installed."""
    if "ray" not in sys.modules:
        os.environ.update(_QUIET)
        if only_loopback:
            os.environ.update(_ONLY_LOOPBACK)
    try:
        import ray
    except ImportError as error:
        raise ClusterError(f"{MISSING} ({_one_line(error)})") from error
    return ray


def find_cluster() -> str:
    """Return the cluster this machine belongs to, by its environment or by `ray start`; else
    `local`."""
    if named := os.environ.get("RAY_ADDRESS", ""):
        return named
    note = (
        Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    )
    try:
        address = note.read_text("utf-8").strip()
        with socket.create_connection(parse_address(address), timeout=PROBE_SECONDS):
            return address
    except (OSError, ConfigError):
        return "local"  # there is no such file, or its cluster is gone


def is_only_here(host: str, port: int, others: Sequence[str] | None = None) -> bool:
    """Return whether a head listens only on loopback, and not at the machine's `others`.

    A cluster that other machines can join may be named by its loopback address as well.
    """
    if host not in LOOPBACK:
        return False
    others = _own_addresses() if others is None else others
    return not any(_listens(other, port) for other in others)


def _own_addresses() -> list[str]:
    """Return the addresses other machines may know this one by."""
    found = [one for addresses in psutil.net_if_addrs().values() for one in addresses]
    return [
        one.address
        for one in found
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of a cluster's head."""
    host, colon, port = address.rpartition(":")
    if address.startswith("ray://") or not colon or not host or not port.isdigit():
        raise ConfigError(
            f"cluster.address = {address!r}: use auto, local, or host:port of the cluster's head, "
            "as `ray start --head` prints it"
        )
    return host.strip("[]"), int(port)


def _demand_answer(host: str, port: int, seconds: float) -> None:
    """Raise unless the head of a cluster answers at this address.

    Ray itself would retry for minutes, or end the process.
    """
    where = f"cluster.address = '{host}:{port}'"
    _demand_listener(host, port, seconds)
    code = "import sys; from ray.scripts.scripts import cli; cli(sys.argv[1:])"
    quiet = {**os.environ, **_QUIET, **(_ONLY_LOOPBACK if is_only_here(host, port) else {})}
    try:
        found = subprocess.run(
            [sys.executable, "-c", code, "health-check", "--address", f"{host}:{port}"],
            timeout=seconds,
            env=quiet,
            capture_output=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"{where}: the process there does not answer as the head of a Ray cluster within "
            f"{seconds:g} s (cluster.connect_seconds)"
        ) from None
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip().splitlines()
        raise ClusterError(
            f"{where} does not answer as the head of a Ray cluster: "
            f"{said[-1] if said else 'no reason given'}"
        )


def _demand_listener(host: str, port: int, seconds: float) -> None:
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        raise ClusterError(
            f"cluster.address = '{host}:{port}' cannot be reached: {_one_line(error)}"
        ) from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

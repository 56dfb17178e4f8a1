"""Serving the page on one socket until a signal stops the process."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from longhaul.core.errors import ConfigError
from longhaul.web.files import open_runs_folder
from longhaul.web.guard import LOOPBACK, AccessRules, host_name
from longhaul.web.pages import make_app
from longhaul.web.patience import USUAL, Patience, with_deadlines
from longhaul.web.run_index import RunIndex

SHORTEST_TOKEN = 16
_GRACE_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Service:
    """What to serve, where, and to whom."""

    root: Path
    host: str = "127.0.0.1"
    port: int = 8765
    token: str = field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    zoo: Sequence[Mapping[str, Any]] = ()
    """The cards of trained policies that are listed below the runs."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is."""

    url: str
    token: str = field(default="", repr=False)

    def as_text(self) -> str:
        """Return the address to open; with a token it opens once and is then a cookie."""
        return f"{self.url}?token={self.token}" if self.token else self.url


def serve(service: Service, notify: Callable[[Address], None]) -> None:
    """Serve until a signal; `notify` gets the address as soon as it listens."""
    index = RunIndex(open_runs_folder(service.root))
    token = _choose_token(service)
    rules = AccessRules(_own_names(service), token)
    listener = _listen(service)
    port = int(listener.getsockname()[1])
    server = make_server(index, rules, service.zoo)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    notify(Address(f"http://{_in_address(service.host)}:{port}/", token))
    with listener:
        server.run(sockets=[listener])


def make_server(
    index: RunIndex,
    rules: AccessRules,
    zoo: Sequence[Mapping[str, Any]] = (),
    *,
    patience: Patience = USUAL,
) -> uvicorn.Server:
    """Return a server without logs and version headers that ends its streams on exit."""
    server: uvicorn.Server
    config = uvicorn.Config(
        make_app(index, rules, zoo, is_over=lambda: server.should_exit),
        http=with_deadlines(patience),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=patience.most_connections,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    return server


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _choose_token(service: Service) -> str:
    """Return the required token; a server for other machines always has one."""
    if service.token and (len(service.token) < SHORTEST_TOKEN or not service.token.isascii()):
        raise ConfigError(
            f"the token has {len(service.token)} characters; use {SHORTEST_TOKEN} or more ASCII "
            "characters, or leave it out to generate one"
        )
    if service.token or is_loopback(service.host):
        return service.token
    return secrets.token_urlsafe(24)


def _own_names(service: Service) -> frozenset[str]:
    names = {name.lower() for name in service.allowed_hosts}
    if not is_loopback(service.host):
        names |= {_in_address(service.host), socket.gethostname().lower()}
    for name in names:
        if host_name(name) != name or not name or "/" in name:
            raise ConfigError(f"--allow-host {name!r} is not a host name; omit scheme and port")
    return LOOPBACK | names


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(service: Service) -> socket.socket:
    family = socket.AF_INET6 if ":" in service.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((service.host, service.port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(
            f"cannot serve at {service.host}:{service.port}: {error}; choose another port with "
            "--port (0 for any free one)"
        ) from error
    return listener

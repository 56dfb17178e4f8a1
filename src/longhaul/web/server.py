"""Serving the page on one socket until the process is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from longhaul.core.errors import ConfigError
from longhaul.web.guard import LOOPBACK, AccessRules, host_name
from longhaul.web.pages import make_app
from longhaul.web.run_index import Library
from longhaul.web.tail import open_shelf

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


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is."""

    url: str
    token: str = field(default="", repr=False)

    def as_text(self) -> str:
        """Return the address to open; with a token it opens once and is then a cookie."""
        return f"{self.url}?token={self.token}" if self.token else self.url


def serve(service: Service, notify: Callable[[Address], None]) -> None:
    """Serve until a signal; `notify` hears the address as soon as it answers."""
    library = Library(open_shelf(service.root))
    token = _choose_token(service)
    rules = AccessRules(_own_names(service), token)
    listener = _listen(service)
    port = int(listener.getsockname()[1])
    server = make_server(library, rules)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    notify(Address(f"http://{_in_address(service.host)}:{port}/", token))
    with listener:
        server.run(sockets=[listener])


def make_server(library: Library, rules: AccessRules) -> uvicorn.Server:
    """Return a server of the page that says nothing of itself and ends its streams when told."""
    server: uvicorn.Server
    config = uvicorn.Config(
        make_app(library, rules, is_over=lambda: server.should_exit),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
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
    """Return the token that is asked for; away from this machine there is always one."""
    if service.token and (len(service.token) < SHORTEST_TOKEN or not service.token.isascii()):
        raise ConfigError(
            f"the token has {len(service.token)} characters; use {SHORTEST_TOKEN} or more plain "
            "ones, or leave it out to have one made"
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
            raise ConfigError(
                f"--allow-host {name!r} is not a host's name; leave scheme and port out"
            )
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
            f"cannot serve at {service.host}:{service.port}: {error}; choose another one with "
            "--port, 0 for any that is free"
        ) from error
    return listener

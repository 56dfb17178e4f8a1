"""Who may ask the page for what: its own host, its own origin, reading only, a token elsewhere."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
METHODS: Final = ("GET", "HEAD")
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What a request must bring."""

    hosts: frozenset[str] = LOOPBACK
    """Names of this server, without a port: a tunnel may use another port."""
    token: str = field(default="", repr=False)
    """Required of every request if it is not empty."""

    @property
    def cookie(self) -> str:
        """What a browser keeps instead of the token."""
        return hmac.new(self.token.encode(), b"longhaul page", hashlib.sha256).hexdigest()


class RequestGuard:
    """Lets through only requests that keep the rules, and sends every answer with strict headers.

    A foreign Host is a name that someone else's DNS points at this machine (DNS rebinding); a
    foreign Origin is another site's page. Both are refused for every method.
    """

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        self._cookie_name = "longhaul"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope) or self._ask_for_token(scope)
        await (refusal or self._app)(scope, receive, send_strictly)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._rules.hosts:
            return PlainTextResponse(
                "This server does not accept this Host header; see --allow-host.\n", 421
            )
        own = {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
        if any(origin.lower() not in own for origin in origins) or _is_embedded(headers):
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        if scope["method"] not in METHODS:
            return PlainTextResponse(
                "This page is read-only.\n",
                405,
                headers={"Allow": ", ".join(METHODS)},
            )
        return None

    def _ask_for_token(self, scope: Scope) -> Response | None:
        if not self._rules.token:
            return None
        headers = Headers(scope=scope)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if any(_same(value, self._rules.token) for value in given):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # Redirecting removes the token from the address.
            path = "/" + scope["path"].lstrip("/\\")
            response = Response(
                status_code=303, headers={"Location": f"{path}?{rest}" if rest else path}
            )
            response.set_cookie(
                self._cookie_name, self._rules.cookie, httponly=True, samesite="strict"
            )
            return response
        bearer = headers.get("authorization", "")
        if bearer.startswith("Bearer ") and _same(bearer[7:], self._rules.token):
            return None
        if any(_same(value, self._rules.cookie) for value in self._cookies(headers)):
            return None
        return PlainTextResponse(
            "A token is required: open the address that `longhaul serve` printed.\n",
            401,
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _cookies(self, headers: Headers) -> Iterable[str]:
        for text in headers.getlist("cookie"):
            try:
                found = SimpleCookie(text).get(self._cookie_name)
            except CookieError:
                continue
            if found is not None:
                yield found.value


def host_name(host: str) -> str:
    """Return the name of a Host header without its port, in lower case."""
    name, colon, port = host.rpartition(":")
    if colon and port.isascii() and port.isdigit() and (":" not in name or name.endswith("]")):
        return name.lower()
    return host.lower()


def _is_embedded(headers: Headers) -> bool:
    """Whether a browser says that another site's page asks, other than by a link to follow."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    is_link = headers.get("sec-fetch-mode") == "navigate"
    return not (is_link and headers.get("sec-fetch-dest") == "document")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())

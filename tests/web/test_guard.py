from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.web.guard import LOOPBACK, AccessRules, host_name
from tests.web.made import Site, served

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
FOREIGN_HOSTS = (
    "evil.example",
    "evil.example:8765",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.2",
    "0.0.0.0",
    "[::2]",
    "localhost@evil.example",
    "localhost:80:80",
    "",
    "localhost, evil.example",
    "LOCALHOST.",
)
FOREIGN_ORIGINS = (
    "http://evil.example",
    "null",
    "https://localhost.evil.example",
    "http://localhost",
    "http://localhost:1",
    "file:" + "//",
    "",
)
TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused_for_every_method(site: Site, host: str) -> None:
    for method in METHODS:
        answer = site.ask("/api/runs", method=method, host=host)
        assert answer.status in (400, 421), method
        assert b"first" not in answer.body


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_refused_for_every_method(site: Site, origin: str) -> None:
    for method in METHODS:
        answer = site.ask("/api/runs", method=method, headers={"Origin": origin})
        assert answer.status == 403, method
        assert b"first" not in answer.body


@pytest.mark.parametrize("method", METHODS[2:])
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/list.js", "/nothing"])
def test_nothing_but_reading_is_allowed(site: Site, method: str, path: str) -> None:
    answer = site.ask(path, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("where", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", ["no-cors", "cors", "navigate"])
def test_another_page_may_link_here_but_embed_nothing(site: Site, where: str, mode: str) -> None:
    is_link = mode == "navigate"
    for target in ("document", "iframe", "script", "image"):
        headers = {"Sec-Fetch-Site": where, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
        expected = 200 if is_link and target == "document" else 403
        assert site.ask("/", headers=headers).status == expected


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9000", "[::1]:8765", "LocalHost:1"])
def test_this_machine_is_reached_by_all_its_own_names(site: Site, host: str) -> None:
    assert site.ask("/api/runs", host=host).status == 200
    assert site.ask("/", host=host, headers={"Origin": f"http://{host}"}).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/run", "/api/runs", "/static/list.js", "/nothing", "/api/run?run=none"]
)
def test_every_answer_forbids_foreign_and_inline_code(site: Site, path: str) -> None:
    for answer in (site.ask(path), site.ask(path, host="evil.example")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:80", "localhost"),
        ("[::1]:80", "[::1]"),
        ("[::1]", "[::1]"),
        ("::1", "::1"),
        ("a:b", "a:b"),
        ("A.b", "a.b"),
        ("localhost:٣", "localhost:٣"),
    ],
)
def test_the_name_of_a_host_has_no_port(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.fixture(scope="module")
def closed_site(root: Path) -> Iterator[Site]:
    with served(root, AccessRules(LOOPBACK | {"box.example"}, TOKEN)) as found:
        yield found


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Cookie": f"longhaul={TOKEN}"},
        {"Cookie": "longhaul="},
        {"Cookie": 'longhaul="\\'},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/list.js", "/api/news", "/?token=no"])
def test_without_the_token_nothing_is_shown(
    closed_site: Site, path: str, headers: dict[str, str]
) -> None:
    answer = closed_site.ask(path, headers=headers)
    assert answer.status == 401
    assert b"first" not in answer.body


def test_the_token_opens_once_and_becomes_a_cookie(closed_site: Site) -> None:
    answer = closed_site.ask(f"/run?run=a%2Fb&token={TOKEN}", host="box.example")
    assert (answer.status, answer.headers["location"]) == (303, "/run?run=a%2Fb")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    headers = {"Cookie": cookie.partition(";")[0]}
    assert closed_site.ask("/api/runs", headers=headers).status == 200


def test_the_way_back_from_the_token_stays_on_this_server(closed_site: Site) -> None:
    for path in ("//evil.example", "/\\evil.example", "///evil.example/"):
        answer = closed_site.ask(f"{path}?token={TOKEN}")
        assert answer.headers["location"].startswith("/evil.example")


def test_a_program_brings_the_token_in_a_header(closed_site: Site) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert closed_site.ask("/api/runs", headers=headers).status == 200


def test_the_token_does_not_excuse_a_foreign_host(closed_site: Site) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert closed_site.ask("/api/runs", headers=headers, host="evil.example").status == 421

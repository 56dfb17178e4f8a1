"""A hundred ways to smuggle a script into a page, in every place a run can write to."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longhaul.runs.directory import RunDirectory
from tests.web.browser import Browser, opened
from tests.web.made import lines, made_run, metric_row, served

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

CODE = (
    "window.pwned=1",
    "document.title='pwned'",
    "fetch('/pwned')",
    "alert(1)",
    "document.body.dataset.pwned=1",
)
SHAPES = (
    "<script>CODE</script>",
    "<img src=x onerror=CODE>",
    '"><img src=x onerror=CODE>',
    "<svg onload=CODE>",
    "<svg><script>CODE</script></svg>",
    "<iframe srcdoc='<script>parent.CODE</script>'>",
    "<details open ontoggle=CODE>",
    "<body onload=CODE>",
    "javascript:CODE",
    "'-CODE-'",
    "${CODE}",
    "{{CODE}}",
    "</script><script>CODE</script>",
    "<style>@import 'javascript:CODE'</style>",
    "<a href=javascript:CODE autofocus onfocus=CODE>x</a>",
    "<input autofocus onfocus=CODE>",
    "<video><source onerror=CODE>",
    "<object data='data:text/html,<script>CODE</script>'>",
    "<math><mtext></p><img src onerror=CODE>",
    "\u2028CODE//",
)
PAYLOADS = [shape.replace("CODE", code) for shape, code in itertools.product(SHAPES, CODE)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


def poison(run: RunDirectory, number: int) -> None:
    """Write all payloads into a run, another one of them into its name."""
    record = json.loads(run.record.read_text())
    payload = PAYLOADS[number]
    record |= {"name": payload, "task": payload, "reason": payload, "command": ["x", payload]}
    record["versions"] = {payload: payload}
    run.record.write_text(json.dumps(record))
    rows = [metric_row(iteration) for iteration in range(1, 6)]
    for row, at in itertools.product(rows, range(100)):
        row[f"x{at}/{PAYLOADS[at]}"] = 1.0
    run.metrics.write_bytes(lines(rows))
    moves = [{"setting": text, "old": text, "new": 1.0} for text in PAYLOADS]
    run.events.write_bytes(
        lines(
            [
                {"event": "schedule", "controller": payload, "why": payload, "moves": moves},
                *({"event": "hint", "text": text} for text in PAYLOADS),
                *({"event": text, "env_steps": 1, text: text} for text in PAYLOADS),
            ]
        )
    )
    run.sessions.write_bytes(
        lines(
            {"event": "env_fault", "worker": text, "kind": text, "error": text, "time": text}
            for text in PAYLOADS
        )
    )
    written = "\n".join(
        f"{json.dumps(f'k{at}' + p)} = {json.dumps(p)}" for at, p in enumerate(PAYLOADS)
    )
    run.config.write_text(written)
    run.media.mkdir()
    for at, text in enumerate(PAYLOADS):
        if "/" not in text:
            (run.media / f"{at}{text}.mp4").write_bytes(b"")
    panels = [{"title": text, "metrics": ["train/loss"], "note": text} for text in PAYLOADS[:10]]
    run.panels.write_text(json.dumps({"score": payload, "panels": panels, "settings": {}}))


def nothing_ran(browser: Browser) -> None:
    assert browser.run("return window.pwned") is None
    assert browser.run("return document.body.dataset.pwned") is None
    assert "pwned" not in browser.run("return document.title").split(" · ")[0]
    assert (
        browser.run("return performance.getEntriesByName(location.origin + '/pwned').length") == 0
    )
    inside = "script:not([src]), iframe, object, svg script, style, [onerror], [onload], [onfocus]"
    assert browser.run(f"return document.querySelectorAll({inside!r}).length") == 0
    addresses = "a[href^='javascript'], [src^='javascript'], [src^='data:']"
    assert browser.run(f"return document.querySelectorAll({addresses!r}).length") == 0
    refused = [text for text in browser.complaints() if "Content Security Policy" in text]
    assert refused == []  # nothing was even tried


def test_there_are_a_hundred_different_payloads() -> None:
    assert len(set(PAYLOADS)) == 100


def test_the_payloads_would_run_where_a_page_is_careless(browser: Browser) -> None:
    for payload in (PAYLOADS[0], PAYLOADS[5], PAYLOADS[15]):
        browser.open("data:text/html," + payload)
        assert browser.until(lambda: browser.run("return window.pwned")) == 1


def test_no_payload_runs_wherever_a_run_puts_it(
    browser: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("payloads", len(PAYLOADS))
    names = [f"gym-cartpole-v1/{made_run(tmp_path, seed=at).path.name}" for at in range(100)]
    for at, name in enumerate(names):
        if at % 10 == 0:
            poison(RunDirectory(tmp_path / name), at)
        else:
            record = json.loads((tmp_path / name / "run.json").read_text())
            record |= {"name": PAYLOADS[at], "task": PAYLOADS[at], "reason": PAYLOADS[at]}
            (tmp_path / name / "run.json").write_text(json.dumps(record))
    with served(tmp_path) as site:
        browser.open(site.url)
        browser.until(lambda: len(browser.texts("#rows tr")) == 100)
        assert sorted(browser.texts("#rows .run-name")) == sorted(PAYLOADS)
        nothing_ran(browser)
        browser.open(f"{site.url}/run?run={names[0]}&run={names[10]}")
        browser.until(lambda: len(browser.texts("#hint-list li")) == 12)
        browser.until(lambda: browser.texts("#config-list"))
        browser.run(
            "for (const one of document.querySelectorAll('details')) one.open = true;"
            "document.getElementById('differing').click()"
        )
        browser.until(lambda: len(browser.texts("#event-list tbody tr")) == 200)
        browser.until(lambda: len(browser.texts("#config-list tbody tr")) == 100)
        titles = set(browser.texts(".chart h3"))
        assert {f"x{at}/{payload}" for at, payload in enumerate(PAYLOADS)} <= titles
        nothing_ran(browser)

from __future__ import annotations

from pathlib import Path
from typing import Any

from longhaul.core.hint import Finding, Hint
from longhaul.web.events import LONGEST_TEXT, MOST_KEPT, RunEvents, hint_text
from tests.web.made import decision, lines, made_run


def whole(events: RunEvents) -> list[dict[str, Any]]:
    moved: list[dict[str, Any]] = []
    while True:
        rows, more = events.advance()
        moved += rows
        if not more:
            return moved


def test_a_setting_begins_with_what_it_was_before_its_first_change(tmp_path: Path) -> None:
    moved = whole(RunEvents(made_run(tmp_path)))
    assert moved == [
        {"iteration": 0, "env_steps": 0, "env.wind": 0.0},
        {"iteration": 5, "env_steps": 500, "env.wind": 0.25},
        {"iteration": 10, "env_steps": 1000, "env.wind": 0.5},
    ]


def test_decisions_keep_their_reasons(tmp_path: Path) -> None:
    events = RunEvents(made_run(tmp_path))
    whole(events)
    assert [one["why"] for one in events.decisions] == ["survival was 0.25", "survival was 0.5"]


def test_a_hint_that_is_repeated_is_told_once(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.events.write_bytes(
        lines({"iteration": n, "event": "hint", "text": text} for n, text in enumerate("abab"))
    )
    events = RunEvents(run)
    whole(events)
    assert [(text, one.iteration) for text, one in events.hints.items()] == [("a", 2), ("b", 3)]


def test_a_rule_that_speaks_again_takes_the_place_of_what_it_said(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    finding = Finding("The loss is 9.", "It is high.", "Lower learn.learning_rate.")
    rows = [{"iteration": n, **Hint("loss", finding, times=n).as_row()} for n in (1, 2)]
    run.events.write_bytes(lines(rows))
    events = RunEvents(run)
    whole(events)
    (hint,) = events.hints.values()
    assert hint.facts["times"] == "2"
    assert hint_text(hint).startswith("Still: The loss is 9.")


def test_faults_are_counted_by_worker(tmp_path: Path) -> None:
    events = RunEvents(made_run(tmp_path))
    whole(events)
    assert events.workers["worker 2"].kinds == {"died": 1}
    assert events.workers["worker 2"].last == "killed by signal 9"


def test_a_million_events_would_be_counted_and_the_newest_kept(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.events.write_bytes(lines(decision(n, n - 1, n) for n in range(1, 2001)))
    events = RunEvents(run)
    whole(events)
    assert (events.counts["schedule"], len(events.decisions)) == (2000, MOST_KEPT)


def test_strange_rows_harm_nothing(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    odd: list[dict[str, Any]] = [
        {"event": "schedule", "moves": "none"},
        {"event": "schedule", "moves": [1, {"setting": None, "new": [1]}], "why": {"a": 1}},
        {"event": ["list"], "env_steps": "many"},
        {"event": "hint"},
        {},
        {"event": "x", "text": "y" * 10_000},
    ]
    run.events.write_bytes(lines(odd))
    run.sessions.write_bytes(lines([{"event": "env_fault", "worker": [1], "kind": 3, "error": {}}]))
    events = RunEvents(run)
    assert whole(events) == []
    assert len(events.others[-1].facts["text"]) == LONGEST_TEXT

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from starlette.datastructures import QueryParams

from longhaul.app.evaluation.zoo import zoo_cards
from longhaul.runs.score import Score, Source, write_final_score
from longhaul.web.files import open_runs_folder
from longhaul.web.pages import read_window
from longhaul.web.run_index import RunIndex
from tests.web.made import NOON, Site, lines, made_run, metric_row, served

TASK = "gym-cartpole-v1"
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?:(?!//www\.w3\.org)"
)
FIRST = f"{TASK}/{NOON:%Y%m%d-%H%M%S}-first-s3"
SECOND = f"{TASK}/{NOON:%Y%m%d-%H%M%S}-second-s4"


def test_the_list_tells_how_every_run_stands(site: Site) -> None:
    found = {run["id"]: run for run in whole_list(site)}
    assert set(found) == {FIRST, SECOND}
    first = found[FIRST]
    assert (first["status"], first["words"]) == ("finished", "total_timesteps reached")
    assert (first["steps"], first["share"]) == (2000, 0.5)
    score, best = first["score"], first["best"]
    assert isinstance(score, dict)
    assert isinstance(best, dict)
    assert (score["value"], score["source"], score["metric"]) == (
        40.0,
        "evaluation",
        "eval/mean_reward",
    )
    assert (best["value"], best["env_steps"]) == (40.0, 2000)
    assert first["spark_of"] == "eval/mean_reward"
    assert first["spark"] == [[500.0, 10.0], [1000.0, 20.0], [1500.0, 30.0], [2000.0, 40.0]]


def test_the_policies_of_the_zoo_are_listed(tmp_path: Path) -> None:
    cards = [card.as_values() for card in zoo_cards()]
    assert cards
    with served(tmp_path, zoo=cards) as site:
        assert site.ask("/api/zoo").json == cards


def whole_list(site: Site) -> list[dict[str, object]]:
    while True:
        found: list[dict[str, object]] = site.ask("/api/runs").json["runs"]
        if all(run["read"] for run in found):
            return found


def test_a_run_tells_everything_it_has(site: Site) -> None:
    found = site.ask(f"/api/run?run={quote(FIRST)}").json
    assert found["metrics"][:2] == ["rollout/ep_rew_mean", "train/loss"]
    assert found["settings"] == ["env.wind"]
    assert [hint["text"] for hint in found["hints"]] == ["lower the rate"]
    assert found["decision_count"] == 2
    assert found["workers"][0]["kinds"] == {"died": 1}
    assert found["films"] == [{"name": "worst.mp4", "caption": "Worst of 3 episodes"}]
    assert found["constants"] == ["time/fps", "time/iteration_seconds"]
    assert [hint["resolved"] for hint in found["hints"]] == [""]
    assert found["record"]["command"] == "longhaul train gym:CartPole-v1"


def test_a_final_evaluation_becomes_the_score_once_it_is_there(tmp_path: Path) -> None:
    run = made_run(tmp_path / "runs")
    run.panels.write_text(json.dumps({"score": "eval/mean_reward", "target": 38.0}))
    with served(tmp_path / "runs") as site:
        (before,) = whole_list(site)
        assert (before["solved"], before["target"]) == (True, 38.0)
        final = Score(30.0, "eval/mean_reward", Source.FINAL, 2000, 25.0, 35.0, 50, 38.0)
        write_final_score(run, final)
        after = before
        while after["score"] == before["score"]:
            (after,) = whole_list(site)
        assert after["score"] == msgspec.to_builtins(final)
        assert after["solved"] is False
        assert "50 episodes: 25 to 35" in str(after["interval"])


def test_a_final_evaluation_from_elsewhere_is_not_read(tmp_path: Path) -> None:
    run = made_run(tmp_path / "runs")
    other = made_run(tmp_path / "elsewhere")
    write_final_score(other, Score(99.0, "secret", Source.FINAL, 9999))
    run.evaluations.symlink_to(other.evaluations)
    with served(tmp_path / "runs") as site:
        (found,) = whole_list(site)
        assert "secret" not in json.dumps(found)


def test_a_hint_has_had_its_time_once_the_target_is_reached(tmp_path: Path) -> None:
    run = made_run(tmp_path / "runs")
    run.panels.write_text(json.dumps({"score": "eval/mean_reward", "target": 38.0}))
    with served(tmp_path / "runs") as site:
        whole_list(site)
        (hint,) = site.ask(f"/api/run?run={quote(FIRST)}").json["hints"]
        assert hint["resolved"] == "the target was reached"


def test_a_hint_has_had_its_time_once_it_would_have_come_again(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", iterations=520)
    with served(tmp_path / "runs") as site:
        whole_list(site)
        (hint,) = site.ask(f"/api/run?run={quote(FIRST)}").json["hints"]
        assert hint["resolved"] == "not seen again for 509 iterations"


def test_curves_of_several_runs_come_in_one_answer(site: Site) -> None:
    query = f"run={quote(FIRST)}&run={quote(SECOND)}&run=none&name=rollout/ep_rew_mean&name=x"
    found = site.ask(f"/api/curves?{query}").json
    assert set(found["runs"]) == {FIRST, SECOND}
    assert found["read"] == 1.0
    curve = found["runs"][SECOND]["rollout/ep_rew_mean"]
    assert curve["mean"] == [2.0 * number for number in range(1, 21)]


def test_a_config_tells_where_runs_differ(site: Site) -> None:
    found = site.ask(f"/api/configs?run={quote(FIRST)}&run={quote(SECOND)}").json
    differing = {row["key"]: row["values"] for row in found["rows"] if row["differs"]}
    assert differing == {"name": ["first", "second"], "seed": ["3", "4"]}


@pytest.mark.parametrize(
    "query", ["over=magic", "from=x", "to=nan", "from=inf", "points=many", "from="]
)
def test_a_window_that_makes_no_sense_is_refused(site: Site, query: str) -> None:
    assert site.ask(f"/api/curves?run={quote(FIRST)}&{query}").status == 400


def test_points_are_kept_within_reason() -> None:
    for asked, given in (("-5", 16), ("1000000000", 2000), ("300", 300)):
        window = read_window(QueryParams({"points": asked}))
        assert window is not None
        assert window.points == given


def test_a_film_is_sent_in_ranges(site: Site) -> None:
    path = f"/files/media/{FIRST}/worst.mp4"
    whole = site.ask(path)
    assert (whole.status, whole.headers["content-type"]) == (200, "video/mp4")
    assert whole.headers["accept-ranges"] == "bytes"
    part = site.ask(path, headers={"Range": "bytes=250-259"})
    assert (part.status, part.body) == (206, whole.body[250:260])
    assert part.headers["content-range"] == "bytes 250-259/2048"
    assert site.ask(path, headers={"Range": "bytes=5000-"}).status == 416


def test_a_browser_is_told_that_its_copy_is_good(site: Site) -> None:
    tag = site.ask("/static/list.js").headers["etag"]
    assert site.ask("/static/list.js", headers={"If-None-Match": tag}).status == 304


def test_a_head_request_has_no_body(site: Site) -> None:
    for path in ("/", "/api/runs", "/api/news", f"/files/media/{FIRST}/worst.mp4"):
        answer = site.ask(path, method="HEAD")
        assert (answer.status, answer.body) == (200, b"")


def test_news_tell_all_runs_first_and_then_what_changed(tmp_path: Path) -> None:
    run = made_run(tmp_path / "runs")
    with served(tmp_path / "runs") as site:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        connection.request("GET", "/api/news")
        stream = connection.getresponse()
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "all" in next_event(stream)
        with run.metrics.open("ab") as log:
            log.write(lines([metric_row(21)]))
        while True:
            told = next_event(stream).get("changed")
            if told and told["runs"][0]["iteration"] == 21:
                break
        connection.close()


def next_event(stream: http.client.HTTPResponse) -> dict[str, dict[str, list[dict[str, int]]]]:
    kind = ""
    while line := stream.readline():
        name, _, rest = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = rest
        elif name == "data":
            return {kind: json.loads(rest)}
    raise AssertionError("the stream ended")


def test_a_run_that_has_just_begun_is_found_by_its_name(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    index = RunIndex(open_runs_folder(root))
    assert index.entries() == []
    run = made_run(root)
    assert index.directory(f"{TASK}/{run.path.name}") is not None


def test_runs_nobody_looks_at_are_forgotten_before_memory_runs_out(tmp_path: Path) -> None:
    for seed in range(30):
        made_run(tmp_path, seed=seed)
    index = RunIndex(open_runs_folder(tmp_path))
    index.start()
    try:
        names = [entry["id"] for entry in index.entries()]
        opened = [index.open(name, patience=20) for name in names]
        assert index.open(names[-1]) is opened[-1]
        assert index.open(names[0]) is not opened[0]
    finally:
        index.close()


def test_the_pages_hold_no_inline_code_and_nothing_from_elsewhere() -> None:
    folder = Path(__file__).resolve().parents[2] / "src" / "longhaul" / "web" / "static"
    for page in folder.glob("*.html"):
        text = page.read_text()
        assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|style=|<style|https?:", text)
    for script in folder.glob("*.js"):
        if not script.name.endswith(".min.js"):
            assert not MARKUP.search(script.read_text()), script.name


def test_what_was_taken_over_has_its_licence_beside_it(site: Site) -> None:
    assert b"MIT License" in site.ask("/static/uPlot.LICENSE.txt").body

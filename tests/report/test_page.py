"""The report as one page."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path

import pytest

from longhaul.report import summary as words
from longhaul.report.page import EMBEDDED_BYTES, Extras, make_page, run_charts
from longhaul.report.run_data import gather
from longhaul.report.style import draw
from longhaul.runs.directory import RunDirectory
from longhaul.runs.films import keep_film_note
from longhaul.runs.score import Score, Source, write_final_score
from tests.report.made import made_run, metrics, write_evaluation, write_lines

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "</title><svg onload=alert(1)>",
    "javascript:alert(1)",
    "<iframe src='https://example.com'></iframe>",
    "${alert(1)}",
    "{{7*7}}",
    "&lt;script&gt;",
)


class Elements(html.parser.HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    run = made_run(tmp_path_factory.mktemp("runs"))
    run.media.mkdir()
    (run.media / "small.mp4").write_bytes(b"film")
    (run.media / "large.mp4").write_bytes(bytes(EMBEDDED_BYTES + 1))
    return run


@pytest.fixture(scope="module")
def page(run: RunDirectory) -> str:
    found = gather(run.path)
    changed = {"learn.gamma": (0.99, 0.5)}
    return make_page(
        found,
        Extras([draw(chart) for chart in run_charts(found)[:2]], "", changed, "the preset 'fast'"),
    )


def test_the_page_has_all_its_parts(page: str) -> None:
    text = " ".join(parsed(page).text)
    for part in (
        "Summary",
        "Films",
        "Evaluations",
        "Plots",
        "Decisions of the schedule",
        "Hints",
        "Faults and other events",
        "Configuration",
        "Commands",
        "Machine and versions",
        "lower learn.learning_rate",
        "env_restarted",
        "survival was 0.25",
        "the preset 'fast'",
        "longhaul resume",
        "numpy",
    ):
        assert part in text, part


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    elements = parsed(page)
    assert not {tag for tag, _ in elements.tags} & {"script", "link", "iframe", "object", "embed"}
    for tag, attributes in elements.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "xlink:href") and value:
                local = value.startswith(("#", "data:", "media/"))
                assert local, (tag, name, value[:60])
    outside = [url for url in re.findall(r"https?://[^\s\"'<>)]+", page) if "w3.org" not in url]
    assert outside == []


def test_a_suites_table_has_the_columns_and_forms_of_its_task(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    name = "eval/alive"
    suite = {
        "suite": "fresh",
        "columns": [{"title": "survivors", "metric": name, "form": ".2f"}],
        "metrics": {name: 0.98765, "eval/other": 1.0},
        "intervals": {name: [0.97, 0.99]},
        "bounds": {name: 0.99},
        "references": {"brake": {name: 0.8}},
        "episodes": [{}],
    }
    found = {"task": "x", "checkpoint": "step-1", "greedy": True, "suites": [suite]}
    (run.evaluations / "step-000000004000-fresh-greedy.json").write_text(json.dumps(found))
    table = words.evaluation_tables(gather(run.path))[-1]
    assert table.header == ("policy", "survivors")
    assert table.rows == (
        ("brake", "0.80"),
        ("trained", "0.99"),
        ("95 % interval of trained", "0.97 to 0.99"),
        ("bound", "0.99"),
    )

    assert [table.rows[place][0] for place in table.own] == ["trained", "95 % interval of trained"]


@pytest.mark.parametrize(
    ("value", "kind", "verdict"),
    [(480.0, "good", "target 475 reached"), (410.1, "bad", "target 475 not reached")],
)
def test_the_first_tile_is_the_final_evaluation_against_its_target(
    tmp_path: Path, value: float, kind: str, verdict: str
) -> None:
    run = made_run(tmp_path)
    write_final_score(
        run,
        Score(value, "eval/mean_reward", Source.FINAL, 4000, value - 29.6, value + 29.6, 50, 475.0),
    )
    page = make_page(gather(run.path), Extras())
    first = page[page.index('<div class="tile ') :].partition("</div>")[0]
    assert first.startswith(f'<div class="tile score {kind}"><span>final evaluation</span>')
    assert f"<b>{words.figure(value)}</b>" in first
    assert verdict in first
    assert "95 % confidence interval of the mean, 50 episodes" in first


def test_a_training_return_is_called_one_and_has_no_color(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    write_lines(run.metrics, [metrics(number) for number in range(1, 6)])
    page = make_page(gather(run.path), Extras())
    first = page[page.index('<div class="tile ') :].partition("</div>")[0]
    assert first.startswith('<div class="tile score"><span>training return (no evaluation yet)')


def test_figures_of_different_suites_say_which_they_are_of(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    panels = json.loads(run.panels.read_text())
    run.panels.write_text(json.dumps({**panels, "suite": "train"}))
    write_final_score(run, Score(0.9, "eval/score", Source.FINAL, 4000, suite="v38"))
    text = " ".join(parsed(make_page(gather(run.path), Extras())).text)
    assert "final evaluation, suite v38" in text
    assert "best evaluation during training, suite train" in text
    assert "Of 4 evaluations during training on the suite train the best had" in text


def test_results_come_before_films_and_films_say_what_they_show(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.media.mkdir()
    film = run.media / "step-000000004000-worst-seed7.mp4"
    film.write_bytes(b"film")
    keep_film_note(run, film, "Worst of 50 episodes: return 178")
    page = make_page(gather(run.path), Extras())
    assert page.index('id="evaluations"') < page.index('id="films"')
    assert "<figcaption>Worst of 50 episodes: return 178</figcaption>" in page
    assert "step-000000004000-worst" not in " ".join(parsed(page).text)


def test_plots_stand_in_two_columns_of_about_one_height(run: RunDirectory) -> None:
    drawn = [draw(chart) for chart in run_charts(gather(run.path))]
    page = make_page(gather(run.path), Extras(drawn))
    first, second = (part.count("<svg") for part in page.split('<div class="column">')[1:])
    assert abs(first - second) <= 2
    assert page.count("<svg") == len(drawn)


def test_small_films_are_in_the_page_and_large_ones_are_linked(page: str) -> None:
    sources = [attributes["src"] for tag, attributes in parsed(page).tags if tag == "video"]
    assert sorted(str(source)[:10] for source in sources) == ["data:video", "media/large"[:10]]


def test_the_figures_are_those_of_the_logs(run: RunDirectory, page: str) -> None:
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    text = " ".join(parsed(page).text)
    assert f"{rows[-1]['env_steps']:,} steps" in text
    assert f"to {rows[-1]['rollout/ep_rew_mean']:g}" in text
    best = max(row["eval/mean_reward"] for row in rows if "eval/mean_reward" in row)
    assert words.figure(best) in text
    assert "309.5" in text  # the mean of 300 to 319
    assert "307 to 312" in text
    assert "95 % confidence interval of the mean" in text


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_a_run_says_becomes_markup(tmp_path: Path, payload: str) -> None:
    run = made_run(tmp_path)
    hostile = [
        {"iteration": 1, "event": "hint", "text": payload},
        {"iteration": 1, "event": payload, "reason": payload, payload: payload},
        {
            "iteration": 1,
            "env_steps": 1,
            "event": "schedule",
            "controller": payload,
            "moves": [{"setting": payload, "old": payload, "new": payload}],
            "why": payload,
        },
    ]
    write_lines(run.events, hostile)
    write_evaluation(run, [1.0, 2.0], checkpoint=payload)
    record = json.loads(run.record.read_text())
    record |= {"name": payload, "reason": payload, "command": ["longhaul", payload]}
    record["versions"] = {payload: payload}
    run.record.write_text(json.dumps(record))
    run.config.write_text(json.dumps(payload) + " = " + json.dumps(payload) + "\n")
    page = make_page(gather(run.path), Extras((), payload, {payload: (payload, payload)}, payload))
    elements = parsed(page)
    safe = parsed(make_page(gather(made_run(tmp_path / "safe").path), Extras()))
    assert {tag for tag, _ in elements.tags} <= {tag for tag, _ in safe.tags} | {"ul", "li"}
    assert not [name for _, attributes in elements.tags for name in attributes if name[:2] == "on"]
    assert payload in "".join(elements.text)


def test_a_run_without_an_iteration_has_a_report_all_the_same(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    for log in (run.metrics, run.timings, run.episodes, run.events):
        log.write_text("")
    page = make_page(gather(run.path), Extras())
    assert "has not finished an iteration" in page


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.2, "3 s"), (89, "89 s"), (125, "2 min 05 s"), (7300, "2 h 01 min")]
)
def test_times_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said

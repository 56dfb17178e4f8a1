"""A trained CartPole run on the page and in its report, as screens and phones show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from longhaul.app.artifacts.report import report_run
from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.runs.directory import RunDirectory
from longhaul.runs.score import Score, Source, write_final_score
from tests.web.browser import Browser, opened
from tests.web.made import Site, served

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

FINAL = Score(470.0, "eval/mean_reward", Source.FINAL, 16384, 457.0, 483.0, 50, 475.0)
TILE = "#facts div:first-child"
OVERLAPS = """
const boxes = [...document.querySelectorAll(arguments[0])]
  .filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect());
const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
  || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
return boxes.flatMap((a, at) => boxes.slice(at + 1).filter((b) => !apart(a, b))).length;
"""
BLANK = """
return [...document.querySelectorAll(".chart")].filter((one) => one.checkVisibility())
  .filter((one) => {
    const canvas = one.querySelector("canvas");
    if (!canvas) return true;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return !data.some((value) => value > 0);
  }).map((one) => one.getAttribute("aria-label"));
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained") / "runs"


@pytest.fixture(scope="module")
def run(root: Path) -> RunDirectory:
    """A trained run with evaluations, checkpoints, films, plots and a report."""
    changes = (
        "total_timesteps=16384",
        "evaluate.every_iterations=2",
        "evaluate.episodes=5",
        "evaluate.final_episodes=5",
        "checkpoint.every_iterations=2",
    )
    config = resolve(ConfigSources(task="gym:CartPole-v1", overrides=changes))
    made = begin_run(config, root).directory
    assert run_session(made, config, SessionOptions(quiet=True, report=True)).exit_code == 0
    write_final_score(made, FINAL)
    return made


@pytest.fixture(scope="module")
def site(root: Path, run: RunDirectory) -> Iterator[Site]:
    with served(root) as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


def address(site: Site, run: RunDirectory) -> str:
    return f"{site.url}/run?run={run.path.parent.name}/{run.path.name}"


def show(browser: Browser, url: str, width: int) -> None:
    """Open a run at a width and wait until all charts that are not folded are drawn."""
    browser.resize(width)
    browser.open(url)
    browser.until(lambda: browser.texts(TILE))
    height = browser.run("return document.documentElement.scrollHeight")
    browser.resize(width, int(height))
    browser.until(lambda: browser.texts(".chart") and browser.run(BLANK) == [])
    browser.resize(width)


@pytest.mark.parametrize(("width", "most"), [(400, 4000), (1400, 4000)])
def test_a_run_is_at_most_4000_pixels_tall_and_nothing_overlaps_or_is_empty(
    browser: Browser, site: Site, run: RunDirectory, width: int, most: int
) -> None:
    show(browser, address(site, run), width)
    assert browser.run("return document.documentElement.scrollHeight") <= most
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for boxes in (".chart", "#facts > div", "main > *"):
        assert browser.run(OVERLAPS, boxes) == 0, boxes
    assert browser.run(BLANK) == []
    assert browser.complaints() == []


def test_the_first_tile_is_the_score_in_the_color_of_its_target(
    browser: Browser, site: Site, run: RunDirectory
) -> None:
    def color() -> str:
        return str(browser.run(f"return getComputedStyle({found}).backgroundColor"))

    found = f"document.querySelector('{TILE}')"
    show(browser, address(site, run), 1400)
    browser.until(lambda: browser.text(f"{TILE} dt") == "Final evaluation")
    assert "target 475 not reached" in browser.text(f"{TILE} .fact-note")
    assert "95 % confidence interval of the mean, 50 episodes" in browser.text(TILE)
    red = color()
    assert browser.run("return document.getElementById('solved').hidden")
    write_final_score(run, replace(FINAL, value=480.0))
    browser.until(lambda: "target 475 reached" in browser.text(TILE))
    assert color() != red
    browser.until(lambda: not browser.run("return document.getElementById('solved').hidden"))
    assert browser.complaints() == []
    write_final_score(run, FINAL)


def test_quantiles_share_a_chart_and_constants_are_hidden(
    browser: Browser, site: Site, run: RunDirectory
) -> None:
    show(browser, address(site, run), 1400)
    titles = browser.texts(".chart h3")
    assert titles[:4] == ["Return", "eval/reward", "rollout/ep_rew", "rollout/ep_len"]
    assert not [title for title in titles if title.endswith(("_p10", "_p90", "_std", "_min"))]
    assert "p10 to p90: last " in browser.text("[aria-label='rollout/ep_rew'] p.hidden")
    flat = "document.querySelector(\"[aria-label='eval/episodes']\").hidden"
    assert browser.run(f"return {flat}")
    browser.driver.find_element(By.ID, "constants").click()
    browser.until(lambda: not browser.run(f"return {flat}"))
    assert browser.complaints() == []


def test_the_config_is_folded_and_found_by_key(
    browser: Browser, site: Site, run: RunDirectory
) -> None:
    show(browser, address(site, run), 1400)
    assert not browser.run("return document.getElementById('config').open")
    browser.until(lambda: len(browser.texts("#config-list tbody tr")) > 100)
    browser.run("document.getElementById('config').open = true")
    browser.driver.find_element(By.ID, "find-key").send_keys("total_timesteps")
    browser.until(lambda: browser.texts("#config-list tbody th") == ["total_timesteps"])
    assert not browser.driver.find_element(By.ID, "differing").is_displayed()
    assert browser.complaints() == []


def test_the_best_checkpoint_is_marked_and_a_run_without_workers_shows_none(
    browser: Browser, site: Site, run: RunDirectory
) -> None:
    show(browser, address(site, run), 1400)
    assert browser.texts("#checkpoint-list .badge").count("best") == 1
    assert "Worker" not in browser.text("#processes")
    captions = browser.texts("#film-list > figure figcaption")
    assert all(" of 5 episodes: return " in caption for caption in captions), captions


def test_the_list_on_a_phone_shows_the_score(
    browser: Browser, site: Site, run: RunDirectory
) -> None:
    browser.resize(400)
    browser.open(site.url)
    browser.until(lambda: browser.text("#rows .score") == "470 final")
    right = browser.run(
        "return document.querySelector('#rows .score').getBoundingClientRect().right"
    )
    height = browser.run("return document.querySelector('#rows tr').offsetHeight")
    assert right <= 400
    assert height <= 70
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [400, 1400])
def test_the_report_has_no_holes(browser: Browser, run: RunDirectory, width: int) -> None:
    report_run(run.path)
    browser.resize(width)
    browser.open(run.report.as_uri())
    assert browser.texts(".tile")[0].startswith("final evaluation470")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for boxes in (".tile", ".plot", ".film", "section"):
        assert browser.run(OVERLAPS, boxes) == 0, boxes
    ends = browser.run(
        "return [...document.querySelectorAll('.column')]"
        ".map((one) => one.lastElementChild.getBoundingClientRect().bottom)"
    )
    assert width < 600 or max(ends) - min(ends) <= 1
    assert browser.complaints() == []

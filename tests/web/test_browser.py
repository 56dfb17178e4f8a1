"""The page as people use it, in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from longhaul.report.film import encode
from tests.web.browser import Browser, opened
from tests.web.made import NOON, lines, made_run, metric_row, served

pytestmark = pytest.mark.browser
FIRST = f"gym-cartpole-v1/{NOON:%Y%m%d-%H%M%S}-first-s3"
SECOND = f"gym-cartpole-v1/{NOON:%Y%m%d-%H%M%S}-second-s4"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    made_run(tmp_path, iterations=300)
    made_run(tmp_path, name="second", seed=4, scale=2.0, iterations=300)
    return tmp_path


def chart_texts(browser: Browser) -> list[str]:
    return browser.texts(".chart p.hidden")


def pixels_of(browser: Browser, title: str) -> int:
    """Return how many pixels of a chart's canvas are drawn on."""
    return int(
        browser.run(
            """
            const figure = [...document.querySelectorAll(".chart")]
              .find((one) => one.querySelector("h3").textContent === arguments[0]);
            const canvas = figure?.querySelector("canvas");
            if (!canvas) return 0;
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            let count = 0;
            for (let at = 3; at < data.length; at += 4) count += data[at] > 0;
            return count;
            """,
            title,
        )
    )


def test_the_list_and_a_run_are_drawn_without_a_complaint(browser: Browser, two_runs: Path) -> None:
    with served(two_runs) as site:
        browser.open(site.url)
        browser.until(lambda: len(browser.texts("#rows .spark path")) == 2)
        assert sorted(browser.texts("#rows .run-name")) == ["first", "second"]
        assert browser.texts("#rows .badge") == ["finished", "finished"]
        browser.driver.find_element(By.LINK_TEXT, "first").click()
        browser.until(lambda: pixels_of(browser, "rollout/ep_rew_mean") > 500)
        told = browser.until(
            lambda: [text for text in chart_texts(browser) if "300 points" in text]
        )
        assert "lowest 1, highest 300, last 300" in told[0]
        assert browser.texts("#hint-list li")[0].startswith("lower the rate")
        assert browser.complaints() == []


@pytest.mark.thorough
def test_two_runs_are_overlaid_and_their_configs_compared(browser: Browser, two_runs: Path) -> None:
    with served(two_runs) as site:
        browser.open(f"{site.url}/run?run={FIRST}")
        choice = Select(browser.driver.find_element(By.ID, "overlay"))
        browser.until(lambda: len(choice.options) == 2)
        choice.select_by_value(SECOND)
        told = "second, seed 4: 300 points"
        browser.until(lambda: any(told in one for one in chart_texts(browser)))
        assert browser.run("return location.search").count("run=") == 2
        assert [text.rstrip("\N{MULTIPLICATION SIGN}") for text in browser.texts("#legend li")] == [
            "first, seed 3",
            "second, seed 4",
        ]
        keys = "#config-list tbody th"
        browser.until(lambda: browser.texts(keys) == ["name", "seed"])
        assert browser.text("#config summary .faint") == "2 of 4 keys differ"
        browser.driver.refresh()
        browser.until(lambda: any(told in one for one in chart_texts(browser)))
        browser.run("document.getElementById('config').open = true")
        browser.driver.find_element(By.ID, "differing").click()
        every = ["task", "name", "seed", "total_timesteps"]
        browser.until(lambda: browser.texts(keys) == every)
        browser.driver.find_element(By.ID, "differing").click()
        browser.until(lambda: browser.texts(keys) == ["name", "seed"])
        assert browser.complaints() == []


@pytest.mark.thorough
def test_curves_are_zoomed_smoothed_and_steered_by_keyboard(
    browser: Browser, two_runs: Path
) -> None:
    with served(two_runs) as site:
        browser.open(f"{site.url}/run?run={FIRST}")
        browser.until(lambda: browser.texts("[data-group='train'] h3") == ["train/loss"])
        browser.run("document.querySelector(\"[data-group='train']\").open = true")
        browser.until(lambda: pixels_of(browser, "train/loss") > 500)
        chart = next(
            one
            for one in browser.driver.find_elements(By.CSS_SELECTOR, ".chart")
            if one.get_attribute("aria-label") == "train/loss"
        )
        browser.run("arguments[0].scrollIntoView({block: 'center'})", chart)
        area = chart.find_element(By.CSS_SELECTOR, ".u-over")
        ActionChains(browser.driver).move_to_element_with_offset(area, -40, 0).click_and_hold(
        ).move_by_offset(60, 0).release().perform()  # fmt: skip
        told = "[aria-label='train/loss'] p.hidden"
        browser.until(lambda: "300 points" not in browser.text(told))
        chart.send_keys("0")
        browser.until(lambda: "300 points" in browser.text(told))
        chart.send_keys("+")
        browser.until(lambda: "300 points" not in browser.text(told))
        browser.driver.find_element(By.ID, "reset").send_keys(Keys.ENTER)
        browser.until(lambda: "300 points" in browser.text(told))
        browser.driver.find_element(By.ID, "smoothing").send_keys(Keys.END)
        browser.until(lambda: browser.text("#smoothing-value") == "0.99")
        Select(browser.driver.find_element(By.ID, "over")).select_by_value("seconds")
        browser.until(lambda: "from 2 to 600 seconds" in browser.text(told))
        assert browser.complaints() == []


@pytest.mark.thorough
def test_a_film_plays_and_can_be_wound(browser: Browser, two_runs: Path) -> None:
    frames = (np.full((64, 64, 3), number, np.uint8) for number in range(200))
    encode(frames, two_runs / FIRST / "media" / "worst.mp4", frames_per_second=25.0)
    with served(two_runs) as site:
        browser.open(f"{site.url}/run?run={FIRST}")
        browser.until(
            lambda: browser.run("return document.querySelector('video')?.readyState >= 1")
        )
        browser.driver.find_element(By.TAG_NAME, "video").send_keys(Keys.SPACE)
        browser.until(
            lambda: browser.run("return document.querySelector('video').currentTime > 0.3")
        )
        browser.run("document.querySelector('video').currentTime = 7")
        browser.until(
            lambda: browser.run("return document.querySelector('video').currentTime > 7.1")
        )
        assert browser.run("return document.querySelector('video').error") is None
        assert browser.complaints() == []


@pytest.mark.thorough
def test_colors_change_and_the_page_can_be_used_without_a_mouse(
    browser: Browser, two_runs: Path
) -> None:
    with served(two_runs) as site:
        browser.open(site.url)
        browser.until(lambda: len(browser.texts("#rows tr")) == 2)
        before = browser.run("return getComputedStyle(document.body).backgroundColor")
        browser.driver.find_element(By.ID, "theme").send_keys(Keys.ENTER)
        assert browser.run("return getComputedStyle(document.body).backgroundColor") != before
        body = browser.driver.find_element(By.TAG_NAME, "body")
        body.send_keys("/")
        browser.driver.switch_to.active_element.send_keys("second")
        browser.until(lambda: browser.texts("#rows .run-name") == ["second"])
        nameless = browser.run(
            """
            return [...document.querySelectorAll("button, a, input, select")]
              .filter((one) => !one.textContent.trim() && !one.getAttribute("aria-label")
                && !one.labels?.length).length;
            """
        )
        assert nameless == 0
        browser.driver.find_element(By.ID, "theme").send_keys(Keys.ENTER)


@pytest.mark.thorough
def test_a_restarted_server_is_found_again(browser: Browser, two_runs: Path) -> None:
    with served(two_runs) as site:
        browser.open(f"{site.url}/run?run={FIRST}")
        browser.until(lambda: any("300 points" in one for one in chart_texts(browser)))
    browser.until(lambda: "does not answer" in browser.text("#connection"))
    with (two_runs / FIRST / "metrics.jsonl").open("ab") as log:
        log.write(lines(metric_row(number) for number in range(301, 331)))
    with served(two_runs, port=site.port):
        browser.until(lambda: browser.text("#connection") == "live")
        browser.until(lambda: any("330 points" in one for one in chart_texts(browser)))


@pytest.mark.thorough
def test_a_training_is_shown_live_and_so_is_its_death(browser: Browser, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "longhaul", "train", "gym:CartPole-v1", "--name", "alive", "--quiet",
        "--total-timesteps", "9000000", "--runs-root", str(tmp_path), "--no-report",
    ]  # fmt: skip
    with (
        served(tmp_path) as site,
        subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as trainer,
    ):
        try:
            browser.open(site.url)
            browser.until(lambda: browser.texts("#rows .badge") == ["running"])
            browser.driver.find_element(By.LINK_TEXT, "alive").click()
            first = browser.until(lambda: shown_steps(browser))
            browser.until(lambda: shown_steps(browser) > first)
            browser.until(lambda: pixels_of(browser, "rollout/ep_rew") > 500)
            assert re.fullmatch(r"\d+ %", browser.text("#facts [data-share] dd:nth-of-type(1)"))
            browser.until(lambda: browser.text("#facts [data-share] .fact-note").endswith(" left"))
            trainer.send_signal(signal.SIGKILL)
            trainer.wait()
            browser.until(lambda: browser.text("#status") == "crashed")
            assert "can be resumed" in browser.text("#words")
            assert any("points" in one for one in chart_texts(browser))
            assert browser.complaints() == []
        finally:
            trainer.kill()


def shown_steps(browser: Browser) -> int:
    """Return the last step that the chart of the return tells of."""
    told = browser.text("[aria-label='rollout/ep_rew'] p.hidden")
    _, _, rest = told.partition(" points from ")
    words = rest.partition(" to ")[2].partition(" steps")[0].replace(" k", "e3").replace(" M", "e6")
    return int(float(words)) if words else 0

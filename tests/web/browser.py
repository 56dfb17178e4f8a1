"""A real Chromium, driven from tests; they skip with the reason where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
PATIENCE = 120.0
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--mute-audio",
    "--no-first-run",
    "--window-size=1360,1000",
)


def missing() -> str:
    """Return why there is no browser, or nothing."""
    if not any(map(shutil.which, CHROMIUM)):
        return "Chromium is not installed (apt install chromium)"
    if not shutil.which("chromedriver"):
        return "chromedriver is not installed (apt install chromium-driver)"
    return ""


class Browser:
    """One window, and what its console said."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Show a page; what the one before complained of, its server gone, is forgotten."""
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(url)

    def resize(self, width: int, height: int = 900) -> None:
        """Show pages as a screen of this size does; a narrow one is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        found = self.run(
            "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)",
            selector,
        )
        return list(found)

    def text(self, selector: str) -> str:
        return "".join(self.texts(selector))

    def until(self, seen: Callable[[], T]) -> T:
        """Return what `seen` finds as soon as it finds anything."""
        return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.1).until(lambda _: seen())

    def complaints(self) -> list[str]:
        """Return what the console says of errors and of the content security policy."""
        return [
            str(entry["message"])
            for entry in self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # selenium declares no types here
            if entry["level"] == "SEVERE"
        ]


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """Open a browser whose profile is in `folder`."""
    if reason := missing():
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, CHROMIUM)))
    flags = [*FLAGS, f"--user-data-dir={folder}"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium's own sandbox cannot be set up by root
    for flag in flags:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()

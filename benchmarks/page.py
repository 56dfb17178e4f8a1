"""Measures the live page on many runs and many rows: first paint, longest freeze, memory.

Run it by hand from the repository's folder: `python -m benchmarks.page`. It makes the runs in a
folder that is removed afterwards, starts `longhaul serve` as users do, and drives a real Chromium.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import psutil
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from tests.web.browser import Browser, opened

from longhaul.app.build.text import columns
from longhaul.runs.directory import RunDirectory, Status, begin_record, create_run, write_status

METRICS = [
    f"{group}/measure_{number}"
    for group in ("train", "env", "policy", "reward")
    for number in range(5)
]
RECORDER = """
  window.seen = { longest: 0, rows: 0, curve: 0 };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) seen.longest = Math.max(seen.longest, entry.duration);
  }).observe({ type: "longtask", buffered: true });
  new MutationObserver(() => {
    if (!seen.rows && document.querySelector("#rows tr")) seen.rows = performance.now();
    if (!seen.curve && document.querySelector(".chart canvas")) seen.curve = performance.now();
  }).observe(document, { childList: true, subtree: true });
"""


def make_run(root: Path, seed: int, rows: int) -> RunDirectory:
    """Return a finished run with as many rows."""
    draw = random.Random(seed)
    record = begin_record(
        "gym:CartPole-v1", f"bench-{seed}", seed, now=datetime.now(UTC), command=["longhaul"]
    )
    run = create_run(root, record, f'task = "gym:CartPole-v1"\nseed = {seed}\n')
    encode = msgspec.json.Encoder().encode
    with run.metrics.open("wb") as metrics, run.timings.open("wb") as timings:
        for number in range(1, rows + 1):
            row: dict[str, float] = {
                "iteration": number, "env_steps": number * 2048, "episodes": number * 10,
                "rollout/ep_rew_mean": math.sqrt(number) + draw.random(),
            }  # fmt: skip
            row |= {name: draw.random() for name in METRICS}
            if number % 50 == 0:
                row["eval/mean_reward"] = math.sqrt(number)
            metrics.write(encode(row) + b"\n")
            timings.write(
                encode({"iteration": number, "time/fps": 1000.0, "time/iteration_seconds": 2.0})
                + b"\n"
            )
    run.events.touch()
    run.sessions.touch()
    write_status(run.record, Status.FINISHED, "total_timesteps reached")
    return run


@contextmanager
def serving(root: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the address and the process of a page that has just been started."""
    command = [sys.executable, "-m", "longhaul", "serve", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://\S+", process.stdout.readline())
            assert address is not None
            yield address.group().rstrip("/"), psutil.Process(process.pid)
        finally:
            process.terminate()


def first_paint(browser: Browser) -> float:
    """Return when the page first showed anything, in milliseconds."""
    script = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    return float(browser.until(lambda: browser.run(script)))


def peak_megabytes(process: psutil.Process) -> float:
    """Return the most memory a process ever had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def look_at_list(browser: Browser, url: str, count: int) -> list[tuple[str, str]]:
    """Open the list of a server that has read nothing yet, and use it."""
    began = time.monotonic()
    browser.open(url)
    browser.until(lambda: browser.run("return seen.rows"))
    found = [
        ("list: first paint", f"{first_paint(browser):.0f} ms"),
        ("list: first row", f"{browser.run('return seen.rows'):.0f} ms"),
    ]
    browser.until(lambda: len(browser.texts("#rows .spark path")) == count)
    found.append(("list: all courses drawn", f"{time.monotonic() - began:.1f} s after opening"))
    for letters in ("b", "e", "n", "c", "h"):
        browser.driver.find_element(By.ID, "filter").send_keys(letters)
    for place in range(10):
        browser.run("document.querySelectorAll('#head button')[arguments[0]].click()", place)
    found.append(("list: longest freeze", f"{browser.run('return seen.longest'):.0f} ms"))
    return found


def look_at_run(browser: Browser, url: str, names: list[str], rows: int) -> list[tuple[str, str]]:
    """Open a run, zoom, smooth and overlay."""
    began = time.monotonic()
    browser.open(f"{url}/run?run={names[0]}")
    browser.until(lambda: browser.run("return seen.curve"))
    found = [
        ("run: first paint", f"{first_paint(browser):.0f} ms"),
        ("run: first curve", f"{browser.run('return seen.curve'):.0f} ms"),
    ]
    reading = "[aria-label='rollout/ep_rew_mean'] p.hidden"
    end = f"last {figure(math.sqrt(rows))}"
    browser.until(lambda: browser.text("#reading") == "" and end in browser.text(reading))
    found.append(("run: read to its end", f"{time.monotonic() - began:.1f} s after opening"))
    chart = browser.driver.find_element(By.CSS_SELECTOR, "[aria-label='rollout/ep_rew_mean']")
    began = time.monotonic()
    before = browser.text(reading)
    chart.send_keys("++++++")
    browser.until(lambda: browser.text(reading) != before)
    found.append(("run: zoomed in 64 times", f"{1000 * (time.monotonic() - began):.0f} ms"))
    chart.send_keys("0")
    browser.driver.find_element(By.ID, "smoothing").send_keys(Keys.ARROW_RIGHT * 30)
    for name in names[1:4]:
        browser.until(lambda: len(browser.texts("#overlay option")) > 1)
        Select(browser.driver.find_element(By.ID, "overlay")).select_by_value(name)
    if len(names) > 1:
        browser.until(lambda: browser.text(reading).count("points") == min(len(names), 4))
    found.append(("run: longest freeze", f"{browser.run('return seen.longest'):.0f} ms"))
    return found


def figure(value: float) -> str:
    """Return the beginning of a number, as far as noise leaves it."""
    return str(int(value))[:1]


def measure(runs: int, rows: int) -> list[tuple[str, str]]:
    """Return what was measured on so many runs with so many rows together."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        made = [make_run(root, seed, rows // runs) for seed in range(runs)]
        size = sum(file.stat().st_size for file in root.rglob("*.jsonl"))
        names = [f"{run.path.parent.name}/{run.path.name}" for run in made]
        with opened(Path(folder) / "profile") as browser, serving(root) as (url, process):
            browser.driver.execute_cdp_cmd(
                "Page.addScriptToEvaluateOnNewDocument", {"source": RECORDER}
            )
            found = [("logs", f"{size / 2**20:.0f} MiB in {runs} runs, {rows:,} rows")]
            found += look_at_list(browser, url, runs)
            found += look_at_run(browser, url, names, rows // runs)
            for name in names[:40]:
                browser.run("return fetch('/api/run?run=' + arguments[0]).then(a => a.ok)", name)
            found.append(("server: most memory", f"{peak_megabytes(process):.0f} MiB"))
            found.append(("server: processor time", f"{sum(process.cpu_times()[:2]):.1f} s"))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of all runs together")
    arguments = parser.parse_args()
    sys.stdout.write(columns(measure(arguments.runs, arguments.rows), header=("what", "figure")))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()

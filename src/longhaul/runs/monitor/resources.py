"""The memory and processors a run takes: one sampler, no child processes, looked at in passing."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import psutil

from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.core.metrics import Metric, Metrics
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import LogWriter, encode_row

WINDOW = 100
"""Looks that means are taken over."""

METRICS = (
    Metric("mem/rss", "resident memory of the trainer", "bytes"),
    Metric("mem/uss", "memory of the trainer that no other process shares", "bytes"),
    Metric("mem/workers_rss", "resident memory of all its processes together", "bytes"),
    Metric("mem/workers_uss", "memory of those processes that no other shares", "bytes"),
    Metric("mem/worker_rss_max", "resident memory of the largest of those processes", "bytes"),
    Metric("mem/system_percent", "memory of the machine in use", "%"),
    Metric("mem/processes", "live processes of the trainer"),
    Metric("cpu/trainer_percent", "processor time of the trainer; 100 is one core", "%"),
    Metric("cpu/workers_percent", "processor time of all its processes; 100 is one core", "%"),
    Metric("cpu/system_percent", "how busy all cores of the machine are", "%"),
    Metric("cpu/trainer_percent_mean", "mean of the last 100 measurements of the trainer", "%"),
    Metric("gpu/count", "graphics cards, where nvidia-ml-py finds any"),
    Metric("gpu/<number>_percent", "how busy a card is", "%"),
    Metric("gpu/<number>_percent_mean", "mean of the last 100 measurements of it", "%"),
    Metric("gpu/<number>_memory", "memory of a card in use", "bytes"),
    Metric("gpu/<number>_memory_total", "memory of a card", "bytes"),
    Metric("gpu/<number>_allocated", "memory torch has taken on a card for tensors", "bytes"),
    Metric("gpu/<number>_reserved", "memory torch keeps on a card", "bytes"),
)
"""Columns of timings.jsonl."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What one process takes."""

    pid: int
    name: str
    rss: int
    uss: int
    cpu_percent: float


class Cards(Protocol):
    """The graphics cards of the machine."""

    def look(self) -> list[dict[str, float]]:
        """Return what each card is doing, by the ends of its metrics' names."""


class NoCards:
    """A machine without graphics cards, or without the package that knows them."""

    def look(self) -> list[dict[str, float]]:
        """Return nothing."""
        return []


class NvidiaCards:
    """Cards as NVIDIA's library knows them; `library` is the module `pynvml`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        self._handles = [library.nvmlDeviceGetHandleByIndex(number) for number in range(count)]

    def look(self) -> list[dict[str, float]]:
        """Return the load and memory of each card."""
        found = []
        for handle in self._handles:
            memory = self._library.nvmlDeviceGetMemoryInfo(handle)
            rates = self._library.nvmlDeviceGetUtilizationRates(handle)
            found.append(
                {
                    "percent": float(rates.gpu),
                    "memory": float(memory.used),
                    "memory_total": float(memory.total),
                }
            )
        return found


def find_cards() -> Cards:
    """Return the machine's cards, none if the extra `gpu` is not installed or finds nothing."""
    try:
        import pynvml

        return NvidiaCards(pynvml)
    except Exception:  # noqa: BLE001 - a driver may be absent in as many ways as it likes
        return NoCards()


class ResourceSampler:
    """Looks every few seconds from a thread; keeps every look in a log and the last for metrics."""

    def __init__(
        self,
        log: Path,
        clocks: Clocks,
        *,
        every_seconds: float,
        cards: Cards | None = None,
        extra: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._log_path = log
        self._clocks = clocks
        self._every = every_seconds
        self._cards = cards if cards is not None else find_cards()
        self._extra = extra
        self._trainer = psutil.Process()
        self._known: dict[int, psutil.Process] = {}
        self._windows: dict[str, deque[float]] = {}
        self._news: Metrics = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._log: LogWriter | None = None

    def take(self) -> Metrics:
        """Return the last look once; nothing until there is another."""
        news, self._news = self._news, {}
        return news

    def look(self) -> None:
        """Look once, now."""
        trainer = self._use(self._trainer)
        workers = [use for child in self._children() if (use := self._use(child)) is not None]
        cards = self._cards.look()
        if trainer is None:
            return
        metrics = {
            **use_metrics(trainer, workers),
            "mem/system_percent": float(psutil.virtual_memory().percent),
            "cpu/system_percent": float(psutil.cpu_percent(None)),
            **card_metrics(cards),
            **self._extra(),
        }
        self._news = {**metrics, **self._means(metrics)}
        self._write([trainer, *workers], metrics)

    def __enter__(self) -> ResourceSampler:
        if self._every > 0:
            self._thread = threading.Thread(target=self._work, name="resources", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._log is not None:
            self._log.close()

    def _work(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self.look()
            except (psutil.Error, LonghaulError, OSError):
                continue  # a run must not end over it

    def _children(self) -> list[psutil.Process]:
        """Return the trainer's processes; the same objects again, as their shares need a past."""
        present = {child.pid: child for child in self._trainer.children(recursive=True)}
        self._known = {pid: self._known.get(pid, child) for pid, child in present.items()}
        return list(self._known.values())

    def _use(self, process: psutil.Process) -> ProcessUse | None:
        try:
            with process.oneshot():
                memory = process.memory_full_info()
                return ProcessUse(
                    process.pid,
                    process.name(),
                    int(memory.rss),
                    int(memory.uss),
                    float(process.cpu_percent(None)),
                )
        except psutil.Error:
            return None  # it has just ended

    def _means(self, metrics: Metrics) -> dict[str, float]:
        means = {}
        for name, value in metrics.items():
            is_card = name.startswith("gpu/") and name.endswith("_percent")
            if is_card or name == "cpu/trainer_percent":
                window = self._windows.setdefault(name, deque(maxlen=WINDOW))
                window.append(value)
                means[f"{name}_mean"] = sum(window) / len(window)
        return means

    def _write(self, processes: Sequence[ProcessUse], metrics: Metrics) -> None:
        if self._log is None:
            self._log = LogWriter(self._log_path)
        row = {
            "time": self._clocks.stamp(),
            "processes": [asdict(one) for one in processes],
            **{
                name: value for name, value in metrics.items() if name.startswith(("gpu/", "cpu/s"))
            },
        }
        self._log.append(encode_row(row))
        self._log.flush()


def use_metrics(trainer: ProcessUse, workers: Sequence[ProcessUse]) -> dict[str, float]:
    """Return what the trainer takes, and its processes together."""
    found = {
        "mem/rss": float(trainer.rss),
        "mem/uss": float(trainer.uss),
        "cpu/trainer_percent": trainer.cpu_percent,
        "mem/processes": float(len(workers)),
    }
    if workers:
        found |= {
            "mem/workers_rss": float(sum(one.rss for one in workers)),
            "mem/workers_uss": float(sum(one.uss for one in workers)),
            "mem/worker_rss_max": float(max(one.rss for one in workers)),
            "cpu/workers_percent": sum(one.cpu_percent for one in workers),
        }
    return found


def card_metrics(cards: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of all cards."""
    if not cards:
        return {}
    found = {"gpu/count": float(len(cards))}
    for number, card in enumerate(cards):
        found |= {f"gpu/{number}_{name}": value for name, value in card.items()}
    return found


@dataclass(frozen=True, slots=True)
class WatchConfig:
    """Settings of the `[watch]` table: heartbeat, stalls and slow steps."""

    enabled: bool = True
    """Watch from a thread of its own; stacks of a run that is stuck go into `crash/`."""
    heartbeat_seconds: float = 2.0
    """Time between two versions of heartbeat.json; 0 writes one at the beginning and the end."""
    least_seconds: float = 30.0
    """A run counts as stuck after `factor` times the longest silence so far, but never before this
    time."""
    first_seconds: float = 600.0
    """The same for a stage that was not gone through yet, which may compile and fill caches."""
    factor: float = 10.0
    """How many times the longest silence so far is too long."""
    slow_step_seconds: float = 1.0
    """A step of the environments is slow after `slow_factor` times the usual time, but never
    before this time."""
    slow_factor: float = 20.0
    """How many times the usual time of a step is slow."""
    slow_steps: int = 5
    """Slow steps within `slow_window_seconds` after which their stacks are written down."""
    slow_window_seconds: float = 120.0
    """They are written at most once within this time."""

    def __post_init__(self) -> None:
        for name, value, low in (
            ("heartbeat_seconds", self.heartbeat_seconds, 0),
            ("least_seconds", self.least_seconds, 0),
            ("first_seconds", self.first_seconds, 0),
            ("factor", self.factor, 1),
            ("slow_step_seconds", self.slow_step_seconds, 0),
            ("slow_factor", self.slow_factor, 1),
            ("slow_steps", self.slow_steps, 1),
            ("slow_window_seconds", self.slow_window_seconds, 0),
        ):
            if not value >= low:
                raise ConfigError(f"watch.{name} = {value!r} must be at least {low}")

"""Memory, CPU and GPU use of a run, sampled from a thread; and the `[watch]` config."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, Ranges, check_ranges
from longhaul.core.errors import LonghaulError
from longhaul.core.metrics import Metric, Metrics
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import LogWriter, encode_row
from longhaul.runs.monitor.heartbeat import Background

WINDOW = 100
"""Samples in a running mean."""

METRICS = (
    Metric("mem/rss", "resident memory of the trainer", "bytes"),
    Metric("mem/uss", "memory of the trainer that no other process shares", "bytes"),
    Metric("mem/workers_rss", "resident memory of all worker processes together", "bytes"),
    Metric(
        "mem/workers_uss", "memory of the worker processes that no other process shares", "bytes"
    ),
    Metric("mem/worker_rss_max", "resident memory of the largest worker process", "bytes"),
    Metric("mem/system_percent", "memory of the machine in use", "%"),
    Metric("mem/processes", "live processes of the trainer"),
    Metric("cpu/trainer_percent", "processor time of the trainer; 100 is one core", "%"),
    Metric("cpu/workers_percent", "processor time of all worker processes; 100 is one core", "%"),
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
    """Memory and CPU use of one process."""

    pid: int
    name: str
    rss: int
    uss: int | None
    """None where the system shows it only to root, as macOS does."""
    cpu_percent: float


class Cards(Protocol):
    """The GPUs of the machine."""

    def look(self) -> list[dict[str, float]]:
        """Return load and memory of each card, by the last part of the metric's name."""


class NoCards:
    """A machine without GPUs, or without the package that reads them."""

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
    except Exception:  # noqa: BLE001 - drivers fail in many ways
        return NoCards()


class ResourceSampler:
    """Samples every few seconds from a thread; logs every sample and keeps the last for metrics."""

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
        self._thread = Background("resources", every_seconds, self._look_safely)
        self._log: LogWriter | None = None

    def take(self) -> Metrics:
        """Return the last sample once; empty until there is a new one."""
        news, self._news = self._news, {}
        return news

    def look(self) -> None:
        """Take a sample now."""
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
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()
        if self._log is not None:
            self._log.close()

    def _look_safely(self) -> None:
        with suppress(psutil.Error, LonghaulError, OSError):  # a failed look must not end the run
            self.look()

    def _children(self) -> list[psutil.Process]:
        """Return the trainer's processes; the same objects each time, for psutil's CPU shares."""
        present = {child.pid: child for child in self._trainer.children(recursive=True)}
        self._known = {pid: self._known.get(pid, child) for pid, child in present.items()}
        return list(self._known.values())

    def _use(self, process: psutil.Process) -> ProcessUse | None:
        try:
            with process.oneshot():
                memory, uss = process.memory_info(), None
                with suppress(psutil.AccessDenied):
                    uss = int(process.memory_full_info().uss)
                return ProcessUse(
                    process.pid,
                    process.name(),
                    int(memory.rss),
                    uss,
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
    """Return the use of the trainer, and of its processes together."""
    found = {
        "mem/rss": float(trainer.rss),
        "cpu/trainer_percent": trainer.cpu_percent,
        "mem/processes": float(len(workers)),
    }
    if workers:
        found |= {
            "mem/workers_rss": float(sum(one.rss for one in workers)),
            "mem/worker_rss_max": float(max(one.rss for one in workers)),
            "cpu/workers_percent": sum(one.cpu_percent for one in workers),
        }
    if trainer.uss is not None:
        found["mem/uss"] = float(trainer.uss)
    private = [one.uss for one in workers if one.uss is not None]
    if private:
        found["mem/workers_uss"] = float(sum(private))
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
    """Watch for stalls from a separate thread; stacks of a stuck run are written to `crash/`."""
    heartbeat_seconds: float = 2.0
    """Time between two updates of heartbeat.json; 0 writes it only at the start and the end."""
    least_seconds: float = 30.0
    """A run counts as stuck after `factor` times the longest silence so far, but never before this
    time."""
    first_seconds: float = 600.0
    """The same for a stage that has not completed yet, which may compile code and fill caches."""
    factor: float = 10.0
    """Multiple of the longest silence so far that counts as stuck."""
    slow_step_seconds: float = 1.0
    """A step of the environments is slow after `slow_factor` times the usual time, but never
    before this time."""
    slow_factor: float = 20.0
    """Multiple of the usual step time that counts as slow."""
    slow_steps: int = 5
    """Slow steps within `slow_window_seconds` after which their stacks are written."""
    slow_window_seconds: float = 120.0
    """Stacks of slow steps are written at most once within this time."""

    def __post_init__(self) -> None:
        check_ranges(self, "watch", _RANGES)


_RANGES: Ranges = {
    AT_LEAST_0: "heartbeat_seconds least_seconds first_seconds slow_step_seconds "
    "slow_window_seconds",
    AT_LEAST_1: "factor slow_factor slow_steps",
}

"""A session: one process that trains a run while it holds the run's lock."""

from __future__ import annotations

import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

import torch

from longhaul.app.build.components import run_end
from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.env_output import env_output
from longhaul.app.build.faults import keeping_tracebacks
from longhaul.app.build.memory import choose_device, fix_torch, is_out_of_memory
from longhaul.app.build.sources import read_toml, to_values
from longhaul.app.evaluation.load import Run
from longhaul.app.session.display import Display, choose_display
from longhaul.app.session.monitoring import Monitoring, torch_memory
from longhaul.core.errors import LonghaulError, MemoryShortageError, ResourceError
from longhaul.core.task import Task
from longhaul.engine.stop import Outcome, Until, first_of, is_end
from longhaul.envs.guard import FOLDER
from longhaul.runs.checkpoints.inspect import check_checkpoints
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.logs.jsonl import SessionLog
from longhaul.runs.monitor.resources import ResourceSampler
from longhaul.runs.signals import SignalRequests, Stopped
from longhaul.runs.toml import write_toml

AT_ONCE = "stopped at once by a second SIGINT"
OUT_OF_MEMORY = "out of memory; lower num_envs, collect.num_steps or the size of the network"


class Session:
    """Owns lock, logs, monitoring, display and signals of a run.

    A request to stop ends it without an error; any other early end is recorded as a failure.
    """

    display: Display
    monitoring: Monitoring
    signals: SignalRequests
    lock: RunLock
    log: SessionLog
    device: torch.device
    stack: ExitStack
    """Closes what is opened inside the session, before the lock is released."""

    def __init__(
        self,
        directory: RunDirectory,
        config: RunConfig,
        options: SessionOptions,
        task: Task | None = None,
    ) -> None:
        self.run = Run(directory, config=config, task=task)
        self.options = options
        self.reason = ""

    def __enter__(self) -> Session:
        directory, config, options = self.run.directory, self.run.config, self.options
        with ExitStack() as stack:
            stack.enter_context(env_output(directory.path / FOLDER, "trainer"))
            stack.enter_context(keeping_tracebacks(directory.crash))
            check_checkpoints(directory)
            self.display = choose_display(as_json=options.as_json, quiet=options.quiet)
            self.monitoring = Monitoring(directory, config.watch, Clocks(), self.display)
            self.signals = stack.enter_context(SignalRequests())
            fix_torch(threads=config.threads, deterministic=config.deterministic)
            fallback: list[str] = []
            self.device = choose_device(
                config.device, require_gpu=options.require_gpu, notify=fallback.append
            )
            self.fallback = tuple(fallback)
            stack.callback(self._show_how_to_continue)
            clocks = self.monitoring.clocks
            self.lock = stack.enter_context(RunLock(directory.lock, clocks))
            self.log = SessionLog(directory, clocks)
            stack.callback(self.log.close)
            self.stack = stack.enter_context(ExitStack())
            self.stack.enter_context(self.monitoring.heartbeat)
            self._everything = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Stopped):
            self.reason = str(error)
            self._everything.close()
            return True
        self._everything.__exit__(kind, error, trace)
        return False

    @property
    def outcome(self) -> Outcome:
        """How the session ended."""
        return Outcome(self.reason, 0 if is_end(self.reason) else self.signals.exit_code)

    def sample_resources(self) -> None:
        """Sample memory and load until the session ends."""
        sampler = ResourceSampler(
            self.run.directory.resources,
            self.monitoring.clocks,
            every_seconds=self.run.config.log.resource_seconds,
            extra=torch_memory,
        )
        self.monitoring.timer.add_gauge(self.stack.enter_context(sampler).take)

    def until(self, also: Until | None) -> Until:
        """Return the stop condition: the run's end, a signal, or `also`."""
        return first_of(
            lambda progress: self.signals.stop_reason,
            run_end(self.run.config),
            *([also] if also is not None else []),
        )

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Run a stage that can be repeated from its start: a signal ends it immediately."""
        with self.recording_failures(), self.signals.ending_at_once(name):
            yield

    @contextmanager
    def recording_failures(self, rescue: Callable[[], str] | None = None) -> Iterator[None]:
        """Record status and reason if the inside raises; `rescue` saves what is sound first."""
        directory = self.run.directory
        try:
            yield
        except LonghaulError as error:
            self._rescue(rescue, error)
            self.log.finish(Status.FAILED, str(error))
            raise
        except Stopped as stop:
            self.log.finish(Status.STOPPED, str(stop))
            raise
        except KeyboardInterrupt:
            self.log.finish(Status.STOPPED, AT_ONCE)
            self.display.notice(
                f"{AT_ONCE}; `longhaul resume {directory.path}` continues from the last checkpoint"
            )
            raise
        except Exception as error:
            if is_out_of_memory(error):
                self.log.finish(Status.FAILED, "out of memory")
                raise MemoryShortageError(OUT_OF_MEMORY) from error
            self._rescue(rescue, error)
            self.log.finish(Status.FAILED, repr(error))
            directory.crash.mkdir(exist_ok=True)
            (directory.crash / "traceback.txt").write_text(traceback.format_exc())
            raise

    def _rescue(self, rescue: Callable[[], str] | None, error: Exception) -> None:
        """Save the last sound state; a full disk or memory leaves no room for it."""
        if rescue is None or isinstance(error, ResourceError):
            return
        try:
            saved = rescue()
        except (LonghaulError, OSError) as failure:
            saved = f"no checkpoint was written: {failure}"
        self.display.notice(saved)

    def _show_how_to_continue(self) -> None:
        if self.reason and not is_end(self.reason):
            self.display.notice(
                f"{self.reason}; `longhaul resume {self.run.path}` continues this run"
            )


def keep_config(run: Run) -> None:
    """Store values that changed on resume in config.toml, for the next session."""
    text = write_toml(to_values(run.config))
    if tomllib.loads(text) != read_toml(run.directory.config):
        with storage_errors(run.directory.config):
            replace_file(run.directory.config, text.encode())

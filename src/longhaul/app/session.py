"""One process's share of a run: from taking the lock to the exit code."""

from __future__ import annotations

import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from longhaul.app.assemble import Assembled, Place, assemble, planned_steps, run_end
from longhaul.app.config import RunConfig
from longhaul.app.configure import read_toml, to_values
from longhaul.app.device import choose_device, fix_torch
from longhaul.app.disk_room import check_disk_room
from longhaul.app.display import Display, choose_display
from longhaul.app.env_output import apart_from_envs
from longhaul.app.final_evaluation import FINAL_EVALUATION, FinalEvaluation
from longhaul.app.finish import leave_media, leave_report, note
from longhaul.app.first_weights import begin_with
from longhaul.app.gauges import TimeLeft, torch_memory
from longhaul.app.metrics import schema_file, unmeasured_metrics
from longhaul.app.records import RecordsSink
from longhaul.app.report import keep_panels
from longhaul.app.rushes import Rushes
from longhaul.app.track import Tracking, begin_tracking
from longhaul.app.vigil import Vigil
from longhaul.cluster.team import LeadingLearner
from longhaul.core.errors import LonghaulError, ResourceError
from longhaul.core.progress import Progress
from longhaul.core.spaces import Tier
from longhaul.engine.loop import train
from longhaul.engine.stop import DONE, Until, first_of
from longhaul.envs.replay_log import resume_promise
from longhaul.runs.clocks import Clocks
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import RunLock
from longhaul.runs.lost import check_checkpoints
from longhaul.runs.record import Status, write_status
from longhaul.runs.recorder import Restoration
from longhaul.runs.resources import ResourceSampler
from longhaul.runs.schema import write_schema
from longhaul.runs.signals import SignalRequests, Stopped
from longhaul.runs.toml import write_toml

Finish = Callable[[Status, str], None]
AT_ONCE = "stopped at once by a second SIGINT"
OUT_OF_MEMORY = "out of memory; lower num_envs, collect.steps or the size of the network"


@dataclass(frozen=True, slots=True)
class Asked:
    """How the user wants a run to be carried out."""

    as_json: bool = False
    quiet: bool = False
    require_gpu: bool = False
    report: bool = False
    """Whether a finished run leaves films, plots and a report behind, as its config says."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """One process's share of a run, for as long as it holds the run's lock."""

    run: RunDirectory
    config: RunConfig
    asked: Asked
    display: Display
    signals: SignalRequests
    vigil: Vigil

    @contextmanager
    def stage(self, name: str, finish: Finish) -> Iterator[None]:
        """Do inside what can be done again from its beginning: a signal ends it at once."""
        with self.written_down(finish), self.signals.ending_at_once(name):
            yield

    @contextmanager
    def written_down(self, finish: Finish) -> Iterator[None]:
        """Write down why, if what is inside does not come to its end."""
        try:
            yield
        except LonghaulError as error:
            finish(Status.FAILED, str(error))
            raise
        except Stopped as stop:
            finish(Status.STOPPED, str(stop))
            raise
        except KeyboardInterrupt:
            finish(Status.STOPPED, AT_ONCE)
            self.display.notice(
                f"{AT_ONCE}; `longhaul resume {self.run.path}` continues from the last checkpoint"
            )
            raise
        except MemoryError as error:
            finish(Status.FAILED, "out of memory")
            raise ResourceError(OUT_OF_MEMORY) from error
        except Exception as error:
            finish(Status.FAILED, repr(error))
            self.run.crash.mkdir(exist_ok=True)
            (self.run.crash / "traceback.txt").write_text(traceback.format_exc())
            raise


@apart_from_envs("trainer")
def carry_out(
    run: RunDirectory, config: RunConfig, asked: Asked, *, also_until: Until | None = None
) -> int:
    """Take the run to its end, report included, or until it is stopped; return the exit code."""
    check_checkpoints(run)
    display = choose_display(as_json=asked.as_json, quiet=asked.quiet)
    vigil = Vigil(run, config.watch, Clocks(), display)
    with SignalRequests() as signals:
        fix_torch(threads=config.threads, deterministic=config.deterministic)
        device = choose_device(config.device, require_gpu=asked.require_gpu, tell=display.notice)
        with RunLock(run.lock, vigil.clocks) as lock, ExitStack() as stack:
            sitting = Sitting(run, config, asked, display, signals, vigil)
            try:
                reason = go_through(sitting, Ground(lock, device, stack), also_until)
            except Stopped as stop:
                reason = str(stop)
        if reason in DONE:
            return 0
        display.notice(f"{reason}; `longhaul resume {run.path}` continues this run")
        return signals.exit_code


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run is put together on."""

    lock: RunLock
    device: torch.device
    stack: ExitStack
    """Ends what is begun."""


def go_through(sitting: Sitting, ground: Ground, also_until: Until | None) -> str:
    """Set up, train, measure and report; return the reason for stopping."""
    with sitting.stage("set-up", partial(end_early, sitting.run)):
        ready = get_ready(sitting, ground)
    recorder = ready.assembled.parts.recorder
    with ready.training, sitting.written_down(recorder.finish):
        reason = train_on(sitting, ready, also_until)
        if reason not in DONE:
            recorder.finish(Status.STOPPED, reason)
    if reason in DONE:
        conclude(sitting, ready, reason)
    return reason


@dataclass(frozen=True, slots=True)
class Ready:
    """A run that can be trained, and those who follow it."""

    assembled: Assembled
    tracking: Tracking
    training: ExitStack
    """Ends what only training needs: environments and helping learners."""


def get_ready(sitting: Sitting, ground: Ground) -> Ready:
    """Put the run together."""
    run, config, display, vigil = sitting.run, sitting.config, sitting.display, sitting.vigil
    stack = ground.stack
    stack.enter_context(vigil.heartbeat)
    place = Place(
        directory=run,
        lock=ground.lock,
        clocks=vigil.clocks,
        sinks=(display, vigil),
        watch=vigil.watch,
        tell=display.notice,
        prepare=partial(begin_with, config, run, display.notice),
        hint=display.hint,
        workforce=vigil.workforce,
        pulse=vigil.pulse,
    )
    keep_config(run, config)
    every = config.log.resource_seconds
    sampler = ResourceSampler(run.resources, vigil.clocks, every_seconds=every, extra=torch_memory)
    place.watch.add_gauge(stack.enter_context(sampler).take)
    assembled = assemble(config, place, ground.device)
    parts = assembled.parts
    training = stack.enter_context(ExitStack())
    training.callback(parts.collector.close)
    if isinstance(parts.learner, LeadingLearner):
        training.callback(parts.learner.close)
    check_disk_room(run.path, config, assembled.task)
    keep_panels(run, assembled.task, assembled.settings)
    write_schema(run, schema_file(assembled.task))
    tracking = follow(run, config, assembled, place, stack)
    vigil.guard(stack, parts.recorder)
    sitting.signals.on_checkpoint = parts.recorder.request
    stack.callback(display.close)
    display.begin(
        f"{config.task}  {run.path}",
        total=planned_steps(config, assembled.task),
        score=assembled.task.evaluation.metric,
    )
    return Ready(assembled, tracking, training)


def follow(
    run: RunDirectory, config: RunConfig, assembled: Assembled, place: Place, stack: ExitStack
) -> Tracking:
    """Let everybody who makes something of the metrics follow the run, until the stack unwinds."""
    recorder = assembled.parts.recorder
    tracking = begin_tracking(run, config, assembled, place.clocks)
    if config.report.film_evaluations:
        recorder.add_sink(Rushes(run, config, assembled, place.tell, tracking.film))
    stack.callback(recorder.close)
    stack.callback(tracking.finish, recorder, place.tell)
    if assembled.task.records is not None:
        recorder.add_sink(RecordsSink(run, config, assembled.task, place.clocks))
    return tracking


def train_on(sitting: Sitting, ready: Ready, also_until: Until | None) -> str:
    """Train until the run is over or a signal asks to stop; return which it was."""
    config, assembled, signals = sitting.config, ready.assembled, sitting.signals
    time_left = TimeLeft(planned_steps(config, assembled.task))
    sitting.vigil.watch.add_gauge(time_left.take)
    until = first_of(
        Announcement(ready, sitting.display),
        time_left,
        lambda progress: signals.stop_reason,
        run_end(config),
        *([also_until] if also_until is not None else []),
    )
    settings, _ = assembled.parts.schedule.begin(assembled.settings)
    return train(assembled.parts, settings, until)


def conclude(sitting: Sitting, ready: Ready, reason: str) -> None:
    """Measure and film a run that is trained, and write its report.

    It counts as finished before its report is written, which says so.
    """
    run, config, display = sitting.run, sitting.config, sitting.display
    recorder = ready.assembled.parts.recorder
    wants_report = sitting.asked.report and config.report.at_end
    with sitting.stage(f"the {FINAL_EVALUATION}", recorder.finish):
        final = FinalEvaluation(run, config, recorder.saved)
        measured = final.measure(sitting.vigil, sitting.signals, display)
        if measured is not None:
            ready.tracking.conclude(recorder.saved, measured.metrics)
        display.close()
        if measured is not None:
            display.notice(measured.found.as_text())
    if wants_report:
        with sitting.stage("the films", recorder.finish), sitting.vigil.watch.stage("films"):
            checkpoint = "" if measured is None else measured.found.checkpoint
            leave_media(run, config, checkpoint, display.notice)
    recorder.finish(Status.FINISHED, reason)
    ready.tracking.finish(recorder, display.notice)
    recorder.close_listeners()
    if wants_report:
        with sitting.stage("the report", recorder.finish), sitting.vigil.watch.stage("report"):
            leave_report(run, display.notice)


def end_early(run: RunDirectory, status: Status, reason: str) -> None:
    """Write down how a run ended that had not begun to train."""
    note(run, status.value, reason)
    write_status(run.record, status, reason)


def keep_config(run: RunDirectory, config: RunConfig) -> None:
    """Write down the values that may change when a run goes on, for whoever continues it next."""
    text = write_toml(to_values(config))
    if tomllib.loads(text) != read_toml(run.config):
        with storage_errors(run.config):
            replace_file(run.config, text.encode())


class Announcement:
    """Says, once the run is restored and before it goes on, where it goes on from."""

    def __init__(self, ready: Ready, display: Display) -> None:
        self._ready = ready
        self._display = display
        self._told = False

    def __call__(self, progress: Progress) -> str | None:
        """Tell at the first call, when trackers are tried as well; never a reason to stop."""
        if not self._told:
            self._told = True
            assembled, display = self._ready.assembled, self._display
            found = assembled.parts.recorder.restoration
            tell_restoration(found, assembled.task.envs.spec.tier, display)
            self._ready.tracking.check(display.notice, is_new=found.checkpoint is None)
            tell_unmeasured(assembled, display)
            for warning in assembled.task.warnings:
                display.notice(warning)
        return None


def tell_unmeasured(assembled: Assembled, display: Display) -> None:
    """Warn of controllers that wait for a metric which nothing measures."""
    for warning in unmeasured_metrics(assembled.parts.schedule, assembled.task):
        display.notice(warning)


def tell_restoration(found: Restoration, tier: Tier, display: Display) -> None:
    """Say which checkpoint the run goes on from, and which ones could not be used."""
    for damage in found.damaged:
        display.notice(f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is")
    for problem in found.problems:
        display.notice(f"{problem.path.name} did not match the checkpoint: {problem.reason}")
    if found.checkpoint is not None:
        display.notice(f"continuing from {found.checkpoint.name}: {resume_promise(tier)}")

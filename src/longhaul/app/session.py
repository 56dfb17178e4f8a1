"""One process's share of a run: from taking the lock to the exit code."""

from __future__ import annotations

import tomllib
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch

from longhaul.app.assemble import Assembled, Place, assemble, build_task, planned_steps, run_end
from longhaul.app.config import RunConfig
from longhaul.app.configure import read_toml, to_values
from longhaul.app.device import choose_device, fix_torch
from longhaul.app.display import Display, choose_display
from longhaul.app.evaluate import EvaluationRequest, evaluate_run
from longhaul.app.finish import leave_artefacts
from longhaul.app.first_weights import begin_with
from longhaul.app.gauges import TimeLeft, torch_memory
from longhaul.app.metrics import declared_metrics, declares, schema_file
from longhaul.app.records import RecordsSink
from longhaul.app.report import keep_panels
from longhaul.app.rushes import Rushes
from longhaul.app.track import begin_tracking
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
from longhaul.runs.signals import SignalRequests
from longhaul.runs.toml import write_toml

OUT_OF_MEMORY = "out of memory; lower num_envs, collect.steps or the size of the network"


@dataclass(frozen=True, slots=True)
class Asked:
    """How the user wants a run to be carried out."""

    as_json: bool = False
    quiet: bool = False
    require_gpu: bool = False
    report: bool = False
    """Whether a finished run leaves films, plots and a report behind, as its config says."""


def carry_out(
    run: RunDirectory, config: RunConfig, asked: Asked, *, also_until: Until | None = None
) -> int:
    """Train in the run's directory until it is done or stopped; return the exit code."""
    run.check_plain()
    check_checkpoints(run)
    display = choose_display(as_json=asked.as_json, quiet=asked.quiet)
    fix_torch(threads=config.threads, deterministic=config.deterministic)
    device = choose_device(config.device, require_gpu=asked.require_gpu, tell=display.notice)
    clocks = Clocks()
    with ExitStack() as stack:
        lock = stack.enter_context(RunLock(run.lock, clocks))
        vigil = Vigil(run, config.watch, clocks, display)
        stack.enter_context(vigil.heartbeat)
        place = Place(
            directory=run,
            lock=lock,
            clocks=clocks,
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
        sampler = ResourceSampler(run.resources, clocks, every_seconds=every, extra=torch_memory)
        place.watch.add_gauge(stack.enter_context(sampler).take)
        assembled = set_up(run, config, place, device)
        keep_panels(run, assembled.task, assembled.settings)
        write_schema(run, schema_file(assembled.task))
        follow(run, config, assembled, place, stack)
        stack.callback(assembled.parts.collector.close)
        if isinstance(assembled.parts.learner, LeadingLearner):
            stack.callback(assembled.parts.learner.close)
        time_left = TimeLeft(planned_steps(config, assembled.task))
        place.watch.add_gauge(time_left.take)
        vigil.guard(stack, assembled.parts.recorder)
        signals = stack.enter_context(SignalRequests(assembled.parts.recorder.request))
        until = first_of(
            Announcement(assembled, display),
            time_left,
            lambda progress: signals.stop_reason,
            run_end(config),
            *([also_until] if also_until is not None else []),
        )
        display.begin(
            f"{config.task}  {run.path}",
            total=planned_steps(config, assembled.task),
            score=assembled.task.evaluation.metric,
        )
        stack.callback(display.close)
        reason = guarded(run, assembled, until, display)
    if reason not in DONE:
        display.notice(f"{reason}; `longhaul resume {run.path}` continues this run")
        return signals.exit_code
    checkpoint = conclude(run, config, display)
    if asked.report and config.report.at_end:
        leave_artefacts(run, config, checkpoint, display.notice)
    return 0


def follow(
    run: RunDirectory, config: RunConfig, assembled: Assembled, place: Place, stack: ExitStack
) -> None:
    """Let everybody who makes something of the metrics follow the run, until the stack unwinds."""
    recorder = assembled.parts.recorder
    tracking = begin_tracking(run, config, assembled, place.clocks)
    if config.report.film_evaluations:
        recorder.add_sink(Rushes(run, config, assembled, place.tell, tracking.film))
    stack.callback(recorder.close)
    stack.callback(tracking.finish, recorder, place.tell)
    if assembled.task.records is not None:
        recorder.add_sink(RecordsSink(run, config, assembled.task, place.clocks))


def keep_config(run: RunDirectory, config: RunConfig) -> None:
    """Write down the values that may change when a run goes on, for whoever continues it next."""
    text = write_toml(to_values(config))
    if tomllib.loads(text) != read_toml(run.config):
        with storage_errors(run.config):
            replace_file(run.config, text.encode())


def set_up(run: RunDirectory, config: RunConfig, place: Place, device: torch.device) -> Assembled:
    """Return the parts of the run; one that cannot be put together is written down as failed."""
    try:
        return assemble(config, place, device)
    except LonghaulError as error:
        write_status(run.record, Status.FAILED, str(error))
        raise
    except MemoryError as error:
        write_status(run.record, Status.FAILED, "out of memory")
        raise ResourceError(OUT_OF_MEMORY) from error


def guarded(run: RunDirectory, assembled: Assembled, until: Until, display: Display) -> str:
    """Train, and write down how it ended whatever happens."""
    recorder = assembled.parts.recorder
    settings, _ = assembled.parts.schedule.begin(assembled.settings)
    try:
        reason = train(assembled.parts, settings, until)
    except LonghaulError as error:
        recorder.finish(Status.FAILED, str(error))
        raise
    except KeyboardInterrupt:
        recorder.finish(Status.STOPPED, "stopped at once by a second SIGINT")
        display.notice(
            "stopped at once by a second SIGINT; "
            f"`longhaul resume {run.path}` continues from the last checkpoint"
        )
        raise
    except MemoryError as error:
        recorder.finish(Status.FAILED, "out of memory")
        raise ResourceError(OUT_OF_MEMORY) from error
    except Exception as error:
        recorder.finish(Status.FAILED, repr(error))
        run.crash.mkdir(exist_ok=True)
        (run.crash / "traceback.txt").write_text(traceback.format_exc())
        raise
    recorder.finish(Status.FINISHED if reason in DONE else Status.STOPPED, reason)
    return reason


class Announcement:
    """Says, once the run is restored and before it goes on, where it goes on from."""

    def __init__(self, assembled: Assembled, display: Display) -> None:
        self._assembled = assembled
        self._display = display
        self._told = False

    def __call__(self, progress: Progress) -> str | None:
        """Tell at the first call; never a reason to stop."""
        if not self._told:
            found = self._assembled.parts.recorder.restoration
            tell_restoration(found, self._assembled.task.envs.spec.tier, self._display)
            tell_unmeasured(self._assembled, self._display)
            for warning in self._assembled.task.warnings:
                self._display.notice(warning)
            self._told = True
        return None


def tell_unmeasured(assembled: Assembled, display: Display) -> None:
    """Warn of controllers that wait for a metric which nothing measures."""
    declared = declared_metrics([assembled.task])
    known = [metric.name for metric in declared]
    reads = {name for c in assembled.parts.schedule.controllers for name in c.reads}
    known += [name for name in reads if any(declares(metric, name) for metric in declared)]
    for warning in assembled.parts.schedule.unmeasured(known):
        display.notice(warning)


def tell_restoration(found: Restoration, tier: Tier, display: Display) -> None:
    """Say which checkpoint the run goes on from, and which ones could not be used."""
    for damage in found.damaged:
        display.notice(f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is")
    for problem in found.problems:
        display.notice(f"{problem.path.name} did not match the checkpoint: {problem.reason}")
    if found.checkpoint is not None:
        display.notice(f"continuing from {found.checkpoint.name}: {resume_promise(tier)}")


def conclude(run: RunDirectory, config: RunConfig, display: Display) -> str:
    """Measure what was saved last, or the best where it was picked by a suite, and show it.

    Return the name of the checkpoint that was measured, nothing if none was.
    """
    evaluate = config.evaluate
    if evaluate.final_episodes == 0:
        return ""
    picks = build_task(config).evaluation.suite is not None and evaluate.every_iterations > 0
    # What is reported are other suites than the one that picked, so that picking gains nothing.
    request = EvaluationRequest(
        checkpoint="best" if picks else "latest", episodes=evaluate.final_episodes
    )
    found = evaluate_run(run.path, request)
    display.notice(found.as_text())
    return found.checkpoint

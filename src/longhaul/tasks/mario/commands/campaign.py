"""Training course after course within a budget of time, each in a separate run."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from longhaul.app.evaluation.load import find_weights
from longhaul.app.experiments.jobs import Child, Job, Launch, longhaul_command, run_jobs
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.engine.demo import SUFFIX
from longhaul.engine.evaluator import EVALUATED
from longhaul.report.summary import duration
from longhaul.runs.directory import RunDirectory, Status, list_run_directories, slug
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.logs.jsonl import Row
from longhaul.runs.reader import read_events, read_metrics
from longhaul.runs.signals import SignalRequests
from longhaul.tasks.mario.commands import campaign_plan as plan
from longhaul.tasks.mario.commands.campaign_plan import CAMPAIGN, Campaign, CourseState
from longhaul.tasks.mario.commands.campaign_report import CampaignReport

CLEAN_ENDS = (0, 130, 143, -signal.SIGTERM)
"""Done, stopped after a checkpoint, or stopped before there was anything to save."""
POLL_SECONDS = 1.0
STATE_FILE, TABLE_FILE = "campaign.json", "campaign.md"


@dataclass(frozen=True, slots=True)
class CampaignRequest:
    """What to train on, for how long, and where."""

    courses: str = "all"
    budget_seconds: float = 7200.0
    slice_seconds: float | None = None
    """Training time of a course per turn; None: trying all takes half the budget."""
    target: float = 0.8
    """The clear rate at which a course is left."""
    name: str = "campaign"
    preset: str = ""
    overrides: tuple[str, ...] = ()
    root: Path = Path("runs")
    films: bool = True
    transfer: bool = True
    """Whether a course begins with the weights of one that is cleared already."""
    teacher: str = ""
    """The run whose weights courses begin with as long as none is cleared."""
    jobs: int = 1
    """How many courses are trained at a time."""
    explore: bool = False
    """Whether a course is searched before it is trained, and trained along what was found."""
    search_seconds: float = 120.0
    """Time for the search of a course."""
    task: str = "mario"

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ConfigError(f"--jobs must be at least 1, not {self.jobs}")
        if self.teacher and not self.transfer:
            raise ConfigError("--teacher and --no-transfer exclude each other")
        for flag, seconds in (("--budget", self.budget_seconds), ("--slice", self.slice_seconds)):
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"{flag} must be more than 0 seconds, not {seconds}")
        if not 0 < self.target <= 1:
            raise ConfigError(f"--target must be above 0 and at most 1, not {self.target}")

    @property
    def folder(self) -> Path:
        """Where the campaign's own files are."""
        return self.root / slug(self.task) / f"{slug(self.name)}.campaign"


@dataclass(slots=True)
class CourseJob(Job):
    """A slice of a course's training, its search, its film or its final evaluation, under way."""

    course: str
    began: float
    seconds: float
    kind: Literal["slice", "film", "search", "final"] = "slice"


class CampaignRunner:
    """Gives slices of time to courses and keeps what came of them."""

    def __init__(
        self,
        request: CampaignRequest,
        campaign: Campaign,
        notify: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
        launch: Launch = Child,
    ) -> None:
        self._campaign = campaign
        self._asked: Callable[[], str | None] = lambda: None
        self._rest, self._launch = rest, launch
        self._courses = {course.name: course for course in campaign.courses(request.courses)}
        self._request = request
        self._slice_seconds = request.slice_seconds or plan.slice_of(
            request.budget_seconds, len(self._courses), jobs=request.jobs
        )
        self._notify = notify
        self._clock = clock
        self._states = {name: CourseState(name) for name in self._courses}
        self._spent = 0.0
        self._unfilmed: list[str] = []
        self._load()
        self._before, self._since = self._spent, clock()

    @property
    def report(self) -> CampaignReport:
        """How the campaign stands."""
        states = tuple(self._states[name] for name in self._courses)
        return CampaignReport(self._request.task, self._spent, states)

    def run(self, stop_reason: Callable[[], str | None] = lambda: None) -> CampaignReport:
        """Train until the budget is spent, all courses reach the target, or it is stopped."""
        self._asked = stop_reason
        self._save()
        run_jobs(self, self._request.jobs, rest=lambda: self._rest(POLL_SECONDS))
        return self.report

    def stop_reason(self) -> str:
        """Return nothing: what runs when a campaign is stopped is asked for what it brought."""
        return ""

    def begin(self, live: Sequence[CourseJob]) -> CourseJob | None:
        """Begin a film that is due, or else a slice of the course that promises most."""
        if self._unfilmed:
            return self._begin_film(self._unfilmed.pop(0))
        request = self._request
        if self._asked() is not None:
            return None
        busy, states = {job.course for job in live}, self.report.states
        has_time = self._spent < request.budget_seconds
        name = plan.next_course(states, target=request.target, busy=busy) if has_time else None
        due = plan.next_final(states, target=request.target, busy=busy, is_end=name is None)
        if due is not None and self._campaign.final:
            return self._begin_final(due)
        if name is None:
            return None
        is_unknown = request.explore and not self._states[name].searched
        return self._begin_search(name) if is_unknown else self._begin_slice(name)

    def _begin_search(self, name: str) -> CourseJob:
        """Search the way through a course."""
        request = self._request
        budget = f"{request.search_seconds:g}s"
        self._notify(f"{name}: searched for up to {budget}{self._so_far()}")
        command = longhaul_command("explore", request.task, "--goal", name, "--budget", budget)
        command += ["--name", self._run_name(name), "--runs-root", str(request.root)]
        command += ["--no-films", "--quiet"]
        for override in request.overrides:
            command += ["--set", override]
        log = request.folder / f"{slug(name)}.search.log"
        return CourseJob(
            self._launch(command, log), log, name, self._clock(), math.inf, kind="search"
        )

    def _begin_slice(self, name: str) -> CourseJob:
        state, request = self._states[name], self._request
        if request.transfer and not state.worths and not state.run:
            # Kept before anything can happen: a run goes on only with the config it began with.
            teacher = plan.teacher_of(
                self.report.states, like=self._courses[name].like, otherwise=request.teacher
            )
            state = self._states[name] = replace(state, teacher=teacher)
            self._save()
        seconds = min(self._slice_seconds, request.budget_seconds - self._spent)
        self._notify(f"{name}: trains for {duration(seconds)}{self._so_far()}")
        command = longhaul_command("train", request.task, *self._arguments(name, state))
        log = request.folder / f"{slug(name)}.log"
        return CourseJob(self._launch(command, log), log, name, self._clock(), seconds)

    def _begin_film(self, name: str) -> CourseJob:
        """Film the best episode of a course."""
        path = self._request.folder / f"{slug(name)}.mp4"
        command = longhaul_command("watch", self._states[name].run, "--checkpoint", "best")
        # Of the episodes the rate counts: among others a rare success may not be seen.
        command += ["--suite", self._campaign.suite] if self._campaign.suite else []
        command += ["--episode", "best", "--out", str(path)]
        log = path.with_suffix(".film.log")
        return CourseJob(
            self._launch(command, log), log, name, self._clock(), math.inf, kind="film"
        )

    def _begin_final(self, name: str) -> CourseJob:
        """Evaluate a course's best checkpoint on episodes that did not choose it."""
        command = longhaul_command("evaluate", self._states[name].run, "--checkpoint", "best")
        command += ["--suite", self._campaign.final, "--no-references", "--json"]
        log = self._request.folder / f"{slug(name)}.final.json"
        return CourseJob(
            self._launch(command, log), log, name, self._clock(), math.inf, kind="final"
        )

    def look(self, job: CourseJob, code: int | None) -> None:
        """Ask a job to stop when it has had its time, and keep what it has brought."""
        now = self._clock()
        self._spent = self._before + now - self._since
        if code is None:
            is_over = now - job.began >= job.seconds
            is_asked = job.kind == "search" and self._asked() is not None
            if is_over or is_asked or (job.kind == "slice" and self._is_enough(job.course)):
                job.ask_to_stop()
            return
        before = self._states[job.course]
        ended = {
            "slice": self._trained,
            "film": self._filmed,
            "search": self._searched,
            "final": self._evaluated,
        }
        state = ended[job.kind](job, code)
        state = replace(state, seconds=before.seconds + now - job.began)
        self._states[job.course] = state
        self._save()
        if job.kind == "search":
            found = "its way is found" if state.demo else "no way was found"
            self._notify(f"{state.name}: {found}")
            return
        if self._request.films and state.rate > 0 and not state.film and job.kind == "slice":
            self._unfilmed.append(job.course)
        if job.kind == "slice":
            why = state.problem or state.blocked
            self._notify(
                f"{state.name}: clear rate {state.rate:.2f}, progress {state.progress:.0f}, "
                f"{state.seconds / 60:.1f} min{f'; {why}' if why else ''}"
            )

    def _so_far(self) -> str:
        """Return how much of the budget is spent and how many courses are cleared, in words."""
        spent, budget = duration(self._spent), duration(self._request.budget_seconds)
        return f" ({spent} of {budget} used, {self.report.cleared} cleared)"

    def _trained(self, job: CourseJob, code: int) -> CourseState:
        """Return what a course has come to after a slice."""
        state = self._states[job.course]
        if code not in CLEAN_ENDS:
            said = job.output().strip().splitlines()
            return replace(state, problem=said[-1][:200] if said else f"exit code {code}")
        run = self._find(job.course)
        if run is None:
            return replace(state, worths=(*state.worths, state.worth))
        return self._measured(replace(state, run=str(run.path)), run)

    def _searched(self, job: CourseJob, code: int) -> CourseState:
        """Return the state of a course with the demonstration of its way, if one was found."""
        request, name = self._request, job.course
        folder = request.root / slug(request.task) / f"{slug(self._run_name(name))}.explore"
        demo = folder / "demos" / f"{slug(name)}{SUFFIX}"
        if code not in CLEAN_ENDS:
            said = job.output().strip().splitlines()
            self._notify(f"{name}: the search failed: {said[-1] if said else code}")
        is_over = demo.is_file() or self._asked() is None
        return replace(
            self._states[name], searched=is_over, demo=str(demo) if demo.is_file() else ""
        )

    def _filmed(self, job: CourseJob, code: int) -> CourseState:
        """Return the state of a course with its film, relative to the campaign's folder."""
        path = self._request.folder / f"{slug(job.course)}.mp4"
        if code:
            said = job.output().strip().splitlines()
            self._notify(f"{job.course}: no film: {said[-1] if said else code}")
        return replace(self._states[job.course], film=path.name if path.is_file() else "")

    def _evaluated(self, job: CourseJob, code: int) -> CourseState:
        """Return the state of a course with the result of its final evaluation."""
        state = replace(self._states[job.course], final_steps=self._states[job.course].env_steps)
        try:
            (suite,) = json.loads(job.output())["suites"]
            found = suite["metrics"][self._campaign.rate]
            low, high = suite["intervals"][self._campaign.rate]
        except (ValueError, KeyError, TypeError):
            self._notify(f"{job.course}: the final evaluation ended with {code}; see {job.log}")
            return replace(state, final=())
        self._notify(f"{job.course}: {found:.2f} ({low:.2f} to {high:.2f}) of the final episodes")
        return replace(state, final=(found, low, high))

    def _arguments(self, name: str, state: CourseState) -> list[str]:
        request, course = self._request, self._courses[name]
        found = ["--name", self._run_name(name), "--runs-root", str(request.root)]
        found += ["--quiet", "--no-report"]
        preset = request.preset or ("specialist" if state.demo else "")
        found += ["--preset", preset] if preset else []
        along = (f"env.path.demos={json.dumps([state.demo])}",) if state.demo else ()
        own = (*course.place, *along) if state.demo else course.overrides
        taught = (f"start_from={state.teacher}",) if state.teacher else ()
        for override in (*own, *taught, *request.overrides):
            found += ["--set", override]
        return found

    def _run_name(self, course: str) -> str:
        return f"{self._request.name}-{course}"

    def _is_enough(self, name: str) -> bool:
        return self._asked() is not None or self._has_reached(name)

    def _has_reached(self, name: str) -> bool:
        run = self._find(name)
        if run is None:
            return False
        rates = [row[self._campaign.rate] for row in _evaluations(run, self._campaign.rate)]
        return bool(rates) and rates[-1] >= self._request.target

    def _find(self, name: str) -> RunDirectory | None:
        """Return the newest run of a course."""
        wanted = self._run_name(name)
        for run in reversed(list_run_directories(self._request.root / slug(self._request.task))):
            if run.read_record().name == wanted:
                return run
        return None

    def _measured(self, state: CourseState, run: RunDirectory) -> CourseState:
        rows = read_metrics(run).rows
        rated = [row for row in rows if self._campaign.rate in row]
        state = replace(
            state,
            env_steps=int(rows[-1].get("env_steps", 0)) if rows else state.env_steps,
            is_over=run.read_record().status is Status.FINISHED,
        )
        if rated:
            farthest = (row.get(self._campaign.farthest, 0.0) for row in rated)
            state = replace(
                state,
                rate=max(row[self._campaign.rate] for row in rated),
                progress=max(row[self._campaign.progress] for row in rated),
                farthest=max(farthest),
                solved_back=1.0 - float(rows[-1].get(self._campaign.earliest, 1.0)),
                blocked=self._blocked(run),
            )
        return replace(state, worths=(*state.worths, state.worth))

    def _blocked(self, run: RunDirectory) -> str:
        rows = [row for row in read_events(run).rows if row.get("event") == EVALUATED]
        return self._campaign.blocked(rows[-1]) if rows else ""

    def _load(self) -> None:
        """Go on where an earlier call of the same campaign stopped."""
        path = self._request.folder / STATE_FILE
        if not path.is_file():
            return
        try:
            kept: Mapping[str, Any] = json.loads(path.read_bytes())
            found = msgspec.convert(kept["states"], tuple[CourseState, ...])
            self._spent = float(kept["seconds"])
        except (ValueError, KeyError, msgspec.ValidationError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}); move it or use another --name"
            ) from error
        for state in found:
            if state.name in self._states:
                self._states[state.name] = replace(state, problem="")

    def _save(self) -> None:
        folder, report = self._request.folder, self.report
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / STATE_FILE, report.as_json().encode())
            replace_file(folder / TABLE_FILE, report.as_markdown().encode())


def run_campaign(request: CampaignRequest, notify: Callable[[str], None]) -> CampaignReport:
    """Train course after course; the same call again continues."""
    # Errors are raised before a folder is made.
    CAMPAIGN.courses(request.courses)
    if request.teacher:
        find_weights(Path(request.teacher), f"--teacher {request.teacher}")
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
        with RunLock(request.folder / "lock", Clocks()), SignalRequests(lambda: None) as signals:
            runner = CampaignRunner(request, CAMPAIGN, notify)
            report = runner.run(lambda: signals.stop_reason)
            return replace(report, exit_code=signals.exit_code, reason=signals.stop_reason or "")
    except OSError as error:
        raise LonghaulError(f"the campaign cannot continue: {error}") from error


def _evaluations(run: RunDirectory, rate: str) -> list[Row]:
    return [row for row in read_metrics(run).rows if rate in row]

"""The search itself: starts, watches and prunes trials until there are enough."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.app.experiments.jobs import Child, Launch, run_jobs
from longhaul.app.experiments.search.plan import SearchPlan, SearchRequest, make_plan
from longhaul.app.experiments.search.study import SearchStudy, TrialRecord, load_optuna
from longhaul.app.experiments.search.trial import Failure, LiveTrial, TrialRuns, refuse_leftovers
from longhaul.core.errors import ConfigError
from longhaul.report.search import short_names
from longhaul.report.summary import figure
from longhaul.runs.directory import slug
from longhaul.runs.durable import replace_file, storage_errors, sync_place
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.signals import SignalRequests

POLL_SECONDS = 0.5
MOST_FAILURES = 10
"""Failed trials in a row after which the search stops."""
KEEP_SECONDS = 30.0
"""How often the elapsed time is saved."""
JOURNAL, TERMS = "journal.jsonl", "search.json"
OWN_VALUES = "the config's own values"
NEAR_VALUES = "the nearest to the config's own values"


@dataclass(frozen=True, slots=True)
class Findings:
    """The state of a search."""

    plan: SearchPlan
    records: tuple[TrialRecord, ...]
    importances: dict[str, float]
    seconds: float
    exit_code: int = 0
    reason: str = ""
    """Why it stopped early; empty if it did not."""

    @property
    def best(self) -> TrialRecord | None:
        """The complete trial with the best value; the first of equal ones."""
        able = [record for record in self.records if record.state == "complete"]
        if not able:
            return None
        sign = 1.0 if self.plan.request.direction == "maximize" else -1.0
        return max(able, key=lambda record: (sign * (record.value or 0.0), -record.number))


class SearchRunner:
    """Runs trials in parallel and stores their results in the study."""

    def __init__(
        self,
        plan: SearchPlan,
        notify: Callable[[str], None],
        *,
        launch: Launch = Child,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plan, self._notify = plan, notify
        self._clock, self._rest = clock, rest
        self._runs = TrialRuns(plan, launch=launch, clock=clock)
        self._waiting: list[int] = []
        self._asked: Callable[[], str | None] = lambda: None
        self._failures = 0
        request = plan.request
        self._spent = self._begin_or_continue()
        self._since = self._kept = clock()
        self._study = SearchStudy(
            request.folder / JOURNAL,
            plan.space,
            name=slug(request.name),
            direction=request.direction,
            pruner=request.pruner,
            seed=request.seed,
        )
        params, is_exact = plan.own_params()
        self._study.begin_with(params, note=OWN_VALUES if is_exact else NEAR_VALUES)

    @property
    def seconds(self) -> float:
        """Time spent on the search, including earlier calls."""
        return self._spent + self._clock() - self._since

    @property
    def is_hopeless(self) -> bool:
        """Whether too many trials in a row have failed."""
        return self._failures >= MOST_FAILURES

    def findings(self, *, exit_code: int = 0, reason: str = "") -> Findings:
        """Return the state of the search."""
        records = self._study.records()
        importances = self._study.importances()
        return Findings(self._plan, records, importances, self.seconds, exit_code, reason)

    def run(self, stop_reason: Callable[[], str | None]) -> str:
        """Run trials until there are enough; return why it stopped early, empty if it did not."""
        self._asked = stop_reason
        self._waiting = [r.number for r in self._study.records() if r.state == "running"]
        try:
            return run_jobs(self, self._plan.request.place.jobs, rest=self._pause)
        finally:
            self._keep_time(at_once=True)

    def _pause(self) -> None:
        self._keep_time()
        self._rest(POLL_SECONDS)

    def stop_reason(self) -> str:
        """Return why the search stops now: a signal, the budget, or too many failures."""
        return self._asked() or self._own_reason()

    def _own_reason(self) -> str:
        if self.seconds >= self._plan.request.budget_seconds:
            return "the budget is spent"
        if self.is_hopeless:
            last = [record for record in self._study.records() if record.state == "failed"][-1]
            return (
                f"{self._failures} trials in a row failed; the last failure, {last.failure}: "
                f"{last.words}"
            )
        return ""

    def begin(self, live: Sequence[LiveTrial]) -> LiveTrial | None:
        """Start the next trial; unfinished trials of an earlier call come first."""
        while not self.is_hopeless:
            if self._waiting:
                record = self._study.complete(self._waiting.pop(0))
                if self._study.is_hopeless(record.number):
                    # It was pruned, and the search was stopped before the run had ended.
                    self._pruned(record.number)
                    continue
                word = "continues"
            elif not self._is_enough():
                record = self._study.ask()
                word = "starts"
            else:
                return None
            self._notify(f"{self._title(record.number)} {word}: {_words(record)}")
            try:
                return self._runs.start(record)
            except ConfigError as error:
                self._failed(record.number, Failure("config", str(error)))
        return None

    def _is_enough(self) -> bool:
        begun = sum(record.state != "waiting" for record in self._study.records())
        return begun >= self._plan.request.trials

    def look(self, job: LiveTrial, code: int | None) -> None:
        """Report a trial's new stages to the study, and its result if it has ended."""
        if not job.is_pruned:
            for stage, value in self._runs.new_stages(job, is_over=code is not None):
                if self._study.report(job.number, stage, value):
                    job.is_pruned = True
                    job.ask_to_stop()
                    break
        if code is not None:
            self._end(job, code)
        elif job.asked is None and self._clock() - job.began > self._plan.request.trial_seconds:
            job.is_late = True
            job.ask_to_stop()

    def _end(self, trial: LiveTrial, code: int) -> None:
        number = trial.number
        if trial.is_pruned:
            self._pruned(number)
            return
        found = self._runs.result(trial, code)
        if isinstance(found, Failure):
            self._failed(number, found)
            return
        self._failures = 0
        self._study.note(number, **self._runs.facts(number))
        self._study.finish(number, found)
        best = self.best_so_far()
        self._notify(f"{self._title(number)}: {self._plan.metric} {figure(found)}{best}")

    def _pruned(self, number: int) -> None:
        self._failures = 0
        self._study.note(number, **self._runs.facts(number))
        self._study.prune(number)
        last = self._study.records()[number]
        at = f": {self._plan.metric} {figure(last.value)}" if last.value is not None else ""
        self._notify(f"{self._title(number)} is pruned at stage {max(last.stages)}{at}")

    def best_so_far(self) -> str:
        """Return the best trial, in words."""
        best = Findings(self._plan, self._study.records(), {}, 0.0).best
        if best is None or best.value is None:
            return ""
        return f" (best so far: {figure(best.value)} of trial {best.number})"

    def _failed(self, number: int, failure: Failure) -> None:
        self._failures += 1
        self._study.note(number, **self._runs.facts(number))
        self._study.fail(number, failure.kind, failure.message)
        self._notify(f"{self._title(number)} failed, {failure.kind}: {failure.message}")

    def _title(self, number: int) -> str:
        return f"trial {number} of {max(self._plan.request.trials, number + 1)}"

    def _begin_or_continue(self) -> float:
        """Return the seconds spent so far; raise if the search was started with other values."""
        path, terms = self._plan.request.folder / TERMS, self._plan.terms()
        if not path.is_file():
            refuse_leftovers(self._plan)
            _keep(path, terms, 0.0)
            return 0.0
        try:
            kept: dict[str, Any] = json.loads(path.read_bytes())
            before, seconds = kept["terms"], float(kept["seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}); move the folder away or use another --name"
            ) from error
        asked = json.loads(json.dumps(terms))
        changed = [name for name in asked if before.get(name) != asked[name]]
        if changed:
            name = changed[0]
            raise ConfigError(
                f"the search {self._plan.request.name!r} was started with {name} = "
                f"{before.get(name)!r}, not {asked[name]!r}; give the old values to continue it, "
                "or use another --name"
            )
        return seconds

    def _keep_time(self, *, at_once: bool = False) -> None:
        if at_once or self._clock() - self._kept >= KEEP_SECONDS:
            self._kept = self._clock()
            _keep(self._plan.request.folder / TERMS, self._plan.terms(), self.seconds)


def _keep(path: Path, terms: dict[str, Any], seconds: float) -> None:
    kept = {"terms": terms, "seconds": round(seconds, 1)}
    with storage_errors(path):
        replace_file(path, json.dumps(kept, indent=1).encode() + b"\n")


def _words(record: TrialRecord) -> str:
    names = short_names(list(record.params))
    return ", ".join(
        f"{names[key]} {value:.4g}" if isinstance(value, float) else f"{names[key]} {value}"
        for key, value in record.params.items()
    )


def search(request: SearchRequest, notify: Callable[[str], None]) -> Findings:
    """Run the trials of a search; the same call continues an interrupted search."""
    load_optuna()
    plan = make_plan(request)
    request.place.check()
    with storage_errors(request.folder):
        request.folder.mkdir(parents=True, exist_ok=True)
        sync_place(request.folder)
    with (
        RunLock(request.folder / "lock", Clocks()),
        SignalRequests(lambda: None) as signals,
        request.place.open() as launch,
    ):
        runner = SearchRunner(plan, notify, launch=launch)
        reason = runner.run(lambda: signals.stop_reason)
        code = signals.exit_code or (1 if runner.is_hopeless else 0)
        return runner.findings(exit_code=code, reason=reason)

"""The study of a search: its trials, and what to try next. Only this file uses Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longhaul.app.experiments.search.plan import STAGES, Direction, Pruner
from longhaul.app.experiments.search.space import Dimension, Range, Value
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import Seeds
from longhaul.runs.durable import replace_file, storage_errors, sync_directory

if TYPE_CHECKING:
    import optuna

MISSING = "a search needs the extra 'search': pip install 'longhaul-rl[search]'"
FIRST_TRIALS = 8
"""Trials with random values before the sampler learns from them."""
UNPRUNED_TRIALS = 5
"""Trials that must be complete before another is pruned."""
UNPRUNED_STAGES = 3
REDUCTION = 3
"""Hyperband: one of so many trials continues."""
FEWEST_FOR_IMPORTANCE = 4

TrialState = Literal["waiting", "running", "complete", "pruned", "failed"]
FAILURE, WORDS, NOTES = "failure", "words", "notes"


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial as stored in the study."""

    number: int
    state: TrialState
    params: dict[str, Value]
    value: float | None
    """The score; of a pruned trial, the last value before pruning."""
    stages: dict[int, float]
    failure: str = ""
    """The kind of failure; empty if it did not fail."""
    words: str = ""
    """The run's error message."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Other facts, such as run, steps and seconds."""


def load_optuna() -> Any:
    """Return Optuna, or raise a ConfigError that names the extra."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise ConfigError(MISSING) from None
    return optuna


def repair_journal(path: Path) -> None:
    """Remove what a killed process left: an incomplete line, and its lock of the file.

    The caller must hold the lock of the search. Optuna would wait half a minute for a dead owner,
    and could not read a journal that continues after an incomplete line.
    """
    for left in path.parent.glob(f"{path.name}.lock*"):
        left.unlink(missing_ok=True)
    if path.is_file():
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            with storage_errors(path):
                replace_file(path, whole)


class SearchStudy:
    """Chooses the values of trials and stores their results in a journal.

    Every trial has a sampler with a separate seed, so an interrupted search chooses the same values
    as an uninterrupted one. One process writes at a time.
    """

    def __init__(
        self,
        path: Path,
        space: Mapping[str, Dimension],
        *,
        name: str,
        direction: Direction,
        pruner: Pruner,
        seed: int,
    ) -> None:
        self._optuna = load_optuna()
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        self._space = dict(space)
        self._seeds = Seeds(seed)
        repair_journal(path)
        journal = self._optuna.storages.journal
        with storage_errors(path):
            self._storage = journal.JournalStorage(journal.JournalFileBackend(str(path)))
            # Optuna forces what it appends to disk, but not the name of a new file.
            sync_directory(path.parent)
            self._study: optuna.Study = self._optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction=direction,
                pruner=_pruner(self._optuna, pruner),
                load_if_exists=True,
            )
        self._name, self._path = name, path

    def records(self) -> tuple[TrialRecord, ...]:
        """Return all trials."""
        return tuple(map(_record, self._study.get_trials(deepcopy=False)))

    def begin_with(self, params: Mapping[str, Value], *, note: str) -> None:
        """Give the first trial these values; does nothing once there is a trial."""
        if params and not self._study.get_trials(deepcopy=False):
            with storage_errors(self._path):
                self._study.enqueue_trial(dict(params), user_attrs={NOTES: {"note": note}})

    def ask(self) -> TrialRecord:
        """Start a trial and return it with its values."""
        number = sum(record.state != "waiting" for record in self.records())
        with storage_errors(self._path):
            self._study.sampler = self._sampler(number)
            trial = self._study.ask()
            self._suggest(trial)
        return self._one(trial.number)

    def complete(self, number: int) -> TrialRecord:
        """Return a started trial; its values are drawn if a killed search had not done so."""
        with storage_errors(self._path):
            self._study.sampler = self._sampler(number)
            self._suggest(self._trial(number))
        return self._one(number)

    def report(self, number: int, stage: int, value: float) -> bool:
        """Store a trial's value after one of its stages; return whether it should be pruned."""
        with storage_errors(self._path):
            trial = self._trial(number)
            trial.report(value, stage)
            return trial.should_prune()

    def is_hopeless(self, number: int) -> bool:
        """Whether a trial should be pruned by its stages so far."""
        with storage_errors(self._path):
            return bool(self._one(number).stages) and self._trial(number).should_prune()

    def finish(self, number: int, value: float) -> None:
        """Store a trial's score."""
        with storage_errors(self._path):
            self._study.tell(number, value)

    def prune(self, number: int) -> None:
        """Store that a trial was pruned; the value of its last stage is its score."""
        with storage_errors(self._path):
            self._study.tell(number, state=self._optuna.trial.TrialState.PRUNED)

    def fail(self, number: int, failure: str, words: str) -> None:
        """Store that a trial failed, with the kind of failure and its message."""
        with storage_errors(self._path):
            trial = self._trial(number)
            trial.set_user_attr(FAILURE, failure)
            trial.set_user_attr(WORDS, words)
            self._study.tell(number, state=self._optuna.trial.TrialState.FAIL)

    def note(self, number: int, **facts: Any) -> None:
        """Store facts with a trial."""
        with storage_errors(self._path):
            kept = self._one(number).notes
            self._trial(number).set_user_attr(NOTES, {**kept, **facts})

    def importances(self) -> dict[str, float]:
        """Return the importance of each key, greatest first; empty while there are too few trials.

        It is computed by PED-ANOVA, which compares the best trials with all, including pruned ones.
        """
        scored = [
            trial
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state.name in ("COMPLETE", "PRUNED") and trial.value is not None
        ]
        values = [trial.value for trial in scored if trial.value is not None]
        if len(scored) < FEWEST_FOR_IMPORTANCE or min(values) == max(values):
            return {}
        study = self._optuna.create_study(direction=self._study.direction)
        for trial in scored:
            study.add_trial(
                self._optuna.trial.create_trial(
                    params=trial.params, distributions=trial.distributions, value=trial.value
                )
            )
        # At least five good trials, as its authors advise, and at most half of all.
        share = min(0.5, max(0.1, 5 / len(scored)))
        evaluator = self._optuna.importance.PedAnovaImportanceEvaluator(target_quantile=share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about few trials, which the plot shows
            found = self._optuna.importance.get_param_importances(study, evaluator=evaluator)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def _sampler(self, number: int) -> Any:
        return self._optuna.samplers.TPESampler(
            seed=self._seeds.integer("search", number),
            n_startup_trials=FIRST_TRIALS,
            multivariate=True,
            constant_liar=True,
        )

    def _suggest(self, trial: optuna.Trial) -> None:
        for key, dimension in self._space.items():
            if not isinstance(dimension, Range):
                trial.suggest_categorical(key, dimension.options)
            elif dimension.is_whole:
                low, high = int(dimension.low), int(dimension.high)
                trial.suggest_int(key, low, high, step=dimension.step, log=dimension.is_log)
            else:
                trial.suggest_float(key, dimension.low, dimension.high, log=dimension.is_log)

    def _trial(self, number: int) -> optuna.Trial:
        study_id = self._storage.get_study_id_from_name(self._name)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
        trial: optuna.Trial = self._optuna.trial.Trial(self._study, trial_id)
        return trial

    def _one(self, number: int) -> TrialRecord:
        return self.records()[number]


def _pruner(optuna: Any, pruner: Pruner) -> Any:
    match pruner:
        case "median":
            return optuna.pruners.MedianPruner(
                n_startup_trials=UNPRUNED_TRIALS, n_warmup_steps=UNPRUNED_STAGES
            )
        case "hyperband":
            return optuna.pruners.HyperbandPruner(
                min_resource=1, max_resource=STAGES, reduction_factor=REDUCTION
            )
        case "none":
            return optuna.pruners.NopPruner()


def _record(trial: Any) -> TrialRecord:
    states: dict[str, TrialState] = {
        "WAITING": "waiting",
        "RUNNING": "running",
        "COMPLETE": "complete",
        "PRUNED": "pruned",
        "FAIL": "failed",
    }
    return TrialRecord(
        number=trial.number,
        state=states[trial.state.name],
        params=dict(trial.params),
        value=trial.value,
        stages=dict(trial.intermediate_values),
        failure=str(trial.user_attrs.get(FAILURE, "")),
        words=str(trial.user_attrs.get(WORDS, "")),
        notes=dict(trial.user_attrs.get(NOTES, {})),
    )

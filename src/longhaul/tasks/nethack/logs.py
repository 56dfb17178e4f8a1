"""What training came to, of a run of ours or by a log the predecessor wrote, in one table.

Both are training games, played while the policy learned. The predecessor read a game's score after
its last step, where a game that is over shows 0; ours can be read the same way.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Row, RunLog, TrainingSummary
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import mean_interval
from longhaul.tasks.nethack.evaluation import STEP_CAP
from longhaul.tasks.nethack.options import RewardKind
from longhaul.tasks.nethack.source import CAP

SCORES, REWARDS, LENGTHS = "episode_scores", "episode_rewards", "episode_lengths"
STEP_ENTROPY = "policy/alpha_entropy"
LAST = 100
UNPAIRED = (
    "These are training games, of other seeds in each row, played by a policy that still learned: "
    "there is no P(better), no paired difference and no held-out score."
)
CAPS = "Games of different caps cannot be compared: the longer a game may last, the more it scores."


@dataclass(frozen=True, slots=True)
class EpisodeHistory:
    """The games of a training, in their order."""

    read_late: tuple[float, ...]
    """Scores as read after the last step: 0 for every game that ended by itself."""
    scores: tuple[float, ...]
    """At the last living moment; empty if the log does not hold them."""
    rewards: tuple[float, ...]
    lengths: tuple[int, ...]
    entropy: tuple[float, ...]
    """Of the experts' weights, of those games for which it is known."""
    caps: tuple[int, ...]
    """Steps after which games were cut, empty if the log does not hold it."""


def summarize_training(reward: RewardKind) -> Callable[[RunLog | str], TrainingSummary]:
    """Return what makes a row of a run whose reward is this one, or of the text of a log."""

    def summarize(training: RunLog | str) -> TrainingSummary:
        if isinstance(training, str):
            return summary(read_history(training), ())
        paid = f"Returns are of the {reward} reward, unlike a log's." if reward != "score" else ""
        return summary(history_of(training), (paid,) if paid else ())

    return summarize


def history_of(log: RunLog) -> EpisodeHistory:
    """Return the games of a run."""
    entropy = {int(row["iteration"]): row.get(STEP_ENTROPY) for row in log.metrics}
    episodes = log.episodes()
    rows = [{**episode.get("metrics", {}), "end_reason": episode["reason"]} for episode in episodes]
    return _history(
        rows,
        rewards=[float(episode["episode_return"]) for episode in episodes],
        lengths=[int(episode["length"]) for episode in episodes],
        entropy=[entropy.get(int(episode["iteration"])) for episode in episodes],
    )


def _history(
    rows: Sequence[Row],
    *,
    rewards: Sequence[float],
    lengths: Sequence[int],
    entropy: Sequence[float | None],
) -> EpisodeHistory:
    scores = [float(row.get("score", 0.0)) for row in rows]
    late = [s if row["end_reason"] == CAP else 0.0 for s, row in zip(scores, rows, strict=True)]
    return EpisodeHistory(
        tuple(late),
        tuple(scores),
        tuple(rewards),
        tuple(lengths),
        tuple(float(one) for one in entropy if one is not None),
        tuple(sorted({int(row[STEP_CAP]) for row in rows if STEP_CAP in row})),
    )


def read_history(text: str) -> EpisodeHistory:
    """Return the games of a `training_log.json`, of ours or of the predecessor's."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"no training log: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"no training log: it holds a {type(found).__name__}, not an object")
    scores, rewards, lengths = (_numbers(found, key) for key in (SCORES, REWARDS, LENGTHS))
    if not len(scores) == len(rewards) == len(lengths):
        raise ConfigError(
            f"no training log: {SCORES}, {REWARDS} and {LENGTHS} have "
            f"{len(scores)}, {len(rewards)} and {len(lengths)} values"
        )
    monitor = found.get("monitor_metrics")
    monitor = monitor if isinstance(monitor, Mapping) else {}
    # Older readers disagreed about the name, and about where it is.
    entropy = monitor.get("alpha_entropy") or found.get("alpha_entropies") or []
    entropy = [one for one in entropy if _is_number(one)] if isinstance(entropy, list) else []
    own = found.get("episodes")
    if isinstance(own, list) and len(own) == len(scores) and all(map(_is_ours, own)):
        return _history(own, rewards=rewards, lengths=list(map(int, lengths)), entropy=entropy)
    config = found.get("config")
    cap: Any = config.get("max_steps") if isinstance(config, Mapping) else None
    caps = (int(cap),) if _is_number(cap) else ()
    steps = tuple(map(int, lengths))
    return EpisodeHistory(tuple(scores), (), tuple(rewards), steps, tuple(entropy), caps)


def _is_ours(row: object) -> bool:
    return isinstance(row, Mapping) and "end_reason" in row and "score" in row


def _numbers(found: Mapping[str, Any], key: str) -> list[float]:
    values = found.get(key)
    if not isinstance(values, list):
        raise ConfigError(f"no training log: it has no list {key!r}")
    for place, value in enumerate(values):
        if not _is_number(value):
            raise ConfigError(f"no training log: {key}[{place}] is {value!r}, not a number")
    return list(map(float, values))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def summary(history: EpisodeHistory, notes: tuple[str, ...]) -> TrainingSummary:
    """Return the row of a training."""
    late = history.read_late
    if not late:
        raise ConfigError("no training log: not a single game has ended in it")
    cells = {
        "games": f"{len(late):,}",
        "cap": ", ".join(map(str, history.caps)) or "not in the log",
        "score": _mean(history.scores) if history.scores else "not in the log",
        "score read late": _mean(late),
        "median": f"{statistics.median(late):.4g}",
        f"last {LAST}": _mean(late[-LAST:]),
        "best": f"{max(late):.4g}",
        "return": _mean(history.rewards),
        "steps": f"{statistics.fmean(history.lengths):.4g}",
        "entropy": f"{statistics.fmean(history.entropy):.3f}" if history.entropy else "-",
    }
    if not history.scores:
        notes = (
            *notes,
            "A score that was read late is 0 for every game that ended by itself; the true one "
            "is not in the log. The columns from 'score read late' to 'best' read all games so.",
        )
    return TrainingSummary(cells, (*notes, CAPS, UNPAIRED))


def _mean(values: Sequence[float]) -> str:
    """Return the mean with its 95 % interval, as if each game were drawn alone."""
    low, high = mean_interval(values, Seeds(0).generator("nethack", "bootstrap"))
    return f"{statistics.fmean(values):.4g} [{low:.4g}, {high:.4g}]"

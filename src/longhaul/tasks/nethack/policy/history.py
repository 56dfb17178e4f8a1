"""A run as one table of episodes, and as one row per phase."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longhaul.core.evaluation import Records, Row, RunLog
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import mean_interval
from longhaul.tasks.nethack.policy.health import INFORMATION, STEP_ENTROPY
from longhaul.tasks.nethack.policy.options import LEARNING_RATE, TEMPERATURE, TEMPERATURE_SCALE
from longhaul.tasks.nethack.policy.phases import METRIC

LOG_FILE = "training_log.json"
PHASES_FILE = "phases.jsonl"
PHASES_TABLE = "phases.md"
SHARES = "policy/expert_share/"
WEIGHTS = "policy/expert_weight/"
LOSS = "train/aux_"

MONITORED = {"alpha_entropy": STEP_ENTROPY, "gradient_norm": "train/grad_norm"}
"""Of each episode, what was measured in the iteration it ended in, by its name in the log."""


def history_records(log: RunLog, names: Sequence[str]) -> Records:
    """Return the log of episodes and the comparison of phases; `names` are the phases'."""
    phases = phase_rows(log, names)
    return {
        LOG_FILE: json.dumps(training_log(log, names)) + "\n",
        PHASES_FILE: "".join(json.dumps(phase) + "\n" for phase in phases),
        PHASES_TABLE: phase_table(phases),
    }


def training_log(log: RunLog, names: Sequence[str]) -> dict[str, Any]:
    """Return every episode with what was measured in its iteration, in one dictionary of lists."""
    episodes = log.episodes()
    measured = {int(row["iteration"]): row for row in log.metrics}
    settings = log.settings_by_iteration()
    scores = [_score(episode) for episode in episodes]
    rewards = [float(episode["episode_return"]) for episode in episodes]
    lengths = [int(episode["length"]) for episode in episodes]
    own = [measured.get(int(episode["iteration"]), {}) for episode in episodes]
    monitor: dict[str, list[Any]] = {
        "episode_score": scores,
        "episode_reward": rewards,
        "episode_length": lengths,
        **{name: [row.get(metric) for row in own] for name, metric in MONITORED.items()},
        "expert_usage_variance": [_variance(row) for row in own],
    }
    return {
        "episode_rewards": rewards,
        "episode_lengths": lengths,
        "episode_scores": scores,
        "best_reward": max(rewards, default=None),
        "best_score": max(scores, default=None),
        "config": {"name": log.name, "settings": dict(log.settings)},
        "monitor_metrics": monitor,
        "episodes": [
            {
                "phase": _phase_name(row, names),
                "temperature": _temperature(settings.get(int(episode["iteration"]), {})),
                "learning_rate": settings.get(int(episode["iteration"]), {}).get(LEARNING_RATE),
                "end_reason": episode["reason"],
                **episode.get("metrics", {}),
                **{k: v for k, v in row.items() if k.startswith(("policy/", "train/"))},
            }
            for episode, row in zip(episodes, own, strict=True)
        ],
    }


def _temperature(settings: Mapping[str, Any]) -> float | None:
    """Return what the router's logits were divided by, None where it is not known."""
    if TEMPERATURE.name not in settings:
        return None
    scale = settings.get(TEMPERATURE_SCALE.name, TEMPERATURE_SCALE.default)
    return float(settings[TEMPERATURE.name]) * float(scale)


def _score(episode: Row) -> float:
    return float(episode.get("metrics", {}).get("score", 0.0))


def _variance(row: Row) -> float | None:
    """Return the variance across experts of their mean weights."""
    weights = [float(value) for name, value in row.items() if name.startswith(WEIGHTS)]
    return statistics.pvariance(weights) if weights else None


def _phase_name(row: Row, names: Sequence[str]) -> str:
    number = int(row.get(METRIC, 0))
    return names[number - 1] if 0 < number <= len(names) else ""


def phase_rows(log: RunLog, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row of figures for each phase the run has been in."""
    phase_of = {int(row["iteration"]): _phase_name(row, names) for row in log.metrics}
    found = []
    for name in dict.fromkeys(phase_of.values()):
        own = [row for row in log.metrics if phase_of[int(row["iteration"])] == name]
        episodes = [e for e in log.episodes() if phase_of.get(int(e["iteration"])) == name]
        figures = list(_estimates(name, own, episodes))
        found.append({"phase": name, **dict(_phase_figures(own, episodes)), "estimates": figures})
    return found


def _estimates(
    phase: str, rows: Sequence[Row], episodes: Sequence[Row]
) -> Iterator[dict[str, Any]]:
    """Yield means with their 95 % intervals, of games and of iterations as if each were drawn
    alone."""
    measured = (
        ("score", [_score(episode) for episode in episodes]),
        (
            "entropy of a step's weights",
            [float(r[STEP_ENTROPY]) for r in rows if STEP_ENTROPY in r],
        ),
    )
    for what, numbers in measured:
        if numbers:
            mean = statistics.fmean(numbers)
            low, high = mean_interval(numbers, Seeds(0).generator("nethack", "bootstrap"))
            yield {"phase": phase, "figure": what, "value": mean, "low": low, "high": high}


def _phase_figures(rows: Sequence[Row], episodes: Sequence[Row]) -> Iterator[tuple[str, Any]]:
    scores = [_score(episode) for episode in episodes]
    yield "iterations", len(rows)
    yield "episodes", len(episodes)
    yield "scores", scores
    if scores:
        yield "score_mean", statistics.fmean(scores)
        yield "score_median", statistics.median(scores)
        yield "score_deviation", statistics.pstdev(scores)
        yield "score_best", max(scores)
        yield "return_mean", statistics.fmean(float(e["episode_return"]) for e in episodes)
    for title, metric in (
        ("step_entropy", STEP_ENTROPY),
        ("information", INFORMATION),
        ("alignment_loss", f"{LOSS}alignment"),
        ("semantic_loss", f"{LOSS}semantic"),
        ("gradient_norm", "train/grad_norm"),
    ):
        values = [float(row[metric]) for row in rows if metric in row]
        if values:
            yield title, statistics.fmean(values)
            yield f"{title}_last", values[-1]
    shares = [name for name in (rows[-1] if rows else {}) if name.startswith(SHARES)]
    yield (
        "shares",
        {
            name.removeprefix(SHARES): statistics.fmean(float(row.get(name, 0.0)) for row in rows)
            for name in shares
        },
    )


COLUMNS = (
    ("phase", "phase", ""),
    ("episodes", "episodes", ",d"),
    ("score", "score_mean", ".1f"),
    ("median", "score_median", ".1f"),
    ("best", "score_best", ".0f"),
    ("return", "return_mean", ".1f"),
    ("step entropy", "step_entropy", ".3f"),
    ("alignment", "alignment_loss", ".4f"),
    ("information", "information", ".3f"),
    ("gradient", "gradient_norm", ".2f"),
)


def phase_table(phases: Sequence[Mapping[str, Any]]) -> str:
    """Return the phases side by side as a Markdown table."""
    titles = [title for title, _, _ in COLUMNS]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for phase in phases:
        cells = [format(phase[key], form) if key in phase else "" for _, key, form in COLUMNS]
        shares = ", ".join(f"{name} {share:.0%}" for name, share in phase["shares"].items())
        lines.append(f"| {' | '.join(cells)} |")
        lines.append(f"| | {shares} |" + " |" * (len(titles) - 2))
    return "\n".join(lines) + "\n"

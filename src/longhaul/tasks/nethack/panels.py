"""What to look at after a run, as pictures."""

from __future__ import annotations

from longhaul.core.panel import Panel

PANELS = (
    Panel(
        "Score",
        ("env/score", "eval/score", "eval/score_median"),
        name="score",
        right=("env/deepest_level",),
        note="true in-game score, of training games and of held-out ones",
    ),
    Panel(
        "How games end",
        ("env/ended/death", "env/ended/cap", "env/ended/abort"),
        name="ends",
        right=("env/turns",),
    ),
    Panel(
        "Scores of held-out games",
        ("score",),
        kind="histogram",
        name="score_distribution",
        records="events.jsonl",
        event="evaluated",
        each="games",
        label="true score",
    ),
    Panel(
        "What is paid",
        ("reward/score", "reward/frozen"),
        name="reward",
    ),
)

"""What to look at after a run, as pictures."""

from __future__ import annotations

from longhaul.core.panel import Panel

PANELS = (
    Panel(
        "Stages cleared",
        ("eval/clear_rate", "env/clear_rate"),
        name="clear_rate",
        right=("starts/hard_share",),
        note="evaluations begin at the true start; training episodes may begin at hard starts",
    ),
    Panel("New ground", ("eval/mean_progress", "eval/max_progress", "env/progress"), name="ground"),
    Panel(
        "What ends training episodes",
        ("env/ended/flag", "env/ended/enemy", "env/ended/pit", "env/ended/stagnation"),
        name="ends",
    ),
    Panel(
        "What is paid",
        ("reward/progress_share", "reward/death_share", "reward/flag_share", "reward/time_share"),
        name="reward",
        note="shares of all that was paid and taken in an iteration",
    ),
    Panel(
        "Where evaluated episodes end",
        ("end_x",),
        kind="histogram",
        name="ends_x",
        records="events.jsonl",
        event="evaluated",
        each="stages",
    ),
)

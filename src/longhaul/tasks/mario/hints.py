"""What a Mario run may say about itself beside the general rules."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.hint import Finding, Recent

FARTHEST, HELPING = "env/max_progress", "env/helping"
HELP_KEY = "options.schedule.help.bootstrap_after"


@dataclass(frozen=True, slots=True)
class NoForwardProgress:
    """No episode wins ground, whatever the policy tries."""

    name: str = "no-forward-progress"
    window: int = 10
    """Iterations with ended episodes in all of which none won ground."""
    cooldown: int = 200
    """Iterations before it speaks again, twice as many each time."""
    least: float = 16.0
    """New ground, in pixels, that counts: one tile."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """How far episodes come, and whether a script helps them."""
        return (FARTHEST, HELPING)

    def judge(self, recent: Recent) -> Finding | None:
        """Look at the farthest episode of each iteration."""
        farthest = recent.latest(FARTHEST, self.window)
        if recent.last(FARTHEST) is None or len(farthest) < self.window:
            return None
        if max(farthest) >= self.least or recent.last(HELPING):
            return None
        script = str(recent.facts.get("options.script", ""))
        soon = recent.progress.iteration + 10
        help_key = f"{HELP_KEY} = {soon}"
        advice = (
            f"Begin episodes with the script: set {help_key}."
            if script
            else f"Give them a push: set options.script = 'FORWARD:40' and {help_key}."
        )
        return Finding(
            evidence=(
                f"In the last {self.window} iterations the farthest episode won "
                f"{max(farthest):.0f} pixels of new ground; one tile is 16."
            ),
            cause=(
                "The policy stands, turns back or dies at once, so it never sees what moving on "
                "pays."
            ),
            advice=advice,
            setting=HELP_KEY,
            value=soon,
        )


HINTS = (NoForwardProgress(),)

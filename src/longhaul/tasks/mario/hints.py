"""Hints for Mario runs, beside the general ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longhaul.core.hint import Finding, HintRule, Recent

FARTHEST, HELPING = "env/max_progress", "env/helping"
PROGRESS, STOOD_STILL = "env/progress", "env/ended/stagnation"
DEATH = "options.reward.death"
REACHED, CLEARED = "starts/farthest", "env/clear_rate"
SHARE, ENTROPY = "options.starts.share", "learn.ent_coef"
HELP_KEY = "options.schedule.help.bootstrap_after"


@dataclass(frozen=True, slots=True)
class NoForwardProgress(HintRule):
    """No episode makes progress."""

    name: str = "no-forward-progress"
    window: int = 10
    """Iterations with ended episodes in which none made progress."""
    least: float = 16.0
    """New ground, in pixels, that counts: one tile."""

    reads: ClassVar[tuple[str, ...]] = (FARTHEST, HELPING)

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
            else f"Set options.script = 'FORWARD:40' and {help_key}."
        )
        return Finding(
            evidence=(
                f"In the last {self.window} iterations the farthest episode gained "
                f"{max(farthest):.0f} pixels of new ground; one tile is 16."
            ),
            cause=(
                "The policy stands, turns back or dies at once, so it never gets the reward for "
                "progress."
            ),
            advice=advice,
            setting=HELP_KEY,
            value=soon,
        )


@dataclass(frozen=True, slots=True)
class LearnedToStandStill(HintRule):
    """Episodes gain less ground than at first, and most end because Mario stands still."""

    name: str = "learned-to-stand-still"
    window: int = 10
    """Iterations it looks at."""
    least_share: float = 0.4
    """Share of the episodes that must have ended by standing still."""
    most_progress: float = 0.75
    """Share of the first iterations' progress below which progress counts as lost."""

    reads: ClassVar[tuple[str, ...]] = (PROGRESS, STOOD_STILL)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the last iterations with the first ones."""
        progress, opening = recent.values(PROGRESS, self.window), recent.opening(PROGRESS)
        if len(progress) < self.window or recent.span < 2 * self.window:
            return None
        # The share is absent where no episode ended so.
        share = sum(recent.values(STOOD_STILL, self.window)) / len(progress)
        present, first = sum(progress) / len(progress), sum(opening) / len(opening)
        if share < self.least_share or present > self.most_progress * first:
            return None
        death = recent.number(DEATH)
        cheaper = round(death / 5, 3)
        return Finding(
            evidence=(
                f"In the last {self.window} iterations {share:.0%} of the episodes ended because "
                f"Mario stood still. They gain {present:.0f} pixels of new ground on average; the "
                f"first iterations gained {first:.0f}."
            ),
            cause="The policy learned that standing still costs less than dying on the way.",
            advice=f"Make dying cheaper: set {DEATH} from {death:g} to {cheaper:g}.",
            setting=DEATH,
            value=cheaper,
        )


@dataclass(frozen=True, slots=True)
class ProgressPlateau(HintRule):
    """The farthest place has not moved for a long time, and no stage is cleared."""

    name: str = "progress-plateau"
    window: int = 100
    """Iterations it looks at, comparing the second half of them with the first."""
    least: float = 16.0
    """Pixels by which the farthest place must have moved: one tile."""

    reads: ClassVar[tuple[str, ...]] = (REACHED, FARTHEST, CLEARED)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the farthest ends of the two halves of the window."""
        metric = REACHED if recent.values(REACHED, self.window) else FARTHEST
        both = recent.values(metric, self.window)
        half = self.window // 2
        if recent.span < self.window or len(both) < half or recent.last(metric) is None:
            return None
        newer = recent.values(metric, half)
        before = max(both[: len(both) - len(newer)], default=0.0)
        if not newer or before < self.least or max(newer) >= before + self.least:
            return None
        if any(recent.values(CLEARED, self.window)):
            return None
        share, bonus = recent.number(SHARE), recent.number(ENTROPY)
        key, value = (SHARE, 0.4) if share == 0 else (ENTROPY, round(2 * bonus, 6) or 0.01)
        advice = (
            f"Begin episodes where others ended: set {key} = {value:g}."
            if key == SHARE
            else f"Explore more: set {recent.setting(key)} from {bonus:g} to {value:g}."
        )
        return Finding(
            evidence=(
                f"The farthest end of the last {half} iterations is {max(newer):.0f} pixels from "
                f"the start; {before:.0f} were reached before, and no episode clears its stage."
            ),
            cause="No episode gets past the same obstacle, so nothing behind it is ever learned.",
            advice=advice,
            setting=key,
            value=value,
        )


HINTS = (NoForwardProgress(), LearnedToStandStill(), ProgressPlateau())

"""Rules about the steps of the learner: how far they move the policy, and how long they are."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from longhaul.core.hint import Finding, Recent
from longhaul.hints.learning import ENTROPY, KL, MOST_ENTROPY, RATE, RATE_KEY
from longhaul.hints.rule import HintRule, median, number, rounded

CLIPPED, GRADIENT = "train/clip_fraction", "train/grad_norm"
HEALTHY_CLIPPED, CERTAIN = 0.1, 0.1


@dataclass(frozen=True, slots=True)
class UpdatesTooLarge(HintRule):
    """The policy moves too far in one update: KL or clip fraction is far above what PPO takes."""

    name: str = "updates-too-large"
    window: int = 10
    """Iterations whose median is judged."""
    most_kl: float = 0.1
    """Largest healthy divergence."""
    most_clipped: float = 0.4
    """Largest healthy share of clipped ratios."""
    healthy_kl: float = 0.02
    """The divergence the advice aims at."""
    ruinous_kl: float = 1.0
    """A divergence that is reported at once: one such update can undo all learning."""

    reads: ClassVar[tuple[str, ...]] = (KL, CLIPPED, RATE)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the medians with their limits, and the last update with what ruins a policy."""
        last = recent.last(KL) or 0.0
        if last > self.ruinous_kl:
            return self._found(recent, "In the last iteration", last, recent.last(CLIPPED))
        divergences = list(recent.values(KL, self.window))
        if len(divergences) < self.window:
            return None
        shares = list(recent.values(CLIPPED, self.window))
        divergence, clipped = median(divergences), median(shares) if shares else None
        if divergence <= self.most_kl and (clipped or 0.0) <= self.most_clipped:
            return None
        return self._found(recent, f"In the last {self.window} iterations", divergence, clipped)

    def _found(
        self, recent: Recent, when: str, divergence: float, clipped: float | None
    ) -> Finding:
        rate = recent.last(RATE) or recent.number(RATE_KEY)
        # The divergence grows with the square of the step, the share of clipped ratios with it.
        factor = min(
            math.sqrt(self.healthy_kl / max(divergence, self.healthy_kl)),
            HEALTHY_CLIPPED / max(clipped or 0.0, HEALTHY_CLIPPED),
        )
        lower = rounded(rate * max(factor, 0.01))
        share = "" if clipped is None else f" and {100 * clipped:.0f} % of the ratios were clipped"
        return Finding(
            evidence=(
                f"{when} the policy moved by {number(divergence)} nats an update (approx. KL)"
                f"{share}; healthy is about {self.healthy_kl:g}."
            ),
            cause="Steps that long undo what the steps before them learned.",
            advice=(
                f"Lower {recent.setting(RATE_KEY)} from {number(rate)} to {number(lower)}, or let "
                f"learn.target_kl = {self.healthy_kl:g} end the epochs early."
            ),
            setting=RATE_KEY,
            value=lower,
        )


@dataclass(frozen=True, slots=True)
class UpdatesTooSmall(HintRule):
    """The policy hardly moves although the learning rate is not being lowered."""

    name: str = "updates-too-small"
    window: int = 40
    """Iterations in all of which it hardly moved."""
    cooldown: int = 400
    least_kl: float = 2e-5
    """Divergence below which a policy hardly moves."""

    reads: ClassVar[tuple[str, ...]] = (KL, CLIPPED, RATE, ENTROPY)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the largest divergence with the limit."""
        divergences = recent.values(KL, self.window)
        rates = recent.values(RATE, self.window)
        if len(divergences) < self.window or len(rates) < self.window:
            return None
        most = max(divergences)
        rate, begun = rates[-1], recent.number(RATE_KEY, rates[-1])
        is_scheduled = rates[-1] != rates[0] or rate < begun / 2
        # A policy that is certain of all it does cannot move: that is for another rule.
        if -(recent.last(ENTROPY) or 0.0) < CERTAIN * recent.number(MOST_ENTROPY):
            return None
        if is_scheduled or most >= self.least_kl or any(recent.values(CLIPPED, self.window)):
            return None
        higher = rounded(3 * rate)
        return Finding(
            evidence=(
                f"For {self.window} iterations no update moved the policy by more than "
                f"{number(most)} nats (approx. KL), and not one ratio was clipped."
            ),
            cause="The steps are so short that the run spends its rollouts and learns nothing.",
            advice=f"Raise {recent.setting(RATE_KEY)} from {number(rate)} to {number(higher)}.",
            setting=RATE_KEY,
            value=higher,
        )


@dataclass(frozen=True, slots=True)
class GradientsTooLong(HintRule):
    """Gradients are so long that shortening them leaves only their direction."""

    name: str = "gradients-too-long"
    window: int = 20
    """Iterations whose median is judged."""
    cooldown: int = 400
    most: float = 100.0
    """Multiple of learn.max_grad_norm that is too long."""

    reads: ClassVar[tuple[str, ...]] = (GRADIENT,)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the median length with the longest that is followed as it is."""
        limit = recent.number("learn.max_grad_norm")
        lengths = list(recent.values(GRADIENT, self.window))
        if limit <= 0 or len(lengths) < self.window or median(lengths) <= self.most * limit:
            return None
        evidence = (
            f"Gradients are {number(median(lengths))} long and cut to {number(limit)}, "
            f"{number(median(lengths) / limit)} times shorter."
        )
        if not recent.facts.get("learn.normalize_reward"):
            return Finding(
                evidence,
                "Rewards are large, so the value loss drowns what the policy has to learn.",
                "Set learn.normalize_reward = true, or divide the rewards.",
                "learn.normalize_reward",
                value=True,
            )
        weight = recent.number("learn.vf_coef")
        lower = rounded(weight / 2)
        return Finding(
            evidence,
            "One part of the loss drowns the others.",
            f"Lower learn.vf_coef from {number(weight)} to {number(lower)}.",
            "learn.vf_coef",
            lower,
        )


@dataclass(frozen=True, slots=True)
class StillWarmingUp(HintRule):
    """The learning rate is still on its way up, so flat curves mean nothing yet."""

    name: str = "still-warming-up"
    window: int = 30
    """Iterations in all of which the rate rose."""
    cooldown: int = 400
    share: float = 0.5
    """Share of learn.learning_rate below which it is worth saying."""

    reads: ClassVar[tuple[str, ...]] = (RATE,)

    def judge(self, recent: Recent) -> Finding | None:
        """Look for a rate that only rises and is far from where it is to be."""
        rates, goal = recent.values(RATE, self.window), recent.number(RATE_KEY)
        if len(rates) < self.window or rates[-1] >= self.share * goal:
            return None
        rises = all(before <= after for before, after in itertools.pairwise(rates))
        gained = (rates[-1] - rates[0]) / (self.window - 1)
        if not rises or gained <= 0:
            return None
        left = (goal - rates[-1]) / gained
        return Finding(
            evidence=(
                f"At iteration {recent.progress.iteration:,} the learning rate is "
                f"{number(rates[-1])}, {100 * rates[-1] / goal:.0f} % of {RATE_KEY} = "
                f"{number(goal)}, and still rising."
            ),
            cause="The schedule is warming up: curves that are flat so far say nothing.",
            advice=(
                f"At this pace it takes {number(left)} iterations more; shorten the ramp of "
                f"{RATE_KEY} in [[schedule]] to a third if that is too long."
            ),
            setting="schedule",
        )

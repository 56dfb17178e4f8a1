"""Rules about the steps of the learner: how far they move the policy, and how long they are."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from longhaul.core.hint import Finding, HintRule, Recent
from longhaul.hints.numbers import median, number, rounded

KL, RATE, ENTROPY = "train/approx_kl", "train/learning_rate", "train/entropy_loss"
LOSS, EXPLAINED = "train/value_loss", "train/explained_variance"
RETURN, SPREAD = "rollout/ep_rew_mean", "policy/std"
SKIPPED, ROLLBACKS = "fault/skipped_updates", "fault/rollbacks"
RATE_KEY, ENTROPY_KEY = "learn.learning_rate", "learn.ent_coef"
SURE = 20  # iterations after which a policy without exploration is reported
MOST_ENTROPY = "action.most_entropy"
"""A fact: the entropy of a policy that chooses at random, for discrete actions."""
SOLVED = "solved"
"""A fact: the return at which the task counts as solved, where that is known."""


@dataclass(frozen=True, slots=True)
class LossAbnormal(HintRule):
    """The loss jumped while the values explain nothing, or numbers were not finite."""

    name: str = "loss-abnormal"
    window: int = 50
    """Iterations to look at; the last tenth is compared with the rest."""
    jump: float = 10.0
    """Multiple of the usual value loss that is abnormal."""

    reads: ClassVar[tuple[str, ...]] = (LOSS, EXPLAINED, RATE, SKIPPED, ROLLBACKS)

    def judge(self, recent: Recent) -> Finding | None:
        """Look for steps that were not finite first, then for a jump."""
        rate = recent.last(RATE) or recent.number(RATE_KEY)
        lower = rounded(rate / 3)
        skipped = sum(recent.values(SKIPPED, self.window))
        rollbacks = sum(recent.values(ROLLBACKS, self.window))
        advice = f"Lower {recent.setting(RATE_KEY)} from {number(rate)} to {number(lower)}"
        if skipped or rollbacks:
            return Finding(
                evidence=(
                    f"{skipped:.0f} optimizer steps were not finite and the weights went back "
                    f"{rollbacks:.0f} times in the last {min(self.window, recent.span)} iterations."
                ),
                cause="The gradient explodes; the run goes on only because such steps are undone.",
                advice=f"{advice}, or learn.max_grad_norm to half of what it is.",
                setting=RATE_KEY,
                value=lower,
            )
        losses = list(recent.values(LOSS, self.window))
        newest = self.window // 10
        if len(losses) < self.window:
            return None
        usual, now = median(losses[:-newest]), median(losses[-newest:])
        explained = list(recent.values(EXPLAINED, newest))
        is_explained = bool(explained) and median(explained) > 0
        if now <= self.jump * usual or is_explained:
            return None
        return Finding(
            evidence=(
                f"The value loss is {number(now)}, {number(now / usual)} times its median of "
                f"{number(usual)} over the iterations before"
                + (
                    f", and the values explain nothing (explained variance "
                    f"{number(median(explained))})."
                    if explained
                    else "."
                )
            ),
            cause="The value function has diverged, so the advantages are noise.",
            advice=f"{advice}; if rewards are large, set learn.normalize_reward = true.",
            setting=RATE_KEY,
            value=lower,
        )


@dataclass(frozen=True, slots=True)
class EntropyAbnormal(HintRule):
    """The policy has stopped exploring, or still acts as if at random."""

    name: str = "entropy-abnormal"
    window: int = 60
    """Iterations that are looked at."""
    cooldown: int = 300
    low: float = 0.02
    """Share of the largest possible entropy below which the policy no longer explores."""
    high: float = 0.985
    """Share of it above which the policy acts as if at random."""
    wide: float = 4.0
    """Multiple of the first standard deviation that is too wide, for continuous actions."""

    reads: ClassVar[tuple[str, ...]] = (ENTROPY, SPREAD, RETURN, KL)

    def judge(self, recent: Recent) -> Finding | None:
        """Judge discrete actions by their entropy, continuous ones by their spread."""
        most = recent.number(MOST_ENTROPY)
        if most <= 0:
            return self._judge_spread(recent)
        entropies = [-loss for loss in recent.values(ENTROPY, self.window)]
        if len(entropies) >= SURE and max(entropies[-SURE:]) < self.low * most:
            return None if self._is_well(recent) else self._too_low(recent, entropies[-1], most)
        if len(entropies) >= self.window and min(entropies) > self.high * most:
            return self._too_high(recent, entropies[-1], most)
        return None

    def _judge_spread(self, recent: Recent) -> Finding | None:
        opening, spreads = recent.opening(SPREAD), recent.values(SPREAD, self.window)
        if not opening or len(spreads) < self.window:
            return None
        now = min(spreads[-10:])
        if now <= self.wide * opening[0]:
            return None
        weight = recent.number(ENTROPY_KEY)
        lower = rounded(weight / 3)
        return Finding(
            evidence=(
                f"The standard deviation of the actions has grown from {number(opening[0])} to "
                f"{number(now)}."
            ),
            cause="The entropy bonus pays more than acting well does, so actions become noise.",
            advice=f"Lower {recent.setting(ENTROPY_KEY)} from {number(weight)} to {number(lower)}.",
            setting=ENTROPY_KEY,
            value=lower,
        )

    def _is_well(self, recent: Recent) -> bool:
        """Whether the task is solved or returns still grow: a policy may then be sure of itself."""
        returns = list(recent.values(RETURN, self.window))
        if len(returns) < SURE:
            return False
        if SOLVED in recent.facts and returns[-1] >= recent.number(SOLVED):
            return True
        third = len(returns) // 3
        before, now = median(returns[:third]), median(returns[-third:])
        return now > before + 0.02 * abs(before)

    def _too_low(self, recent: Recent, entropy: float, most: float) -> Finding:
        weight, rate = recent.number(ENTROPY_KEY), recent.number(RATE_KEY)
        higher = rounded(max(3 * weight, 0.01))
        farthest, at = max((value, at) for at, value in recent.history(KL) or ((0, 0.0),))
        evidence = (
            f"The policy's entropy is {number(entropy)} nats of {number(most)} possible, while "
            "returns no longer grow."
        )
        if farthest > 1.0:
            lower = rounded(rate / 10)
            return Finding(
                evidence,
                f"An update that moved it by {number(farthest)} nats (approx. KL, iteration "
                f"{at:,}) made it certain of itself, and a policy that is certain learns no more.",
                f"Restart with {recent.setting(RATE_KEY)} lowered from {number(rate)} to "
                f"{number(lower)}.",
                RATE_KEY,
                lower,
            )
        return Finding(
            evidence=evidence,
            cause="It always chooses the same actions and will not find anything better.",
            advice=(
                f"Raise {recent.setting(ENTROPY_KEY)} from {number(weight)} to {number(higher)}."
            ),
            setting=ENTROPY_KEY,
            value=higher,
        )

    def _too_high(self, recent: Recent, entropy: float, most: float) -> Finding:
        weight, rate = recent.number(ENTROPY_KEY), recent.number(RATE_KEY)
        evidence = (
            f"After {recent.progress.iteration:,} iterations the policy still acts as at random: "
            f"{number(entropy)} nats of {number(most)} possible."
        )
        if weight >= 0.02:
            lower = rounded(weight / 3)
            return Finding(
                evidence,
                "The entropy bonus pays more than the rewards do.",
                f"Lower {recent.setting(ENTROPY_KEY)} from {number(weight)} to {number(lower)}.",
                ENTROPY_KEY,
                lower,
            )
        higher = rounded(3 * rate)
        return Finding(
            evidence,
            "Either no action makes a difference to the rewards seen so far, or steps are short.",
            f"See whether rewards differ between episodes; if so, raise {RATE_KEY} from "
            f"{number(rate)} to {number(higher)}.",
            RATE_KEY,
            higher,
        )


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

"""Hints about the experts, the router and the graph of the player."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from longhaul.core.hint import Finding, HintRule, Recent, Rule
from longhaul.tasks.nethack.policy import health
from longhaul.tasks.nethack.policy.phases import METRIC as PHASE

SHARE = "policy/expert_share/"
SHARES = f"{SHARE}*"
ALIGNMENT = "train/aux_alignment"
GRADIENT = "train/grad_norm"
WARM_UP = 1.0
MODE = "options.phases.mode"


@dataclass(frozen=True, slots=True)
class _PlayerRule(HintRule):
    """A rule whose cause and advice are fixed; a subclass says what it measured."""

    cause: ClassVar[str]
    advice: ClassVar[str]
    key: ClassVar[str]
    value: ClassVar[float | None] = None

    window: int = health.SHARE_WINDOW
    """Iterations whose mean is judged."""
    cooldown: int = 300

    def judge(self, recent: Recent) -> Finding | None:
        """Return the finding if there is evidence for it."""
        evidence = self.evidence(recent)
        return (
            Finding(evidence, self.cause, self.advice, self.key, self.value) if evidence else None
        )

    def evidence(self, recent: Recent) -> str:
        """Return what was measured if it is not as it should be, else nothing."""
        raise NotImplementedError

    def _over_window(
        self,
        recent: Recent,
        metric: str,
        figure: Callable[[Sequence[float]], float] = statistics.fmean,
    ) -> float | None:
        """Return a figure of the last measurements, None before there are enough of them."""
        values = recent.values(metric, self.window)
        return figure(values) if len(values) >= self.window else None

    def _shares(self, recent: Recent) -> dict[str, float]:
        """Return how often each expert led on average."""
        means = {name: self._over_window(recent, name) for name in recent.names(SHARES)}
        return {name.removeprefix(SHARE): one for name, one in means.items() if one is not None}


@dataclass(frozen=True, slots=True)
class PlayerExpertsCollapsed(_PlayerRule):
    """One expert leads nearly always, or the weights of a step hardly mix."""

    reads = (SHARES, health.MEAN_ENTROPY)
    cause = "The other experts hardly act, so they cannot learn to be useful."
    advice = (
        "Raise options.phases.warm_up.load_balance threefold, or keep to the first phase "
        "longer by raising options.phases.scale."
    )
    key, value = "options.phases.warm_up.load_balance", 0.06

    name: str = "experts-collapsed"
    most_share: float = health.LARGEST_SHARE
    """Largest share of steps that one expert may lead."""
    least_entropy: float = health.LOWEST_ENTROPY
    """Least entropy of the mean weights, in nats."""

    def evidence(self, recent: Recent) -> str:
        """Look at the expert that leads most often."""
        shares = self._shares(recent)
        mixing = self._over_window(recent, health.MEAN_ENTROPY)
        busiest = max(shares, key=lambda name: shares[name]) if shares else ""
        is_low = mixing is not None and mixing < self.least_entropy
        if shares.get(busiest, 0.0) <= self.most_share and not is_low:
            return ""
        found = []
        if busiest:
            found.append(f"the expert {busiest} led {shares[busiest]:.0%} of the steps")
        if mixing is not None:
            found.append(f"the entropy of the mean weights was {mixing:.2f} nats")
        return f"Over {self.window} iterations {' and '.join(found)}."


@dataclass(frozen=True, slots=True)
class ExpertDead(_PlayerRule):
    """An expert hardly ever leads."""

    reads = (SHARES,)
    cause = "An expert that never leads is not trained by the outcome, and its capacity is lost."
    advice = (
        "Raise options.phases.transition.load_balance threefold, or train with fewer "
        "experts: options.policy.experts = 2."
    )
    key, value = "options.phases.transition.load_balance", 0.03

    name: str = "expert-dead"
    least_share: float = health.SMALLEST_SHARE
    """Share of steps below which an expert is dead."""

    def evidence(self, recent: Recent) -> str:
        """Look for experts that lead too seldom."""
        shares = self._shares(recent)
        dead = [f"{name} ({one:.1%})" for name, one in shares.items() if one < self.least_share]
        return f"Over {self.window} iterations hardly led: {', '.join(dead)}." if dead else ""


@dataclass(frozen=True, slots=True)
class ExpertsUndecided(_PlayerRule):
    """After the first phase, in which it is intended, the router still weighs all experts alike."""

    reads = (health.STEP_ENTROPY, PHASE)
    cause = "The router does not distinguish situations; all experts act as one."
    advice = "Lower options.phases.transition.temperature_end from 0.5 to 0.2."
    key, value = "options.phases.transition.temperature_end", 0.2

    name: str = "experts-undecided"
    window: int = health.ENTROPY_WINDOW
    most_entropy: float = health.HIGHEST_ENTROPY
    """Largest entropy of a step's weights, in nats."""

    def evidence(self, recent: Recent) -> str:
        """Compare the mean entropy with its limit, outside the first phase."""
        phase = self._over_window(recent, PHASE, min)
        mean = self._over_window(recent, health.STEP_ENTROPY)
        if phase is None or mean is None or phase <= WARM_UP or mean <= self.most_entropy:
            return ""
        return (
            f"For {self.window} iterations after the first phase the entropy of the experts' "
            f"weights averaged {mean:.2f} nats."
        )


@dataclass(frozen=True, slots=True)
class AttentionFlat(_PlayerRule):
    """The intent attends to all rules alike."""

    reads = (health.FOCUS,)
    cause = "All rules count alike, so the intent is the same in every situation."
    advice = "Raise options.policy.rule_boost to 4, and look at the rules with the study."
    key, value = "options.policy.rule_boost", 4.0

    name: str = "attention-flat"
    window: int = health.ENTROPY_WINDOW
    least_variation: float = health.LOWEST_FOCUS
    """Least squared coefficient of variation of the intent's attention."""

    def evidence(self, recent: Recent) -> str:
        """Compare the mean variation with its limit."""
        mean = self._over_window(recent, health.FOCUS)
        if mean is None or mean >= self.least_variation:
            return ""
        return (
            f"Over {self.window} iterations the attention to rules varied by {mean:.3f}; "
            "healthy is above 0.1."
        )


@dataclass(frozen=True, slots=True)
class PlayerGradientsTooLong(_PlayerRule):
    """Gradients before clipping are far longer than those of a healthy run."""

    reads = (GRADIENT,)
    cause = "Clipped that much, the step follows mostly noise."
    advice = "Halve options.phases.learning_rate_factor."
    key = "options.phases.learning_rate_factor"

    name: str = "gradients-too-long"
    window: int = health.GRADIENT_WINDOW
    """Iterations whose median is judged."""
    longest: float = health.LARGEST_GRADIENT
    """Longest gradient that is taken for healthy."""

    def evidence(self, recent: Recent) -> str:
        """Compare the median length with its limit."""
        median = self._over_window(recent, GRADIENT, statistics.median)
        if median is None or median <= self.longest:
            return ""
        return (
            f"In the last {self.window} iterations the gradient norm was {median:.1f}; healthy "
            f"is below {health.HEALTHY_GRADIENT:g}."
        )


@dataclass(frozen=True, slots=True)
class AlignmentStuck(_PlayerRule):
    """The router does not approach the recommendation of the rules."""

    reads = (ALIGNMENT,)
    cause = "The reward moves the router elsewhere, or its steps are too small."
    advice = "Raise options.phases.warm_up.alignment from 0.1 to 0.3."
    key, value = "options.phases.warm_up.alignment", 0.3

    name: str = "alignment-stuck"
    window: int = 20
    """Iterations whose mean is compared with the first few."""
    fall: float = health.ALIGNMENT_FALL
    """Share by which the loss should have fallen."""
    enough: float = 0.1
    """A loss below this is good enough whatever it was before."""
    after: int = 60
    """Iterations before it is checked."""

    def evidence(self, recent: Recent) -> str:
        """Compare the last mean with the first."""
        opening = recent.opening(ALIGNMENT)
        now = self._over_window(recent, ALIGNMENT)
        is_off = recent.facts.get(MODE) in ("baseline", "legacy")
        if is_off or now is None or not opening or recent.span < self.after:
            return ""
        first = statistics.fmean(opening)
        if now <= max((1 - self.fall) * first, self.enough):
            return ""
        return f"The alignment loss began at {first:.3f} and averages {now:.3f}."


RULES: tuple[Rule, ...] = (
    PlayerExpertsCollapsed(),
    ExpertDead(),
    ExpertsUndecided(),
    AttentionFlat(),
    PlayerGradientsTooLong(),
    AlignmentStuck(),
)
"""The rules of the player; those with the name of a general one take its place."""

"""What a run of the player says about itself when experts, router or graph are not well."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from longhaul.core.hint import Finding, Recent, Rule
from longhaul.tasks.nethack.policy import health
from longhaul.tasks.nethack.policy.phases import METRIC as PHASE

SHARE = "policy/expert_share/"
SHARES = f"{SHARE}*"
ALIGNMENT = "train/aux_alignment"
GRADIENT = "train/grad_norm"
WARM_UP = 1.0
MODE = "options.phases.mode"


def _full(recent: Recent, metric: str, window: int) -> Sequence[float]:
    """Return the last measurements of a metric, nothing before there are enough of them."""
    values = recent.values(metric, window)
    return values if len(values) >= window else ()


def _expert(metric: str) -> str:
    return metric.removeprefix(SHARE)


@dataclass(frozen=True, slots=True)
class ExpertsCollapsed:
    """One expert leads nearly always, or the weights of a step hardly mix."""

    name: str = "experts-collapsed"
    window: int = health.SHARE_WINDOW
    """Iterations whose mean is judged."""
    cooldown: int = 300
    """Iterations before it speaks again, twice as many each time."""
    most_share: float = health.LARGEST_SHARE
    """Largest share of steps that one expert may lead."""
    least_entropy: float = health.LOWEST_ENTROPY
    """Least entropy of the mean weights, in nats."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """How often each expert leads, and how evenly they are used."""
        return (SHARES, health.MEAN_ENTROPY)

    def judge(self, recent: Recent) -> Finding | None:
        """Look at the expert that leads most often."""
        shares = {
            _expert(name): statistics.fmean(values)
            for name in recent.names(SHARES)
            if (values := _full(recent, name, self.window))
        }
        entropy = _full(recent, health.MEAN_ENTROPY, self.window)
        mixing = statistics.fmean(entropy) if entropy else None
        busiest = max(shares, key=lambda name: shares[name]) if shares else ""
        is_low = mixing is not None and mixing < self.least_entropy
        if shares.get(busiest, 0.0) <= self.most_share and not is_low:
            return None
        told = []
        if busiest:
            told.append(f"the expert {busiest} led {shares[busiest]:.0%} of the steps")
        if mixing is not None:
            told.append(f"the entropy of the mean weights was {mixing:.2f} nats")
        return Finding(
            evidence=f"Over {self.window} iterations {' and '.join(told)}.",
            cause="The other experts hardly act, so that they cannot learn to be worth asking.",
            advice=(
                "Raise options.phases.warm_up.load_balance threefold, or keep to the first phase "
                "longer by raising options.phases.scale."
            ),
            setting="options.phases.warm_up.load_balance",
            value=0.06,
        )


@dataclass(frozen=True, slots=True)
class ExpertDead:
    """An expert hardly ever leads."""

    name: str = "expert-dead"
    window: int = health.SHARE_WINDOW
    """Iterations whose mean is judged."""
    cooldown: int = 300
    """Iterations before it speaks again, twice as many each time."""
    least_share: float = health.SMALLEST_SHARE
    """Share of steps below which an expert is dead."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """How often each expert leads."""
        return (SHARES,)

    def judge(self, recent: Recent) -> Finding | None:
        """Look for experts that lead too seldom."""
        dead = [
            f"{_expert(name)} ({statistics.fmean(values):.1%})"
            for name in recent.names(SHARES)
            if (values := _full(recent, name, self.window))
            and statistics.fmean(values) < self.least_share
        ]
        if not dead:
            return None
        return Finding(
            evidence=f"Over {self.window} iterations hardly led: {', '.join(dead)}.",
            cause="What never leads is not shaped by what happens, and its place is lost.",
            advice=(
                "Raise options.phases.transition.load_balance threefold, or train with fewer "
                "experts: options.policy.experts = 2."
            ),
            setting="options.phases.transition.load_balance",
            value=0.03,
        )


@dataclass(frozen=True, slots=True)
class ExpertsUndecided:
    """After the first phase, in which that is meant, the router still asks everybody alike."""

    name: str = "experts-undecided"
    window: int = health.ENTROPY_WINDOW
    """Iterations whose mean is judged."""
    cooldown: int = 300
    """Iterations before it speaks again, twice as many each time."""
    most_entropy: float = health.HIGHEST_ENTROPY
    """Largest entropy of a step's weights, in nats."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The entropy of a step's weights, and the phase."""
        return (health.STEP_ENTROPY, PHASE)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the mean entropy with its limit, outside the first phase."""
        phases = _full(recent, PHASE, self.window)
        entropy = _full(recent, health.STEP_ENTROPY, self.window)
        if not phases or not entropy or min(phases) <= WARM_UP:
            return None
        mean = statistics.fmean(entropy)
        if mean <= self.most_entropy:
            return None
        return Finding(
            evidence=(
                f"For {self.window} iterations after the first phase the entropy of the experts' "
                f"weights averaged {mean:.2f} nats."
            ),
            cause="The router does not tell situations apart; all experts act as one.",
            advice="Lower options.phases.transition.temperature_end from 0.5 to 0.2.",
            setting="options.phases.transition.temperature_end",
            value=0.2,
        )


@dataclass(frozen=True, slots=True)
class AttentionFlat:
    """The intent listens to all rules alike."""

    name: str = "attention-flat"
    window: int = health.ENTROPY_WINDOW
    """Iterations whose mean is judged."""
    cooldown: int = 300
    """Iterations before it speaks again, twice as many each time."""
    least_variation: float = health.LOWEST_FOCUS
    """Least squared coefficient of variation of the intent's attention."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """How unevenly the intent listens."""
        return (health.FOCUS,)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the mean variation with its limit."""
        variation = _full(recent, health.FOCUS, self.window)
        if not variation or statistics.fmean(variation) >= self.least_variation:
            return None
        return Finding(
            evidence=(
                f"Over {self.window} iterations the attention to rules varied by "
                f"{statistics.fmean(variation):.3f}; healthy is above 0.1."
            ),
            cause="All rules count alike, so that the intent says the same in every situation.",
            advice="Raise options.policy.rule_boost to 4, and look at the rules with the study.",
            setting="options.policy.rule_boost",
            value=4.0,
        )


@dataclass(frozen=True, slots=True)
class GradientsTooLong:
    """Gradients before shortening are far longer than those of a healthy run."""

    name: str = "gradients-too-long"
    window: int = health.GRADIENT_WINDOW
    """Iterations whose median is judged."""
    cooldown: int = 300
    """Iterations before it speaks again, twice as many each time."""
    longest: float = health.LARGEST_GRADIENT
    """Longest gradient that is taken for healthy."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The gradient's length before it is shortened."""
        return (GRADIENT,)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the median length with its limit."""
        lengths = _full(recent, GRADIENT, self.window)
        if not lengths or statistics.median(lengths) <= self.longest:
            return None
        return Finding(
            evidence=(
                f"In the last {self.window} iterations the gradient was "
                f"{statistics.median(lengths):.1f} long; healthy is below "
                f"{health.HEALTHY_GRADIENT:g}."
            ),
            cause="Shortened that much, little but the noise of its direction is left.",
            advice="Halve options.phases.learning_rate_factor.",
            setting="options.phases.learning_rate_factor",
        )


@dataclass(frozen=True, slots=True)
class AlignmentStuck:
    """The router does not come nearer to what the rules recommend."""

    name: str = "alignment-stuck"
    window: int = 20
    """Iterations whose mean is compared with the first few."""
    cooldown: int = 300
    """Iterations before it speaks again, twice as many each time."""
    fall: float = health.ALIGNMENT_FALL
    """Share by which the loss should have fallen."""
    enough: float = 0.1
    """A loss below this is good enough whatever it was before."""
    after: int = 60
    """Iterations it is given."""
    timed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The alignment loss."""
        return (ALIGNMENT,)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the last mean with the first."""
        opening = recent.opening(ALIGNMENT)
        values = _full(recent, ALIGNMENT, self.window)
        is_off = recent.facts.get(MODE) in ("baseline", "legacy")
        if is_off or not values or not opening or recent.span < self.after:
            return None
        first, now = statistics.fmean(opening), statistics.fmean(values)
        if now <= max((1 - self.fall) * first, self.enough):
            return None
        return Finding(
            evidence=f"The alignment loss began at {first:.3f} and averages {now:.3f}.",
            cause="What is rewarded pulls the router elsewhere, or its steps are too short.",
            advice="Raise options.phases.warm_up.alignment from 0.1 to 0.3.",
            setting="options.phases.warm_up.alignment",
            value=0.3,
        )


RULES: tuple[Rule, ...] = (
    ExpertsCollapsed(),
    ExpertDead(),
    ExpertsUndecided(),
    AttentionFlat(),
    GradientsTooLong(),
    AlignmentStuck(),
)
"""The rules of the player; those with the name of a general one take its place."""

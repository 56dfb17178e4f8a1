"""Rules about what steers a run: gates, queues of starts, experts, replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from longhaul.core.hint import Finding, HintRule, Recent
from longhaul.hints.numbers import median, number, rounded

FILL, CAPACITY, PUSHED = "replay/fill", "replay/capacity", "replay/pushed_total"
CAPACITY_KEY = "learn.replay.capacity"
SHARES, MIXING = "policy/expert_share/*", "policy/mean_alpha_entropy"


@dataclass(frozen=True, slots=True)
class GateStuck(HintRule):
    """A gate has not opened for many evaluations; says which metric blocks it and by how much."""

    name: str = "gate-stuck"
    window: int = 1
    """Iterations that are looked at; the gate itself counts."""
    cooldown: int = 300
    evaluations: int = 10
    """Evaluations at one stage before the rule reports."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The config key of each metric's threshold, where it is not in [[schedule]]."""

    reads: ClassVar[tuple[str, ...]] = ("gate/*_held", "gate/*_stage", "gate/*_missing/*")

    def judge(self, recent: Recent) -> Finding | None:
        """Look at the gates that judged an evaluation in this iteration."""
        for held in recent.names("gate/*_held"):
            prefix = held.removesuffix("_held")
            evaluations = recent.last(held) or 0.0
            missing = {
                name.removeprefix(f"{prefix}_missing/"): recent.last(name) or 0.0
                for name in recent.names(f"{prefix}_missing/*")
            }
            if evaluations >= self.evaluations and missing:
                return self._found(recent, prefix, evaluations, missing)
        return None

    def _found(
        self, recent: Recent, prefix: str, evaluations: float, missing: Mapping[str, float]
    ) -> Finding:
        gate = prefix.removeprefix("gate/")
        stage = recent.last(f"{prefix}_stage") or 0.0
        listed = " and ".join(
            f"{metric}, which is {number(short)} from its threshold"
            for metric, short in missing.items()
        )
        first, short = next(iter(missing.items()))
        key = self.settings.get(first, f"schedule.{gate}.success")
        return Finding(
            evidence=(
                f"Gate {gate!r} has stood at stage {stage:.0f} for {evaluations:.0f} evaluations; "
                f"blocked by {listed}."
            ),
            cause="The policy does not get better at what the gate asks for at this stage.",
            advice=(
                f"Train longer at this stage if that distance shrinks; if not, ease the threshold "
                f"of {first} ({key}) by {number(short)}."
            ),
            setting=key,
        )


@dataclass(frozen=True, slots=True)
class QueueLow(HintRule):
    """A queue of hard starts is running out before the run does."""

    name: str = "start-queue-low"
    window: int = 1
    """Iterations that are looked at; the queue itself counts."""
    cooldown: int = 400
    setting: str = ""
    """The config key that fills the queue, where it is not in [[schedule]]."""

    reads: ClassVar[tuple[str, ...]] = (
        "starts/*_warning",
        "starts/*_remaining",
        "starts/*_remaining_ratio",
    )

    def judge(self, recent: Recent) -> Finding | None:
        """Look for a queue that warns."""
        for warning in recent.names("starts/*_warning"):
            if recent.last(warning):
                return self._found(recent, warning.removesuffix("_warning"))
        return None

    def _found(self, recent: Recent, prefix: str) -> Finding:
        queue = prefix.removeprefix("starts/")
        left = recent.last(f"{prefix}_remaining") or 0.0
        ratio = recent.last(f"{prefix}_remaining_ratio") or 0.0
        key = self.setting or f"schedule.{queue}"
        half = max(1, round(left))
        return Finding(
            evidence=(
                f"The queue of starts {queue!r} has {number(left)} left, "
                f"{100 * ratio:.0f} % of all it began with."
            ),
            cause="Once it is empty, training goes on without the starts that are hardest.",
            advice=f"Add at least {half:,} more in {key}, or let its stages begin again.",
            setting=key,
        )


@dataclass(frozen=True, slots=True)
class ExpertsCollapsed(HintRule):
    """One expert does nearly everything, or the router no longer mixes."""

    name: str = "experts-collapsed"
    window: int = 50
    """Iterations whose median is judged."""
    cooldown: int = 300
    most_share: float = 0.8
    """Largest share one expert may have."""
    least_entropy: float = 0.3
    """Lowest entropy of the experts' mean weights, in nats; that of single steps may be lower."""
    setting: str = "loss.load_balance"
    """The coefficient of the load-balancing loss."""

    reads: ClassVar[tuple[str, ...]] = (SHARES, MIXING)

    def judge(self, recent: Recent) -> Finding | None:
        """Look at the expert that is used most."""
        shares = {
            name: median(list(values))
            for name in recent.names(SHARES)
            if len(values := recent.values(name, self.window)) >= self.window
        }
        mixing = list(recent.values(MIXING, self.window))
        if not shares and len(mixing) < self.window:
            return None
        entropy = median(mixing) if len(mixing) >= self.window else None
        busiest = max(shares, key=lambda name: shares[name]) if shares else ""
        share = shares.get(busiest, 0.0)
        is_low = entropy is not None and entropy < self.least_entropy
        if share <= self.most_share and not is_low:
            return None
        parts = []
        if busiest:
            expert = busiest.removeprefix("policy/expert_share/")
            parts.append(f"expert {expert} has {100 * share:.0f} % of the weight")
        if entropy is not None:
            parts.append(f"the entropy of the mean weights is {number(entropy)} nats")
        weight = recent.number(self.setting, 0.01)
        higher = rounded(max(3 * weight, 0.01))
        return Finding(
            evidence=f"For {self.window} iterations {' and '.join(parts)}.",
            cause="The other experts are not asked, so they cannot learn to be worth asking.",
            advice=(
                f"Raise {self.setting} from {number(weight)} to {number(higher)}, or keep the "
                "router's temperature high for longer."
            ),
            setting=self.setting,
            value=higher,
        )


@dataclass(frozen=True, slots=True)
class ReplayUnderfilled(HintRule):
    """The replay is nearly empty long after the run began."""

    name: str = "replay-underfilled"
    window: int = 2
    """Iterations that are looked at."""
    cooldown: int = 300
    least_fill: float = 0.05
    """Share that should be filled."""
    after: int = 100
    """Iterations after which it should be."""

    reads: ClassVar[tuple[str, ...]] = (FILL, CAPACITY, PUSHED)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the fill with what it should be by now."""
        fill, pushed = recent.last(FILL), recent.last(PUSHED)
        capacity, iteration = recent.last(CAPACITY), recent.progress.iteration
        if fill is None or pushed is None or capacity is None:
            return None
        if iteration < self.after or fill >= self.least_fill:
            return None
        each = max(pushed / iteration, 1.0)
        smaller = int(rounded(self.after * each / 2))
        return Finding(
            evidence=(
                f"After {iteration:,} iterations the replay holds {100 * fill:.1f} % of its "
                f"{capacity:,.0f} transitions; at {number(each)} an iteration it is full at "
                f"iteration {capacity / each:,.0f}."
            ),
            cause=(
                "Samples come from a small and young part of what is meant to be remembered, so "
                "replaying repeats the last rollouts."
            ),
            advice=(
                f"Lower {CAPACITY_KEY} from {capacity:,.0f} to {smaller:,}, or push more with "
                "larger rollouts."
            ),
            setting=CAPACITY_KEY,
            value=smaller,
        )

"""The table of phases as data: which coefficients hold when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from longhaul.core.errors import ConfigError
from longhaul.schedule.axis import Axis
from longhaul.tasks.nethack.policy.settings import RouterKind

Mode = Literal["table", "baseline", "manager", "full", "legacy"]
Fourth = Literal["none", "deep", "aggressive", "extended"]
KEEP = -1.0
"""Stands for an end that is the same as the beginning."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One phase: where it begins and the coefficients that hold in it."""

    start: float = 0.0
    """Where the phase begins, along the axis of the phases."""
    router: RouterKind = "softmax"
    """How weights are made of the router's logits."""
    temperature: float = 1.0
    """The router's temperature as the phase begins."""
    temperature_end: float = KEEP
    """The temperature as the phase ends, reached in a straight line; -1 keeps it."""
    learning_rate: float = 1e-4
    """The learner's step size."""
    entropy: float = 0.05
    """Weight of the entropy of actions."""
    alpha_entropy: float = 0.1
    """Weight of the entropy of the experts' weights as the phase begins."""
    alpha_entropy_end: float = KEEP
    """That weight as the phase ends, reached in a straight line; -1 keeps it."""
    alpha_entropy_sign: Literal[-1, 1] = -1
    """-1 seeks that entropy, 1 shuns it."""
    load_balance: float = 0.02
    """Weight of unequal use of experts."""
    diversity: float = 0.01
    """Weight of the experts' mean likeness."""
    alignment: float = 0.1
    """Weight of the distance from what the rules recommend."""
    alignment_temperature: float = 1.0
    """Temperature of what the rules recommend."""
    semantic: float = 0.05
    """Weight of the experts' absolute likeness."""
    temporal: float = 0.0
    """Weight of changes of the experts' weights from step to step."""
    overlap: float = 0.0
    """Weight of alike experts that act together."""

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ConfigError(f"a phase cannot start at {self.start}; 0 is the run's beginning")
        if self.temperature <= 0 or (self.temperature_end != KEEP and self.temperature_end <= 0):
            raise ConfigError(
                f"a phase's temperature = {self.temperature}, temperature_end = "
                f"{self.temperature_end} must be above 0"
            )

    @property
    def last_temperature(self) -> float:
        """The temperature as the phase ends."""
        return self.temperature if self.temperature_end == KEEP else self.temperature_end

    @property
    def first_pull(self) -> float:
        """The signed weight of the experts' entropy as the phase begins."""
        return self.alpha_entropy_sign * self.alpha_entropy

    @property
    def last_pull(self) -> float:
        """The signed weight of the experts' entropy as the phase ends."""
        end = self.alpha_entropy if self.alpha_entropy_end == KEEP else self.alpha_entropy_end
        return self.alpha_entropy_sign * end


WARM_UP = Stretch()
TRANSITION = Stretch(
    start=1000,
    router="sparsemax",
    temperature_end=0.5,
    learning_rate=5e-5,
    entropy=0.02,
    alpha_entropy_end=0.0,
    load_balance=0.01,
    temporal=0.01,
    overlap=0.03,
)
FINE_TUNE = Stretch(
    start=3000,
    router="sparsemax",
    temperature=0.5,
    learning_rate=1e-5,
    entropy=0.01,
    alpha_entropy=0.05,
    alpha_entropy_sign=1,
    load_balance=0.005,
    diversity=0.005,
    temporal=0.02,
    overlap=0.05,
)
FOURTH_START = 5000.0
FOURTH_ENDS = {"deep": 7000.0, "aggressive": 6000.0, "extended": 8000.0}


def fourth_stretch(kind: Literal["deep", "aggressive", "extended"], before: Stretch) -> Stretch:
    """Return a phase that may follow fine-tuning."""
    match kind:
        case "deep":
            return replace(
                before,
                start=FOURTH_START,
                temperature_end=0.2,
                learning_rate=5e-5,
                entropy=0.005,
                alpha_entropy=0.1,
            )
        case "aggressive":
            return replace(
                before,
                start=FOURTH_START,
                temperature_end=0.1,
                learning_rate=1e-4,
                entropy=0.001,
                alpha_entropy=0.2,
                load_balance=0.001,
                diversity=0.001,
            )
        case "extended":
            return replace(before, start=FOURTH_START)
        case _:
            assert_never(kind)


@dataclass(frozen=True, slots=True)
class PhaseOptions:
    """Warm-up, transition and fine-tuning, and what of them an ablation leaves out."""

    mode: Mode = "table"
    """`table` follows the phases as they are written. `baseline` leaves out alignment, semantic,
    temporal and overlap losses and never shuns entropy; `manager` has alignment and semantic
    losses, and from the transition on the other two at its values; `full` also shuns entropy in
    fine-tuning; `legacy` is `baseline` with the entropy's weight at 0.05 from the transition on."""
    along: Axis = "episodes"
    """What the phases are counted in: episodes, env_steps, iterations, or share of the run."""
    scale: float = 1.0
    """Multiplies every start, so that a short run sees all phases."""
    only: str = ""
    """The name of a phase to stay in: warm-up, transition, fine-tune, or a fourth one."""
    easing: float = 0.0
    """Over how long values that change at a border do so in a straight line; 0 is at once."""
    learning_rate_factor: float = 1.0
    """Multiplies the learning rate of every phase."""
    fourth: Fourth = "none"
    """A phase after fine-tuning."""
    warm_up: Stretch = WARM_UP
    """The first phase."""
    transition: Stretch = TRANSITION
    """The second phase."""
    fine_tune: Stretch = FINE_TUNE
    """The third phase."""

    def __post_init__(self) -> None:
        if self.easing < 0:
            raise ConfigError(f"options.phases.easing = {self.easing} cannot be negative")
        if not self.learning_rate_factor > 0:
            raise ConfigError(
                f"options.phases.learning_rate_factor = {self.learning_rate_factor} must be above 0"
            )
        if self.warm_up.start != 0:
            raise ConfigError("options.phases.warm_up.start must be 0: a run begins with it")

    def stretches(self) -> dict[str, Stretch]:
        """Return the phases by name, as the mode has them."""
        found = {
            "warm-up": self.warm_up,
            "transition": self.transition,
            "fine-tune": self.fine_tune,
        }
        if self.fourth != "none":
            found[self.fourth] = fourth_stretch(self.fourth, self.fine_tune)
        return {name: self._in_mode(name, stretch) for name, stretch in found.items()}

    def end(self) -> float:
        """Return where the last phase stops moving; only a fourth one moves."""
        return FOURTH_ENDS.get(self.fourth, 0.0)

    def _in_mode(self, name: str, stretch: Stretch) -> Stretch:
        later = name not in ("warm-up", "transition")
        match self.mode:
            case "table":
                return stretch
            case "baseline" | "legacy":
                bare = replace(
                    stretch,
                    alignment=0.0,
                    semantic=0.0,
                    temporal=0.0,
                    overlap=0.0,
                    alpha_entropy_sign=-1,
                )
                if self.mode == "legacy" and name != "warm-up":
                    return replace(bare, alpha_entropy=0.05, alpha_entropy_end=KEEP)
                return bare
            case "manager" | "full":
                shuns = self.mode == "full" and later
                return replace(
                    stretch,
                    temporal=min(stretch.temporal, self.transition.temporal),
                    overlap=min(stretch.overlap, self.transition.overlap),
                    alpha_entropy_sign=1 if shuns else -1,
                )
            case _:
                assert_never(self.mode)

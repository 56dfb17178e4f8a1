"""The speed fish start with: by phase, under the penalty's caps, and by how early they die."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from longhaul.core.control import Decision, View
from longhaul.core.settings import Assignment, Setting
from longhaul.tasks.fish.curriculum import Curriculum
from longhaul.tasks.fish.grammar import count, number, positive, table
from longhaul.tasks.fish.schedule_options import BoostOptions

WHERE = "options.training.boost"
ALL_FIRST_DEATHS = "env/first_death_p10"
LATER_FIRST_DEATHS = "env/first_later_death_p10"


@dataclass(frozen=True, slots=True)
class BoostState:
    """The first-death p10 of the last iterations, newest last."""

    recent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class EscapeBoost:
    """Give every phase its boost, lowered while fish die early and while the penalty is high."""

    options: BoostOptions
    curriculum: Curriculum
    setting: Setting[float]
    penalty: Setting[float]
    stage: Setting[int] | None = None
    """The gate's stage."""
    name: str = "escape-boost"

    def __post_init__(self) -> None:
        self._phase_speeds()
        self._phase_floors()
        self._caps()
        self._stage_floors()

    def _phase_speeds(self) -> dict[int, float]:
        text = self.options.phase_speeds
        return table(text, positive, number, where=f"{WHERE}.phase_speeds", form="phase:speed")

    def _phase_floors(self) -> dict[int, float]:
        text = self.options.phase_floors
        return table(text, positive, number, where=f"{WHERE}.phase_floors", form="phase:speed")

    def _caps(self) -> dict[float, float]:
        text = self.options.penalty_caps
        return table(text, number, number, where=f"{WHERE}.penalty_caps", form="penalty:most")

    def _stage_floors(self) -> dict[int, float]:
        text = self.options.stage_floors
        return table(text, count, number, where=f"{WHERE}.stage_floors", form="stage:speed")

    @property
    def metric(self) -> str:
        """What the adaptive part looks at."""
        return ALL_FIRST_DEATHS if self.options.counts_step_one else LATER_FIRST_DEATHS

    @property
    def reads(self) -> tuple[str, ...]:
        """The first deaths, the penalty and the gate's stage."""
        seen = (self.metric,) if self.options.adaptive else ()
        stage = () if self.stage is None else (self.stage.name,)
        return (*seen, self.penalty.name, *stage)

    @property
    def writes(self) -> tuple[str, ...]:
        """The boost."""
        return (self.setting.name,)

    @property
    def extremes(self) -> tuple[Assignment, ...]:
        """The outermost values it may assign."""
        options = self.options
        aims = (options.low_speed, options.high_speed) if options.adaptive else ()
        speeds = (self.setting.default, options.floor, *aims)
        tables = (self._phase_speeds(), self._phase_floors(), self._stage_floors())
        values = {*speeds, *(v for one in tables for v in one.values()), *self._caps().values()}
        return tuple(self.setting.to(value) for value in sorted(values))

    def initial(self) -> BoostState:
        """Return the state before the first measurement."""
        return BoostState()

    def value_at(
        self, iteration: int, *, penalty: float, stage: int = 0, recent: tuple[float, ...] = ()
    ) -> float:
        """Return the boost of an iteration, from 1."""
        phase = self.curriculum.phase_at(iteration)
        floor = self._phase_floors().get(phase, self.options.floor)
        value = max(self._phase_speeds().get(phase, self.setting.default), floor)
        aim = self._aim(iteration, recent)
        if aim is not None:
            value = max(min(value, aim), floor, self._stage_floors().get(stage, 0.0))
        most = [cap for threshold, cap in self._caps().items() if penalty >= threshold]
        return min([value, *most])

    def _aim(self, iteration: int, recent: tuple[float, ...]) -> float | None:
        options = self.options
        if not (options.adaptive and recent) or iteration < options.min_iteration:
            return None
        middle = fmean(recent) if options.use_mean else median(recent)
        if middle < options.lower_p10:
            return options.low_speed
        return options.high_speed if middle > options.upper_p10 else None

    def decide(self, state: BoostState, view: View) -> Decision[BoostState]:
        """Set the boost of the next iteration."""
        recent = state.recent
        if self.options.adaptive and self.metric in view.metrics:
            recent = (*recent, view.metrics[self.metric])[-self.options.window :]
        iteration = view.progress.iteration + 1
        penalty = view.settings[self.penalty]
        stage = 0 if self.stage is None else view.settings[self.stage]
        value = self.value_at(iteration, penalty=penalty, stage=stage, recent=recent)
        state = BoostState(recent)
        if value == view.settings[self.setting]:
            return Decision(state)
        why = f"phase {self.curriculum.phase_at(iteration)}, density penalty {penalty:g}"
        if recent:
            why += f", first deaths at {median(recent):g}"
        return Decision(state, (self.setting.to(value),), why)

"""The listeners that a user gives a run: they follow it and may steer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.core.parts import Recorded, RunControl, RunListener
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.stop import BY_LISTENER
from longhaul.schedule.schedule import Move


@dataclass(frozen=True, slots=True)
class Steered:
    """What one listener changed in one iteration."""

    listener: str
    moves: tuple[Move, ...]
    stop: str

    def as_row(self) -> dict[str, Any]:
        """Return plain values for the run's events."""
        moves = [asdict(move) for move in self.moves]
        return {"event": "listener", "listener": self.listener, "moves": moves, "stop": self.stop}


class ListenerGroup(RunListener):
    """All listeners of a user as one; a part of the checkpoint if there are any."""

    def __init__(
        self,
        listeners: Sequence[RunListener] = (),
        *,
        writers: Mapping[str, str] | None = None,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._writers = writers or {}
        """The controller that writes each setting of the schedule."""
        self._notify = notify
        self._listeners: dict[str, RunListener] = {}
        for listener in listeners:
            own = type(listener).__name__
            same = sum(type(one) is type(listener) for one in self._listeners.values())
            self._listeners[f"{own}-{same + 1}" if same else own] = listener
        self.stop_reason: str | None = None
        """Why a listener has ended the run."""

    def step(self, view: View, settings: Settings) -> tuple[View, Settings, list[Steered]]:
        """Return the iteration with logged metrics, the next settings, and what was changed."""
        steered = []
        for name, listener in self._listeners.items():
            run = RunControl(view, settings)
            listener.steer(run)
            moves = self._moves(name, run, settings)
            self._refuse_measured(name, run, view)
            if moves or run.stop_reason:
                steered.append(Steered(name, moves, run.stop_reason))
            if run.stop_reason:
                self.stop_reason = f"{BY_LISTENER} {name}: {run.stop_reason}"
            settings = settings.with_(run.assignments)
            view = replace(view, metrics={**view.metrics, **run.logged})
        return view, settings, steered

    def begin(self, progress: Progress) -> None:
        """Let every listener know where the run begins."""
        self._each(lambda listener: listener.begin(progress))

    def iteration(self, recorded: Recorded) -> None:
        """Show every listener the iteration."""
        self._each(lambda listener: listener.iteration(recorded))

    def close(self) -> None:
        """Close every listener."""
        self._each(lambda listener: listener.close())

    def state_dict(self) -> State:
        """Return the state of each listener by its name."""
        return {name: listener.state_dict() for name, listener in self._listeners.items()}

    def load_state_dict(self, state: State) -> None:
        """Let the listeners go on where those of their names were."""
        for name, listener in self._listeners.items():
            if name in state:
                listener.load_state_dict(state[name])
        if missing := ", ".join(sorted(set(state) - set(self._listeners))):
            self._notify(f"the run was trained with listeners that are missing now: {missing}")

    def _each(self, call: Callable[[RunListener], None]) -> None:
        for name, listener in tuple(self._listeners.items()):
            try:
                call(listener)
            except LonghaulError:
                raise
            except Exception as error:  # noqa: BLE001 - it must not end a run
                self._notify(f"the listener {name} failed and is not called any more: {error!r}")
                del self._listeners[name]

    def _moves(self, name: str, run: RunControl, settings: Settings) -> tuple[Move, ...]:
        """Return what a listener changes; a setting that a controller writes is refused."""
        old, new = settings.values(), {one.name: one.value for one in run.assignments}
        for setting in new:
            if setting in self._writers:
                writer = f"schedule.{self._writers[setting]}"
                raise ConfigError(
                    f"the listener {name} sets {setting!r}, which {writer} writes; remove one"
                )
        return tuple(Move(one, old[one], new[one]) for one in new if old[one] != new[one])

    def _refuse_measured(self, name: str, run: RunControl, view: View) -> None:
        for metric in run.logged:
            if metric in view.metrics:
                raise ConfigError(
                    f"the listener {name} logs {metric!r}, which the run measures itself; choose "
                    "another name"
                )

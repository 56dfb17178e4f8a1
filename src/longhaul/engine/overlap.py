"""Collecting while learning, always one update behind, whatever the timing."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch

from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Assignment, Settings, SettingValue
from longhaul.core.state import State
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.step_times import StepTimes


class OverlapCollector:
    """Hands over rollout k and at once starts k + 1 with the weights of that moment.

    Rollout k is therefore always made with the weights after update k - 2. The inner collector
    acts with its own copy of the policy, so nothing is locked and nothing depends on timing. What
    is saved is the state at the hand-over: the rollout under way is collected again on resume.
    """

    def __init__(self, inner: RolloutCollector, learned: Policy) -> None:
        self._inner = inner
        self._learned = learned
        self._thread = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix="collect",
            # Each thread has its own number of OpenMP threads, and sums depend on it.
            initializer=torch.set_num_threads,
            initargs=(torch.get_num_threads(),),
        )
        self._pending: Future[Rollout] | None = None
        self._handed_over: State = {}
        self._resumed: dict[str, SettingValue] | None = None

    @property
    def step_times(self) -> StepTimes:
        """How long the environments take."""
        return self._inner.step_times

    @property
    def inner(self) -> RolloutCollector:
        """The collector that makes the rollouts."""
        return self._inner

    def collect(self, settings: Settings) -> Rollout:
        """Return the rollout under way and start the next one."""
        if self._pending is None:
            self._begin(settings)
        assert self._pending is not None
        rollout = self._pending.result()
        self._hand_over(settings)
        return rollout

    def _begin(self, settings: Settings) -> None:
        if self._resumed is None:
            self._hand_over(settings)
            return
        settings = settings.with_(Assignment(name, v) for name, v in self._resumed.items())
        self._resumed = None
        self._pending = self._thread.submit(self._inner.collect, settings)

    def _hand_over(self, settings: Settings) -> None:
        weights = {name: part.clone() for name, part in self._learned.state_dict().items()}
        self._inner.policy.load_state_dict(weights)
        self._handed_over = {
            "inner": self._inner.state_dict(),
            "weights": weights,
            "settings": settings.values(),
        }
        self._pending = self._thread.submit(self._inner.collect, settings)

    def close(self) -> None:
        """Wait for the thread and end the environments."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._inner.close()

    def state_dict(self) -> State:
        """Return the state at the last hand-over."""
        return self._handed_over

    def load_state_dict(self, state: State) -> None:
        """Stand where the saved collector stood at its last hand-over."""
        if not state:
            return
        self._handed_over = state
        self._inner.policy.load_state_dict(state["weights"])
        self._inner.load_state_dict(state["inner"])
        self._resumed = {name: _frozen(value) for name, value in state["settings"].items()}


def _frozen(value: SettingValue | list[SettingValue]) -> SettingValue:
    """Return lists, as JSON brings them back, as the tuples they were."""
    return tuple(_frozen(v) for v in value) if isinstance(value, (list, tuple)) else value

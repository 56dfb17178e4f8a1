"""What happened in a rollout, as metrics that survive a restart unchanged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from longhaul.core.env import Episode
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.core.rollout import Rollout
from longhaul.core.state import State
from longhaul.envs.starts import STARTS_DEALT, STARTS_USED

WINDOW = 100  # episodes; what Stable-Baselines3 averages over, so that curves compare


LOST_STEPS = "fault/lost_steps"


class Summary:
    """Averages over the last episodes, the task's own figures, and the shares of reward terms."""

    def __init__(self, task_figures: Callable[[Sequence[Episode]], Metrics]) -> None:
        self._task_figures = task_figures
        self._recent: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def of(self, rollout: Rollout, progress: Progress) -> Metrics:
        """Return the metrics of one rollout."""
        self._recent.extend((e.episode_return, e.length) for e in rollout.episodes)
        metrics: dict[str, float] = {"time/total_timesteps": float(progress.env_steps)}
        if self._recent:
            count = len(self._recent)
            metrics["rollout/ep_rew_mean"] = sum(r for r, _ in self._recent) / count
            metrics["rollout/ep_len_mean"] = sum(length for _, length in self._recent) / count
        metrics["rollout/episodes"] = float(len(rollout.episodes))
        if used := sum(e.metrics.get(STARTS_USED, 0.0) for e in rollout.episodes):
            metrics[STARTS_USED] = used
        if rollout.starts_dealt:
            metrics[STARTS_DEALT] = float(rollout.starts_dealt)
        if lost := int((rollout.lost & rollout.active).sum()):
            metrics[LOST_STEPS] = float(lost)
        return {**metrics, **reward_terms(rollout), **self._task_figures(rollout.episodes)}

    def state_dict(self) -> State:
        """Return the remembered episodes."""
        return {"recent": [[r, length] for r, length in self._recent]}

    def load_state_dict(self, state: State) -> None:
        """Continue with remembered episodes."""
        self._recent = deque(((r, length) for r, length in state["recent"]), maxlen=WINDOW)


def reward_terms(rollout: Rollout) -> Metrics:
    """Return each reward term's sum, and its share of the absolute total."""
    total = sum(abs(value) for value in rollout.terms.values())
    metrics: dict[str, float] = {}
    for name, value in rollout.terms.items():
        metrics[f"reward/{name}"] = value
        if total > 0:
            metrics[f"reward/{name}_share"] = abs(value) / total
    return metrics

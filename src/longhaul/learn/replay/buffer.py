"""Prioritized replay (Schaul et al. 2016) of sequences."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout, TensorTree
from longhaul.core.seeds import generator_state, restore_generator
from longhaul.core.state import State
from longhaul.learn.config import ReplayConfig
from longhaul.learn.replay.plan import Item, ReplayLayout, ReplayPlan, item
from longhaul.learn.replay.ring import Ring, cut_up, sequence_length
from longhaul.learn.replay.sum_tree import Indices, SumTree, Weights

LEAST_PRIORITY = 1e-5  # of a sequence with anything to learn, however well it was predicted
_MOST_PRIORITY = 1e12  # keeps sums finite when a value explodes


@dataclass(frozen=True, slots=True)
class ReplaySample:
    """A sample: sequences as a rollout, where they lie, and what each counts."""

    rollout: Rollout  # [L, B]
    places: Indices  # [B]
    weight: Tensor  # [B], importance weights, the largest is 1


def untimed(name: str) -> AbstractContextManager[None]:
    """Measure nothing."""
    return nullcontext()


@dataclass(slots=True)
class _Counts:
    """What happened since the run began."""

    pushes: int = 0  # rollouts
    pushed: int = 0  # transitions
    samples: int = 0
    sampled: int = 0  # transitions that were there to learn from
    unique: float = 0.0  # sum of the samples' ratios


class PrioritizedReplay:
    """Draws sequences by how wrong the values were about them; the newest push out the oldest."""

    def __init__(
        self,
        config: ReplayConfig,
        generator: np.random.Generator,
        timed: Callable[[str], AbstractContextManager[None]] = untimed,
    ) -> None:
        self._config = config
        self._generator = generator
        self._timed = timed  # counts the time inside as spent on a name
        self._ring: Ring | None = None
        self._scratch: TensorTree = {}
        self._tree = SumTree(1)
        self._priorities: Weights = np.zeros(0)
        self._alpha = config.alpha
        self._counts = _Counts()
        self._last_unique: float | None = None

    def pieces(self, rollout: Rollout, *, recurrent: bool) -> Rollout:
        """Return the rollout as sequences, to push before this is called again."""
        length = sequence_length(
            self._config.length, steps=rollout.steps, chunk=rollout.chunk, recurrent=recurrent
        )
        return cut_up(rollout, length, self._scratch)

    def push(self, pieces: Rollout, priorities: Weights) -> None:
        """Keep all sequences of a rollout, with the priority of each."""
        if self._ring is None:
            layout = ReplayLayout.of(pieces)
            self._open(layout, ReplayPlan.of(layout, self._config), pieces.rows)
        assert self._ring is not None
        places = self._ring.write(pieces)
        self.revalue(places, priorities)
        self._counts.pushes += 1
        self._counts.pushed += pieces.steps * pieces.rows

    def _open(self, layout: ReplayLayout, plan: ReplayPlan, rollout_sequences: int) -> None:
        plan.demand(rollout_sequences)
        self._ring = Ring(layout, plan)
        self._tree = SumTree(plan.sequences)
        self._priorities = np.zeros(plan.sequences)

    def due(self) -> int:
        """Return how many samples to learn from: some after every `interval`-th rollout."""
        config = self._config
        if self._ring is None or (self._counts.pushes - 1) % config.interval:
            return 0
        enough = self._ring.size * self._ring.layout.length >= max(config.batch, config.warm_up)
        return config.batches if enough else 0

    def draw(self, *, alpha: float, beta: float, noise_seed: int) -> ReplaySample:
        """Return a sample, to be used before the next one is drawn."""
        with self._timed("replay_sample"):
            drawn = self._draw(alpha, beta, noise_seed)
        self._last_unique = len(np.unique(drawn.places)) / len(drawn.places)
        self._counts.samples += 1
        self._counts.sampled += int(drawn.rollout.trainable.sum())
        self._counts.unique += self._last_unique
        return drawn

    def _draw(self, alpha: float, beta: float, noise_seed: int) -> ReplaySample:
        assert self._ring is not None, "nothing is due before something was kept"
        ring = self._ring
        count = -(-self._config.batch // ring.layout.length)
        with self._timed("replay_priority"):
            self._weigh(alpha)
        with self._timed("replay_draw"):
            if self._tree.total > 0:
                places = self._tree.draw(count, self._generator)
            else:
                places = self._generator.integers(ring.size, size=count)
        with self._timed("replay_weight"):
            weight = self._importance(places, beta)
        with self._timed("replay_gather"):
            rollout = ring.read(places, noise_seed=noise_seed)
        return ReplaySample(rollout, places, torch.from_numpy(weight.astype(np.float32)))

    def _weigh(self, alpha: float) -> None:
        """Rebuild the tree if alpha has changed."""
        if alpha != self._alpha:
            self._alpha = alpha
            self._tree.set_all(self._chances(self._priorities))

    def _chances(self, priorities: Weights) -> Weights:
        """Return p^alpha, and 0 for priority 0 even at alpha 0: nothing to learn is never drawn."""
        chances: Weights = priorities**self._alpha * (priorities > 0)
        return chances

    def _importance(self, places: Indices, beta: float) -> Weights:
        """Return w = (n P)^-beta of each, divided by the largest w of the sample."""
        if self._tree.total == 0:
            return np.ones(len(places))
        assert self._ring is not None
        share = self._tree.weights[places] / self._tree.total
        weight: Weights = (self._ring.size * share) ** -beta
        weight /= weight.max()
        return weight

    def revalue(self, places: Indices, priorities: Weights) -> None:
        """Give sequences new priorities; one that is not finite keeps the old one."""
        known = np.isfinite(priorities)
        places, priorities = places[known], priorities[known]
        self._priorities[places] = np.clip(priorities, 0.0, _MOST_PRIORITY)
        # Read back, as a place may be named twice.
        self._tree.set(places, self._chances(self._priorities[places]))

    def metrics(self) -> Metrics:
        """Return size, counts and the spread of the priorities."""
        if self._ring is None:
            return {}
        ring, counts = self._ring, self._counts
        priorities = self._priorities[: ring.size]
        p50, p90, p99 = np.percentile(priorities, (50, 90, 99)).tolist()
        metrics = {
            "replay/capacity": float(ring.capacity * ring.layout.length),
            "replay/size": float(ring.size * ring.layout.length),
            "replay/fill": ring.size / ring.capacity,
            "replay/pushed_total": float(counts.pushed),
            "replay/samples_total": float(counts.samples),
            "replay/priority_mean": float(priorities.mean()),
            "replay/priority_p50": p50,
            "replay/priority_p90": p90,
            "replay/priority_p99": p99,
        }
        if counts.samples:
            metrics["replay/batch_mean"] = counts.sampled / counts.samples
            metrics["replay/unique_ratio_mean"] = counts.unique / counts.samples
        if self._last_unique is not None:
            metrics["replay/unique_ratio"] = self._last_unique
            self._last_unique = None
        return metrics

    def state_dict(self) -> State:
        """Return counts, generator and, if `saved`, all sequences."""
        state: State = {
            "generator": generator_state(self._generator),
            "counts": asdict(self._counts),
            "alpha": self._alpha,
        }
        if self._ring is not None and self._config.saved:
            state |= {
                "length": self._ring.layout.length,
                "priorities": self._priorities[: self._ring.size].copy(),
                "ring": self._ring.state_dict(),
            }
        return state

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; sequences that were not saved are collected again."""
        restore_generator(self._generator, state["generator"])
        self._counts = _Counts(**state["counts"])
        self._alpha = state["alpha"]
        self._last_unique = None
        if "ring" not in state:
            self._ring = None
            return
        layout = _saved_layout(state)
        self._open(layout, ReplayPlan.of(layout, self._config), 0)
        assert self._ring is not None
        self._ring.load_state_dict(state["ring"])
        self._priorities[: self._ring.size] = state["priorities"]
        self._tree.set_all(self._chances(self._priorities))


def _saved_layout(state: State) -> ReplayLayout:
    """Return the layout the saved arrays have."""
    arrays = state["ring"]["sequences"]

    def kept(group: str) -> dict[str, Item]:
        return {
            name.removeprefix(group): item(array.dtype, array.shape[2:])
            for name, array in arrays.items()
            if name.startswith(group)
        }

    return ReplayLayout(
        length=state["length"],
        obs=kept("obs."),
        action=kept("action")[""],
        choices=arrays["mask"].shape[2] if "mask" in arrays else 0,
        memory=kept("memory."),
    )

"""Joining the fragments of several collectors into one rollout of all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longhaul.cluster.messages import Arrays, Fragment, PackedBootstrap, PackedRollout
from longhaul.core.env import Array, EnvEvent, Episode
from longhaul.core.rollout import Bootstrap, Rollout


@dataclass(frozen=True, slots=True)
class FragmentEvents:
    """Episodes and events of fragments, also of dropped ones."""

    episodes: tuple[Episode, ...] = ()
    events: tuple[EnvEvent, ...] = ()
    starts_dealt: int = 0

    @staticmethod
    def of(rollouts: Iterable[PackedRollout]) -> FragmentEvents:
        """Return the episodes and events of these rollouts, in order."""
        listed = list(rollouts)
        return FragmentEvents(
            tuple(episode for one in listed for episode in one.episodes),
            tuple(event for one in listed for event in one.events),
            sum(one.starts_dealt for one in listed),
        )


@dataclass(frozen=True, slots=True)
class RolloutPiece:
    """A fragment's rollout and the rows of the whole run that it fills."""

    rows: slice
    rollout: PackedRollout


def join(fragments: Sequence[Fragment], dropped: Sequence[Fragment], *, rows: int) -> Rollout:
    """Return one rollout over all rows; rows of collectors without a fragment are absent.

    Every row keeps its place from rollout to rollout. Of dropped fragments only episodes and events
    are kept, not the transitions.
    """
    width = len(fragments[0].rollout.last.row) // fragments[0].ticket.share.count
    pieces = [_piece(fragment, width) for fragment in fragments]
    events = FragmentEvents.of(one.rollout for one in (*fragments, *dropped))
    first = pieces[0].rollout
    stepped = {name: _beside(pieces, "stepped", name, rows) for name in first.stepped}
    absent = torch.ones(rows, dtype=torch.bool)
    for piece in pieces:
        absent[piece.rows] = False
    mask = stepped.get("mask")
    if mask is not None:
        mask[:, absent] = True  # at least one choice must be allowed in every row
    return Rollout(
        obs={name: _beside(pieces, "obs", name, rows) for name in first.obs},
        action=stepped["action"],
        log_prob=stepped["log_prob"],
        value=stepped["value"],
        reward=stepped["reward"],
        terminated=stepped["terminated"],
        truncated=stepped["truncated"],
        started=stepped["started"],
        active=stepped["active"],
        forced=stepped["forced"],
        lost=stepped["lost"],
        mask=mask,
        memory={name: _beside(pieces, "memory", name, rows) for name in first.memory},
        chunk=first.chunk,
        truncations=_cuts(pieces),
        last=_last(pieces, rows, steps=len(first.stepped["reward"])),
        episodes=events.episodes,
        terms=_summed(pieces),
        # Fragments of different versions may have different noise. Their log-probabilities are
        # recorded, so evaluating all of them with one noise is an ordinary off-policy update.
        noise_seed=max(fragments, key=lambda one: one.version).rollout.noise_seed,
        env_steps=sum(piece.rollout.env_steps for piece in pieces),
        events=events.events,
        starts_dealt=events.starts_dealt,
        absent=absent if bool(absent.any()) else None,
        measures={name: _beside(pieces, "measures", name, rows) for name in first.measures},
    )


def _piece(fragment: Fragment, width: int) -> RolloutPiece:
    share = fragment.ticket.share
    return RolloutPiece(
        slice(share.first * width, (share.first + share.count) * width), fragment.rollout
    )


def _tree(rollout: PackedRollout, kind: str) -> Arrays:
    match kind:
        case "stepped":
            return rollout.stepped
        case "obs":
            return rollout.obs
        case "measures":
            return rollout.measures
        case _:
            return rollout.memory


def _beside(pieces: Sequence[RolloutPiece], kind: str, name: str, rows: int) -> Tensor:
    """Return an array of all rows, [T, N, ...], with zeros where there is no piece."""
    first = _tree(pieces[0].rollout, kind)[name]
    shape = (first.shape[0], rows, *first.shape[2:])
    whole = (
        np.zeros(shape, first.dtype) if _leaves_gaps(pieces, rows) else np.empty(shape, first.dtype)
    )
    for piece in pieces:
        whole[:, piece.rows] = _tree(piece.rollout, kind)[name]
    return torch.from_numpy(whole)


def _leaves_gaps(pieces: Sequence[RolloutPiece], rows: int) -> bool:
    filled = sum(int(piece.rows.stop) - int(piece.rows.start) for piece in pieces)
    return filled < rows


def _last(pieces: Sequence[RolloutPiece], rows: int, *, steps: int) -> Bootstrap:
    """Return the bootstrap after the last step of every row."""

    def gather(parts: Sequence[Array]) -> Tensor:
        whole = np.zeros((rows, *parts[0].shape[1:]), parts[0].dtype)
        for piece, part in zip(pieces, parts, strict=True):
            whole[piece.rows] = part
        return torch.from_numpy(whole)

    lasts = [piece.rollout.last for piece in pieces]
    return Bootstrap(
        step=torch.full((rows,), steps - 1),
        row=torch.arange(rows),
        obs={name: gather([one.obs[name] for one in lasts]) for name in lasts[0].obs},
        memory={name: gather([one.memory[name] for one in lasts]) for name in lasts[0].memory},
        value=gather([one.value for one in lasts]),
    )


def _cuts(pieces: Sequence[RolloutPiece]) -> Bootstrap:
    """Return all truncations in order of step and row."""
    cuts: list[tuple[int, PackedBootstrap]] = [
        (piece.rows.start, piece.rollout.truncations)
        for piece in pieces
        if len(piece.rollout.truncations.row)
    ]
    if not cuts:
        nothing = torch.empty(0, dtype=torch.int64)
        return Bootstrap(nothing, nothing, {}, {}, torch.empty(0))
    steps = np.concatenate([one.step for _, one in cuts])
    rows = np.concatenate([one.row + begin for begin, one in cuts])
    order = np.lexsort((rows, steps))

    def gather(parts: Sequence[Array]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)[order])

    first = cuts[0][1]
    return Bootstrap(
        step=torch.from_numpy(steps[order]),
        row=torch.from_numpy(rows[order]),
        obs={name: gather([one.obs[name] for _, one in cuts]) for name in first.obs},
        memory={name: gather([one.memory[name] for _, one in cuts]) for name in first.memory},
        value=gather([one.value for _, one in cuts]),
    )


def _summed(pieces: Sequence[RolloutPiece]) -> dict[str, float]:
    """Return each reward term's sum."""
    names = pieces[0].rollout.terms
    return {name: sum(piece.rollout.terms[name] for piece in pieces) for name in names}

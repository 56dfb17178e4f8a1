"""What parts of a player are worth: games with and without them, compared game by game."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch

from longhaul.app.build.text import columns
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.load import load
from longhaul.core.config import convert
from longhaul.core.env import Episode, StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Case
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import Interval, interval, resample
from longhaul.tasks.nethack.evaluation import HELD_OUT, RESAMPLES, true_score
from longhaul.tasks.nethack.options import NetHackGameOptions, NetHackOptions
from longhaul.tasks.nethack.players import SCRIPT, Choose, play_anchor, play_cases
from longhaul.tasks.nethack.source import rules_of
from longhaul.tasks.nethack.vocabulary import EXPERTS

WHOLE = "nothing"


@dataclass(frozen=True, slots=True)
class PartScore:
    """The games of a player that lacks something."""

    without: str
    mean: float
    interval: Interval
    difference: float
    """To the whole player, mean over the games."""
    difference_interval: Interval


@dataclass(frozen=True, slots=True)
class PartTable:
    """A player and what it is without each of its parts."""

    games: int
    rows: tuple[PartScore, ...]

    def as_text(self) -> str:
        """Return a table."""
        header = ("without", "score", "95 % interval", "difference", "95 % interval")
        rows = [
            (
                row.without,
                f"{row.mean:.1f}",
                f"{row.interval[0]:.1f} to {row.interval[1]:.1f}",
                f"{row.difference:+.1f}",
                f"{row.difference_interval[0]:+.1f} to {row.difference_interval[1]:+.1f}",
            )
            for row in self.rows
        ]
        return f"{columns(rows, header=header)}\n{self.games} held-out games"

    def as_json(self) -> str:
        """Return the same for programs."""
        rows = [
            {
                "without": row.without,
                "score": row.mean,
                "interval": list(row.interval),
                "difference": row.difference,
                "difference_interval": list(row.difference_interval),
            }
            for row in self.rows
        ]
        return json.dumps({"games": self.games, "rows": rows})


def compare_parts(played: dict[str, Sequence[Episode]]) -> PartTable:
    """Return the table of players on the same games, of which the first lacks nothing."""
    scores = {name: np.array([true_score(one) for one in games]) for name, games in played.items()}
    whole = next(iter(scores.values()))
    drawn = resample(Seeds(0).generator("nethack", "bootstrap"), len(whole), RESAMPLES)
    rows = [
        PartScore(
            name,
            float(score.mean()),
            interval(score[drawn].mean(axis=1)),
            float((score - whole).mean()),
            interval((score - whole)[drawn].mean(axis=1)),
        )
        for name, score in scores.items()
    ]
    return PartTable(len(whole), tuple(rows))


def held_out(games: int) -> tuple[Case, ...]:
    """Return the first of the held-out games."""
    if games < 1:
        raise ConfigError(f"--games = {games} must be at least 1")
    seeds = Seeds(0)
    return tuple(Case(seeds.integer("nethack", HELD_OUT, case)) for case in range(games))


def measure_script(without: Sequence[str], *, actions: str, games: int, cap: int) -> PartTable:
    """Play the script whole, and without each of some skills."""
    values = {"actions": actions, "max_steps": cap}
    options = convert(values, NetHackGameOptions, where="options")
    cases = held_out(games)
    played = {WHOLE: play_anchor(SCRIPT, options, cases)}
    for name in without:
        played[name] = play_anchor(SCRIPT, options, cases, without=(name,))
    return compare_parts(cast("dict[str, Sequence[Episode]]", played))


def measure_experts(place: Path, *, games: int) -> PartTable:
    """Play a trained player whole, and without the skills of each expert."""
    agent = load(place)
    options = convert(agent.config.options, NetHackOptions, where="options")
    if options.play != "skills":
        raise ConfigError(f"{place} plays by keys; only a player of skills can do without some")
    graph, cases = rules_of(options.rules, "skills"), held_out(games)
    played: dict[str, Sequence[Episode]] = {}
    for number, name in enumerate((WHOLE, *EXPERTS), start=-1):
        closed = graph.operator_expert == number
        draw = torch.Generator().manual_seed(Seeds(0).integer("nethack", "knock-out"))
        player = policy_player(agent, draw, closed[: agent.task.envs.spec.choices])
        played[name] = play_cases(options.game(), cases, player)
    return compare_parts(played)


def policy_player(
    agent: Agent, draw: torch.Generator, closed: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Choose:
    """Return a player that draws from a policy with some skills closed, as far as others apply."""
    policy, settings = agent.policy, agent.settings
    memory = policy.initial_state(1)

    def choose(slots: StepBuffers) -> int:
        nonlocal memory
        assert slots.mask is not None, "skills have masks"
        if slots.started[0]:
            memory = policy.initial_state(1)
        left = slots.mask & ~closed
        mask = torch.from_numpy(left if left.any() else slots.mask)
        obs = {name: torch.from_numpy(part) for name, part in slots.obs.items()}
        with torch.inference_mode():
            act = policy.act(obs, memory, settings, mask=mask, generator=draw)
        memory = act.memory
        return int(act.action[0])

    return choose

"""The zoo: trained policies that come with longhaul, each with a card of how it was made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longhaul.app.build.text import columns
from longhaul.core.errors import ConfigError, suggestion

FOLDER = Path(__file__).parents[2] / "zoo"
CARD, WEIGHTS = "policy.json", "policy.safetensors"
PREFIX = "zoo:"
"""Begins the name of a policy where a path is expected too."""


@dataclass(frozen=True, slots=True)
class ZooCard:
    """How a policy of the zoo was made and what it reaches."""

    name: str
    preset: str
    """Preset of the task."""
    command: str
    """What trained it."""
    commit: str
    """Commit of longhaul that trained it."""
    metric: str
    score: float
    """Mean over the evaluation's episodes."""
    low: float
    """Lower end of the mean's 95 % confidence interval."""
    high: float
    episodes: int
    suite: str
    """The task's suite of episodes; empty: episodes of consecutive seeds."""
    machine: str
    """The kind of processor and the version of torch on which the score is exact."""
    task: str = ""
    env_steps: int = 0
    parameters: int = 0
    size: int = 0
    """Bytes of the weights."""

    @property
    def place(self) -> str:
        """What `longhaul.load` takes."""
        return f"{PREFIX}{self.name}"

    @property
    def score_text(self) -> str:
        """The score with its interval."""
        return f"{self.score:.4g} ({self.low:.4g} to {self.high:.4g})"

    @property
    def episodes_text(self) -> str:
        """How the score was measured."""
        return f"{self.episodes} of {self.suite}" if self.suite else str(self.episodes)

    def as_text(self) -> str:
        """Return the card for people."""
        return columns(
            [
                ("policy", self.place),
                ("task", self.task),
                ("preset", self.preset),
                ("trained", f"{self.env_steps:,} steps"),
                ("score", f"{self.metric} {self.score_text}, 95 % confidence interval"),
                ("episodes", self.episodes_text),
                ("weights", f"{self.parameters:,} parameters, {self.size / 1000:,.0f} kB"),
                ("commit", self.commit),
                ("command", self.command),
                ("exact on", self.machine),
            ]
        )

    def as_values(self) -> dict[str, Any]:
        """Return everything as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def zoo_names(folder: Path = FOLDER) -> list[str]:
    """Return the names of all policies."""
    return sorted(path.parent.name for path in folder.glob(f"*/{CARD}"))


def zoo_folder(name: str, folder: Path = FOLDER) -> Path:
    """Return the folder of a policy; a name that is not in the zoo is an error."""
    names = zoo_names(folder)
    if name not in names:
        there = ", ".join(names)
        raise ConfigError(
            f"the zoo has no policy {name!r}{suggestion(name, names)} (policies: {there})"
        )
    return folder / name


def policy_path(place: Path | str) -> Path:
    """Return the folder of `zoo:NAME`, and any other path as it is."""
    name = str(place).removeprefix(PREFIX)
    return Path(place) if name == str(place) else zoo_folder(name)


def read_zoo_card(name: str, folder: Path = FOLDER) -> ZooCard:
    """Return the card of a policy."""
    place = zoo_folder(name, folder)
    card = json.loads((place / CARD).read_bytes())
    facts = {
        "name": name,
        "task": card["task"],
        "parameters": card["parameters"],
        "size": (place / WEIGHTS).stat().st_size,
    }
    return msgspec.convert({**card["source"], **facts}, ZooCard)


def zoo_cards(folder: Path = FOLDER) -> list[ZooCard]:
    """Return the cards of all policies."""
    return [read_zoo_card(name, folder) for name in zoo_names(folder)]


def zoo_table(cards: list[ZooCard]) -> str:
    """Return one line per policy."""
    rows = [
        (card.place, card.task, f"{card.env_steps:,}", card.score_text, card.episodes_text)
        for card in cards
    ]
    return columns(rows, header=("policy", "task", "steps", "score (95 % interval)", "episodes"))

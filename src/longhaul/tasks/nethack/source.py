"""Where environments come from: what they show, known without the game, and how one is made."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from longhaul.core.env import Env, SingleEnvs
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.tasks.nethack.options import NetHackGameOptions
from longhaul.tasks.nethack.rules import OWN_RULES, RuleGraph, read_rules
from longhaul.tasks.nethack.vocabulary import (
    ACTION_COUNT,
    ACTIONS,
    ATOM_BITS,
    ATOM_COUNT,
    CROP,
    MESSAGE,
    MESSAGE_WORDS,
    PACK,
    PACK_CLASSES,
    STATE,
    STATE_SIZE,
    STATE_VERSION,
)

SCORE_TERM, FROZEN_TERM = "score", "frozen"
TERMS = (SCORE_TERM, FROZEN_TERM)
MISSING = (
    "NetHack is not installed: install the extra 'nethack' of your longhaul checkout "
    "(pip install -e '.[nethack]') or NLE itself (pip install nle); "
    "`make train TASK=nethack` does it for you"
)


@lru_cache(maxsize=4)
def rules_of(path: str) -> RuleGraph:
    """Return the graph of `options.rules`; the task's own if that is empty."""
    return read_rules(Path(path) if path else OWN_RULES)


def describe(options: NetHackGameOptions) -> EnvSpec:
    """Return the shapes of one game.

    The cap, the layout of observations and the digest of the rules are part of the id: a
    checkpoint made with others is refused.
    """
    parts = {STATE: Part((STATE_SIZE,)), ATOM_BITS: Part((ATOM_COUNT,), "uint8")}
    if options.map.view:
        size = options.map.size
        parts[CROP] = Part((size, size), "uint8")
        parts[MESSAGE] = Part((MESSAGE_WORDS,))
        parts[PACK] = Part((PACK_CLASSES,))
    digest = rules_of(options.rules).digest[:12]
    return EnvSpec(
        id=f"NetHackScore-v0 {options.character} cap {options.max_steps} "
        f"{STATE_VERSION} rules {digest}",
        observation=parts,
        action=Discrete(ACTION_COUNT, ACTIONS),
        tier=Tier.REPLAY,
        has_masks=options.mask.enabled,
        terms=TERMS,
        row_name="hero",
    )


@dataclass(frozen=True, slots=True)
class NetHackFactory:
    """Makes one environment, in whatever process it is called."""

    options: NetHackGameOptions
    drawn: bool = False

    def __call__(self) -> Env:
        """Return an environment; only here is NLE needed."""
        module = importlib.import_module("longhaul.tasks.nethack.game")
        env: Env = module.NetHackEnv(self.options, drawn=self.drawn)
        return env


def game_envs(options: NetHackGameOptions) -> SingleEnvs:
    """Return the source of games; they run in worker processes, for a game may crash."""
    return SingleEnvs(
        describe(options),
        NetHackFactory(options),
        prefers_processes=True,
        make_drawn=NetHackFactory(options, drawn=True),
        compiles=True,
        unavailable="" if _is_installed() else MISSING,
    )


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("nle") is not None
    except ModuleNotFoundError:
        return False

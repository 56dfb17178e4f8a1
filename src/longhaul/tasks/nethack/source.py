"""Where environments come from: what they show, known without the game, and how one is made."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from longhaul.core.env import Env, SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import DURATION, Discrete, EnvSpec, Part, Tier
from longhaul.tasks.nethack.options import NetHackGameOptions, Play
from longhaul.tasks.nethack.rules import OWN_RULES, RuleGraph, read_rules
from longhaul.tasks.nethack.shaping import TERMS as SHAPED_TERMS
from longhaul.tasks.nethack.skills import ACTION_SETS, SKILL_RULES, figures_size, skills_of
from longhaul.tasks.nethack.vocabulary import (
    ATOM_BITS,
    ATOM_COUNT,
    CROP,
    MESSAGE,
    MESSAGE_WORDS,
    PACK,
    PACK_CLASSES,
    SKILL_ATOM_NAMES,
    SKILL_VERSION,
    SKILLS,
    STATE,
    STATE_SIZE,
    STATE_VERSION,
)

SCORE_TERM, FROZEN_TERM = "score", "frozen"
TERMS = {"score": (SCORE_TERM, FROZEN_TERM), "shaped": SHAPED_TERMS}
"""What is paid, by `options.reward`."""
CAP = "cap"
"""Why a game ended that reached its cap."""
MISSING = (
    "NetHack is not installed: install the extra 'nethack' of your longhaul checkout "
    "(pip install -e '.[nethack]') or NLE itself (pip install nle); "
    "`make train TASK=nethack` does it for you"
)


@lru_cache(maxsize=4)
def rules_of(path: str, play: Play = "keys") -> RuleGraph:
    """Return the graph of `options.rules`; the task's own if that is empty."""
    graph = read_rules(Path(path) if path else SKILL_RULES if play == "skills" else OWN_RULES)
    if graph.over != play:
        raise ConfigError(
            f"options.rules = {path!r} holds rules of {graph.over}, but options.play = {play!r}"
        )
    return graph


def describe(options: NetHackGameOptions) -> EnvSpec:
    """Return the shapes of one game.

    The cap, the layout of observations and the digest of the rules are part of the id: a
    checkpoint made with others is refused.
    """
    skills = options.play == "skills"
    atoms = len(SKILL_ATOM_NAMES) if skills else ATOM_COUNT
    parts = {STATE: Part((STATE_SIZE,)), ATOM_BITS: Part((atoms,), "uint8")}
    choices, layout = ACTION_SETS[options.actions], STATE_VERSION
    if skills:
        parts[SKILLS] = Part((figures_size(options.actions),))
        choices = tuple(one.name for one in skills_of(options.actions))
        layout = f"{STATE_VERSION} {SKILL_VERSION} of {options.skill_steps}"
    if options.map.view:
        size = options.map.size
        parts[CROP] = Part((size, size), "uint8")
        parts[MESSAGE] = Part((MESSAGE_WORDS,))
        parts[PACK] = Part((PACK_CLASSES,))
    digest = rules_of(options.rules, options.play).digest[:12]
    more = "" if options.actions == "score" else f" actions {options.actions}"
    return EnvSpec(
        id=f"NetHackScore-v0 {options.character} cap {options.max_steps} "
        f"{layout} rules {digest}{more}",
        observation=parts,
        action=Discrete(len(choices), choices),
        tier=Tier.REPLAY,
        has_masks=options.mask.enabled or skills,
        terms=TERMS[options.reward],
        measures=(DURATION,) if skills else (),
        row_name="hero",
    )


@dataclass(frozen=True, slots=True)
class NetHackFactory:
    """Makes one environment, in whatever process it is called."""

    options: NetHackGameOptions
    drawn: bool = False
    follows_settings: bool = True

    def __call__(self) -> Env:
        """Return an environment; only here is NLE needed."""
        if self.options.play == "skills":
            kind = importlib.import_module("longhaul.tasks.nethack.skill_env").SkillEnv
        else:
            kind = importlib.import_module("longhaul.tasks.nethack.game").NetHackEnv
        env: Env = kind(self.options, drawn=self.drawn, follows_settings=self.follows_settings)
        return env


def game_envs(options: NetHackGameOptions, *, follows_settings: bool = True) -> SingleEnvs:
    """Return the source of games; they run in worker processes, for a game may crash.

    Games to evaluate on do not follow settings: all have the cap of the options.
    """
    make = NetHackFactory(options, follows_settings=follows_settings)
    return SingleEnvs(
        describe(options),
        make,
        prefers_processes=True,
        make_drawn=replace(make, drawn=True),
        compiles=True,
        unavailable="" if _is_installed() else MISSING,
    )


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("nle") is not None
    except ModuleNotFoundError:
        return False

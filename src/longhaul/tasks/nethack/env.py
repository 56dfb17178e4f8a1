"""NetHack as one of our environments: a game, the eyes that read it, and its true score."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from nle import nethack
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Slots, Start
from longhaul.core.errors import EnvError
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.tasks.nethack.eyes.arrays import (
    DEPTH,
    R_CAP,
    TURN,
    Knowledge,
    Outcome,
    Recall,
    Scratch,
    Screen,
)
from longhaul.tasks.nethack.eyes.knowing import know
from longhaul.tasks.nethack.eyes.look import FIRST, View, keep_view, look_at_game
from longhaul.tasks.nethack.game import KEYS, Game, game_seeds
from longhaul.tasks.nethack.game_options import GameOptions
from longhaul.tasks.nethack.picture import draw_terminal
from longhaul.tasks.nethack.source import FROZEN_TERM, SCORE_TERM, describe, rules_of
from longhaul.tasks.nethack.vocabulary import ATOM_BITS, CROP, MESSAGE, PACK, STATE

CAP = "cap"
"""Why a game ended that reached `options.max_steps`."""


@lru_cache(maxsize=4)
def knowledge_of(rules: str) -> Knowledge:
    """Return what all games of a process know, made once.

    Native code is compiled or loaded here, while environments are made, for a reset is given
    less time than that may take.
    """
    knowledge = know(rules_of(rules))
    blank = Screen(*(np.zeros(**nethack.OBSERVATION_DESC[key]) for key in KEYS))
    blank.glyphs[:] = knowledge.landmarks[0]
    view = View(blank, Recall.allocate(), knowledge, Scratch.allocate(), Outcome.allocate())
    look_at_game(keep_view(view), FIRST)
    return knowledge


class NetHackEnv:
    """One game with one row, the hero."""

    def __init__(self, options: GameOptions, *, drawn: bool = False) -> None:
        self._options = options
        self._spec = describe(options)
        self._game = Game(options.character, drawn=drawn)
        self._recall = Recall.allocate()
        self._recall.numbers[R_CAP] = options.max_steps
        self._scratch = Scratch.allocate()
        self._knowledge = knowledge_of(options.rules)
        self._kept: Any = None
        self._steps = 0
        self._deepest = 0
        self._flags_to_write = True
        self._slots: Slots
        self._outcome: Outcome
        self.bind(Slots.allocate(self._spec, 1))

    @property
    def spec(self) -> EnvSpec:
        """The env's shapes and promises."""
        return self._spec

    def bind(self, slots: Slots) -> None:
        """Write into these views, one row, from the next call on."""
        self._slots = slots
        spare = Outcome.allocate()
        obs = {name: part[0] for name, part in slots.obs.items()}
        self._outcome = Outcome(
            state=obs[STATE],
            atoms=obs[ATOM_BITS],
            mask=spare.mask if slots.mask is None else slots.mask[0],
            crop=obs.get(CROP, spare.crop),
            words=obs.get(MESSAGE, spare.words),
            pack=obs.get(PACK, spare.pack),
        )
        self._kept = None
        self._flags_to_write = True

    def reset(self, seed: int, start: Start | None) -> None:
        """Begin the game of a seed: write obs, active and mask."""
        if start is not None:
            raise EnvError(f"NetHack has no hard starts, but one was asked for: {start!r}")
        self._game.begin(*game_seeds(seed))
        screen = self._game.screen
        self._kept = keep_view(
            View(screen, self._recall, self._knowledge, self._scratch, self._outcome)
        )
        look_at_game(self._kept, FIRST)
        self._steps = 0
        self._deepest = int(self._game.screen.status[DEPTH])
        self._slots.active[0] = True
        self._flags_to_write = True

    def step(self, actions: Array) -> Ending | None:
        """Act; write everything but `started`; tell if it is over.

        A game that is over shows nothing, so the last observation of the living hero stays.
        """
        game, slots = self._game, self._slots
        action = int(actions[0])
        score, turn = game.score, game.turns
        over = game.act(action)
        self._steps += 1
        paid = game.score - score
        frozen = 0.0
        if not over:
            status = game.screen.status
            frozen = -self._options.frozen_penalty if status[TURN] == turn else 0.0
            look_at_game(self._kept, action)
            self._deepest = max(self._deepest, int(status[DEPTH]))
        slots.reward[0] = paid + frozen
        slots.terms[SCORE_TERM][0] = paid
        slots.terms[FROZEN_TERM][0] = frozen
        capped = self._steps >= self._options.max_steps and not over
        if over or capped or self._flags_to_write:
            slots.terminated[0] = over
            slots.truncated[0] = capped
            slots.forced[0] = False
            self._flags_to_write = over or capped
        return self._ending(game.end_reason() if over else CAP) if over or capped else None

    def configure(self, settings: Settings) -> None:
        """Take nothing into account: no setting reaches the game."""

    def frame(self) -> NDArray[np.uint8] | None:
        """Return the terminal as a picture [height, width, 3], or None if made without one."""
        return draw_terminal(*self._game.terminal[:2]) if self._game.terminal else None

    def snapshot(self) -> State:
        """Refuse: a game is brought back by its seed and its actions (tier B)."""
        raise EnvError("NetHack offers no snapshots; its games are replayed from seed and actions")

    def restore(self, state: State) -> None:
        """Refuse, as `snapshot` does."""
        raise EnvError("NetHack offers no snapshots; its games are replayed from seed and actions")

    def close(self) -> None:
        """End the game."""
        self._game.close()

    def _ending(self, reason: str) -> Ending:
        """Return how the game ended, with the score of the last moment the hero was alive."""
        return Ending(
            reason,
            {
                "score": float(self._game.score),
                "deepest_level": float(self._deepest),
                "turns": float(self._game.turns),
                "step_cap": float(self._options.max_steps),
            },
        )

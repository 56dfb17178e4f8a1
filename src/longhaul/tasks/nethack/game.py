"""One game of NetHack, played as NLE's `NetHackScore-v0` plays it, without its copies.

NLE's own environment copies every observation at every step. Here the game's buffers are read in
place; a test holds both against each other, step by step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from nle import nethack
from nle.env.base import ASCII_ESC, ASCII_SPACE, SKIP_EXCEPTIONS
from nle.env.tasks import TASK_ACTIONS
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Start, StepBuffers
from longhaul.core.errors import EnvError
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.tasks.nethack.extended import press_keys
from longhaul.tasks.nethack.observation.arrays import (
    DEPTH,
    HP_MAX,
    R_CAP,
    SCORE,
    TURN,
    Knowledge,
    Recall,
    Scratch,
    Screen,
    ShownArrays,
)
from longhaul.tasks.nethack.observation.glyphs import know
from longhaul.tasks.nethack.observation.look import FIRST, GameView, keep_view, look_at_game
from longhaul.tasks.nethack.options import TRAINING_CAP, NetHackGameOptions, Play
from longhaul.tasks.nethack.shaping import ShapedReward
from longhaul.tasks.nethack.source import CAP, describe, rules_of
from longhaul.tasks.nethack.vocabulary import (
    ACTION_COUNT,
    ATOM_BITS,
    CROP,
    MESSAGE,
    PACK,
    SKILLS,
    STATE,
)

KEYS = ("glyphs", "blstats", "message", "misc", "inv_oclasses", "inv_letters", "inv_glyphs")
PACK_NAMES = "inv_strs"
DRAWN_KEYS = ("tty_chars", "tty_colors", "tty_cursor")
PROGRAM = "program_state"
IN_MOVELOOP = 3
"""The column of the program's status that holds whether the hero can act."""
WAITS_FOR_KEY, WAITS_FOR_LINE, WAITS_FOR_SPACE = range(3)
"""Columns of the game's modes."""
MOST_OPENING_KEYS = 1000
OTHER_ENDS = {
    nethack.PANICKED: "abort",
    nethack.TRICKED: "abort",
    nethack.QUIT: "abort",
    nethack.ESCAPED: "escaped",
    nethack.ASCENDED: "ascended",
}
"""How a game can end but by death."""


def game_seeds(seed: int) -> tuple[int, int]:
    """Return the seeds of the game's two generators: of what happens and of what is shown."""
    seeds = Seeds(seed)
    return seeds.integer("nethack", "core"), seeds.integer("nethack", "disp")


class Game:
    """A game in a shared library's memory; its observations are the library's own buffers."""

    def __init__(self, character: str, *, drawn: bool = False, extended: bool = False) -> None:
        keys = (
            *KEYS,
            PROGRAM,
            *(DRAWN_KEYS if drawn else ()),
            *((PACK_NAMES,) if extended else ()),
        )
        self._engine = nethack.Nethack(
            observation_keys=keys, playername=f"Agent-{character}", ttyrec=None, fix_moon_phase=True
        )
        self._keys = tuple(int(action) for action in TASK_ACTIONS)
        self.screen: Screen
        self.terminal: tuple[NDArray[Any], ...] = ()
        self._program: NDArray[np.int32]
        self._names = keys
        self.pack_names: NDArray[np.uint8]
        """What each item is called [items, letters]; only with the extended action set."""
        self.score = 0
        """Of the last observation in which the hero was alive."""
        self.turns = 0

    def begin(self, core: int, display: int) -> None:
        """Begin the game of two seeds; the same seeds and keys give the same game."""
        self._engine.set_initial_seeds(core, display, reseed=False)
        self._take(self._engine.reset())
        for _ in range(MOST_OPENING_KEYS):
            if self._program[IN_MOVELOOP]:
                break
            _, over = self._engine.step(ASCII_SPACE)
            if over:
                raise EnvError(
                    f"NetHack with seeds {core} and {display} ended before the first move"
                )
        else:
            raise EnvError(f"NetHack with seeds {core} and {display} does not reach its first move")
        self.score = int(self.screen.status[SCORE])
        self.turns = int(self.screen.status[TURN])

    def act(self, action: int) -> bool:
        """Send an action's key and answer what the player is not asked; return if the game is over.

        The observation of a game that is over is empty; `score` and `turns` keep the last ones.
        """
        press = self._engine.step
        _, over = press(self._keys[action])
        return self._settle(over=over)

    def press(self, key: int) -> bool:
        """Press one key and answer nothing; return if the game is over."""
        _, over = self._engine.step(key)
        return bool(over)

    def settle(self) -> bool:
        """Close what keys that were pressed one by one left open; return if the game is over."""
        over, modes = False, self.screen.modes
        while not over and modes.any():
            _, over = self._engine.step(ASCII_SPACE if modes[WAITS_FOR_SPACE] else ASCII_ESC)
        self._note_status(over=over)
        return bool(over)

    def _settle(self, *, over: bool) -> bool:
        press, modes = self._engine.step, self.screen.modes
        while not over and modes.any():
            if modes[WAITS_FOR_SPACE]:
                _, over = press(ASCII_SPACE)
            elif modes[WAITS_FOR_LINE]:
                _, over = press(ASCII_ESC)
            elif self._is_for_the_player():
                break
            else:
                _, over = press(ASCII_ESC)
                break
        self._note_status(over=over)
        return bool(over)

    def _note_status(self, *, over: bool) -> None:
        status = self.screen.status
        if not over and status[HP_MAX] > 0:
            self.score = int(status[SCORE])
            self.turns = int(status[TURN])

    def end_reason(self) -> str:
        """Return how a game that is over ended: by death, mostly."""
        return OTHER_ENDS.get(self._engine.how_done(), "death")

    def close(self) -> None:
        """Free the library's memory and files."""
        self._engine.close()

    def _take(self, buffers: tuple[NDArray[Any], ...]) -> None:
        named = dict(zip(self._names, buffers, strict=True))
        self.screen = Screen(*(named[key] for key in KEYS))
        self.terminal = tuple(named[key] for key in DRAWN_KEYS if key in named)
        self._program = named[PROGRAM]
        self.pack_names = named.get(PACK_NAMES, np.zeros((0, 0), np.uint8))

    def _is_for_the_player(self) -> bool:
        """Whether the open question is one of those NLE lets the player answer."""
        words = self.screen.message.tobytes()
        return any(exception in words for exception in SKIP_EXCEPTIONS)


SCALE = 2
PALETTE = np.array(
    [
        *((30, 30, 38), (205, 60, 60), (60, 170, 70), (180, 120, 50)),
        *((80, 110, 230), (190, 80, 190), (60, 170, 180), (200, 200, 200)),
        *((120, 120, 130), (255, 110, 90), (110, 230, 110), (255, 230, 90)),
        *((120, 160, 255), (255, 120, 255), (110, 240, 240), (255, 255, 255)),
    ],
    np.float32,
)
"""Colors of the terminal, dark ones brightened for films."""
BACKGROUND = np.array((12, 12, 18), np.float32)
LETTERS = 128
COLOR_BITS = 15


@lru_cache(maxsize=1)
def letter_shapes() -> NDArray[np.float32]:
    """Return how each letter is drawn [128, height, width], between 0 and 1."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError:
        raise EnvError(
            "drawing NetHack's terminal needs Pillow: install the extra 'video' of your longhaul "
            "checkout (pip install -e '.[video]') or Pillow itself (pip install pillow)"
        ) from None
    font = ImageFont.load_default_imagefont()
    width, height = 6, 11
    shapes = np.zeros((LETTERS, height, width), np.float32)
    for code in range(33, LETTERS - 1):
        letter = Image.new("L", (width, height))
        ImageDraw.Draw(letter).text((0, 0), chr(code), fill=255, font=font)
        shapes[code] = np.asarray(letter, np.float32) / 255.0
    return shapes


def draw_terminal(letters: Array, colors: Array) -> NDArray[np.uint8]:
    """Return the picture [height, width, 3] of letters and colors [lines, columns]."""
    shapes = letter_shapes()[np.minimum(letters, LETTERS - 1)]  # [lines, columns, height, width]
    ink = PALETTE[colors & COLOR_BITS] - BACKGROUND
    picture = BACKGROUND + shapes[..., None] * ink[:, :, None, None, :]
    lines, columns, height, width = shapes.shape
    flat = picture.transpose(0, 2, 1, 3, 4).reshape(lines * height, columns * width, 3)
    large: NDArray[np.uint8] = flat.astype(np.uint8).repeat(SCALE, 0).repeat(SCALE, 1)
    return large


@lru_cache(maxsize=4)
def knowledge_of(rules: str, play: Play = "keys") -> Knowledge:
    """Return what all games of a process know, made once.

    Native code is compiled or loaded here, while environments are made, for a reset is given
    less time than that may take.
    """
    knowledge = know(rules_of(rules, play))
    blank = Screen(*(np.zeros(**nethack.OBSERVATION_DESC[key]) for key in KEYS))
    blank.glyphs[:] = knowledge.landmarks[0]
    scratch = Scratch.allocate(len(knowledge.aims))
    view = GameView(blank, Recall.allocate(), knowledge, scratch, ShownArrays.allocate())
    look_at_game(keep_view(view), FIRST)
    return knowledge


class NetHackEnv:
    """One game with one row, the hero."""

    def __init__(
        self, options: NetHackGameOptions, *, drawn: bool = False, follows_settings: bool = True
    ) -> None:
        self._options = options
        self.spec = describe(options)
        self._game = Game(options.character, drawn=drawn, extended=options.actions == "extended")
        self._recall = Recall.allocate()
        self._follows_settings = follows_settings
        self._next_cap = self._cap = options.max_steps
        self._shaped = ShapedReward() if options.reward == "shaped" else None
        self._knowledge = knowledge_of(options.rules, options.play)
        self._scratch = Scratch.allocate(len(self._knowledge.aims))
        self._kept: Any = None
        self._steps = 0
        self._deepest = 0
        self._flags_to_write = True
        self._slots: StepBuffers
        self._outcome: ShownArrays
        self.bind(StepBuffers.allocate(self.spec, 1))

    def bind(self, slots: StepBuffers) -> None:
        """Write into these views, one row, from the next call on."""
        self._slots = slots
        spare = ShownArrays.allocate()
        obs = {name: part[0] for name, part in slots.obs.items()}
        figures = obs.get(SKILLS, spare.figures)
        width = self.spec.choices
        self._outcome = ShownArrays(
            state=obs[STATE],
            atoms=obs[ATOM_BITS],
            mask=np.ones(width, np.bool_) if slots.mask is None else slots.mask[0],
            crop=obs.get(CROP, spare.crop),
            words=obs.get(MESSAGE, spare.words),
            pack=obs.get(PACK, spare.pack),
            keys=np.zeros(width if len(figures) else 0, np.int64),
            figures=figures,
        )
        self._kept = None
        self._flags_to_write = True

    def reset(self, seed: int, start: Start | None) -> None:
        """Begin the game of a seed: write obs, active and mask."""
        if start is not None:
            raise EnvError(f"NetHack has no hard starts, but one was asked for: {start!r}")
        self._game.begin(*game_seeds(seed))
        self._cap = self._next_cap
        self._recall.numbers[R_CAP] = self._cap
        screen = self._game.screen
        self._kept = keep_view(
            GameView(screen, self._recall, self._knowledge, self._scratch, self._outcome)
        )
        look_at_game(self._kept, FIRST)
        self._steps = 0
        self._deepest = int(self._game.screen.status[DEPTH])
        if self._shaped is not None:
            self._shaped.begin(self._outcome.atoms)
        self._slots.active[0] = True
        self._flags_to_write = True

    def step(self, actions: Array) -> Ending | None:
        """Act; write everything but `started`; return if it is over.

        A game that is over shows nothing, so the last observation of the living hero stays.
        """
        game, slots = self._game, self._slots
        score, turn = game.score, game.turns
        action = int(actions[0])
        if self._shaped is not None:
            allowed = bool(self._outcome.mask[action])
            self._shaped.expect(game.screen.status, is_allowed=allowed)
        over = self._play(action)
        reason = game.end_reason() if over else ""
        paid = game.score - score
        frozen = 0.0
        if not over and game.screen.status[TURN] == turn:
            frozen = -self._options.frozen_penalty
        terms: tuple[float, ...] = (paid, frozen)
        if self._shaped is not None:
            status, atoms = game.screen.status, self._outcome.atoms
            terms = self._shaped.terms(
                status, atoms, paid=paid + frozen, steps=self._steps, ended_by=reason
            )
        slots.reward[0] = sum(terms)
        for name, term in zip(self.spec.terms, terms, strict=True):
            slots.terms[name][0] = term
        capped = self._steps >= self._cap and not over
        if over or capped or self._flags_to_write:
            slots.terminated[0] = over
            slots.truncated[0] = capped
            slots.forced[0] = False
            self._flags_to_write = over or capped
        return self._ending(reason or CAP) if over or capped else None

    def _play(self, action: int) -> bool:
        """Carry an action out, look and count the steps; return if the game is over."""
        if action < ACTION_COUNT:
            over, pressed = self._game.act(action), 1
        else:
            over, pressed = press_keys(self._game, self._knowledge, action)
        self._steps += pressed
        if not over:
            look_at_game(self._kept, action)
            self._deepest = max(self._deepest, int(self._game.screen.status[DEPTH]))
        return over

    def configure(self, settings: Settings) -> None:
        """Take the training cap into account from the next game on."""
        if self._follows_settings and TRAINING_CAP.name in settings:
            self._next_cap = settings[TRAINING_CAP]

    def frame(self) -> NDArray[np.uint8] | None:
        """Return the terminal as a picture [height, width, 3], or None if made without one."""
        return draw_terminal(*self._game.terminal[:2]) if self._game.terminal else None

    def snapshot(self) -> State:
        """Refuse: a game is brought back by its seed and its actions (tier replay)."""
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
                "step_cap": float(self._cap),
            },
        )

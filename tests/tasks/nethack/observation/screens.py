"""Screens of the game as plain values."""

from __future__ import annotations

from tests.tasks.nethack.games import Opened
from tests.tasks.nethack.observation.literal import Seen


def seen_of(game: Opened) -> Seen:
    """Return a copy of what the game shows."""
    screen = game.env._game.screen  # type: ignore[attr-defined]
    items = [
        (int(screen.item_classes[place]), chr(letter), int(screen.item_glyphs[place]))
        for place, letter in enumerate(screen.item_letters)
        if letter
    ]
    return Seen(
        screen.glyphs.copy(),
        screen.status.copy(),
        bytes(screen.message).split(b"\0")[0].decode("latin-1"),
        bool(screen.modes[0]),
        items,
    )

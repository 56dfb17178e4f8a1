"""What glyphs stand for, asked of NLE's own functions one by one."""

from __future__ import annotations

from functools import cache

from nle import nethack

from longhaul.tasks.nethack.observation import glyphs as named

SYMBOLS = {
    "staircase up": "up",
    "ladder up": "up",
    "staircase down": "down",
    "ladder down": "down",
    "open door": "open door",
    "closed door": "closed door",
    "doorway": "doorway",
    "corridor": "corridor",
    "wall": "wall",
    "altar": "altar",
    "fountain": "fountain",
    "sink": "fountain",
    "throne": "fountain",
    "water": "liquid",
    "lava": "liquid",
    "iron bars": "barrier",
    "tree": "barrier",
    "raised": "barrier",
}


@cache
def kind(glyph: int) -> str:
    """Return what a glyph stands for, asked of NLE's own functions."""
    if nethack.glyph_is_pet(glyph) or nethack.glyph_is_ridden_monster(glyph):
        return "pet"
    if nethack.glyph_is_normal_monster(glyph) or nethack.glyph_is_detected_monster(glyph):
        peaceful = monster(glyph).mflags2 & named.M2_PEACEFUL
        return "peaceful" if peaceful else "hostile"
    if nethack.glyph_is_invisible(glyph) or nethack.glyph_is_warning(glyph):
        return "unseen"
    if nethack.glyph_is_body(glyph):
        return "corpse"
    if nethack.glyph_is_statue(glyph):
        return "statue"
    if nethack.glyph_is_object(glyph):
        thing = nethack.objclass(nethack.glyph_to_obj(glyph))
        if ord(thing.oc_class) == nethack.COIN_CLASS:
            return "gold"
        return "boulder" if nethack.OBJ_NAME(thing) == "boulder" else "object"
    if nethack.glyph_is_trap(glyph):
        return "trap"
    return symbol(nethack.glyph_to_cmap(glyph)) if nethack.glyph_is_cmap(glyph) else "effect"


def symbol(index: int) -> str:
    if index == 0:
        return "blank"
    words = nethack.symdef.from_idx(index).explanation
    for word, meaning in SYMBOLS.items():
        if word in words:
            return meaning
    return "floor" if words in named.SYMBOLS else "effect"


def monster(glyph: int) -> nethack.permonst:
    return nethack.permonst(nethack.glyph_to_mon(glyph))

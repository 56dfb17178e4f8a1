"""The numbers kept of every game beside its console: one row of 32-bit integers each.

Copying the row is a snapshot of them. What a step changed stands beside what is so far, so that a
reward needs nothing else.
"""

from __future__ import annotations

(
    X,  # Mario's place in the area, in pixels
    Y,  # his line on the screen; negative above, beyond 255 below it
    AREA_SLOT,  # which of the areas below he is in
    PROGRESS,  # pixels of new ground in this episode, over all areas
    GAINED,  # of them in the last step
    SCORE,
    SCORE_GAINED,
    COIN_COUNT,
    COINS_GAINED,
    CLOCK,
    CLOCK_LOST,
    LIVES_LEFT,
    POWER_NOW,  # 0 small, 1 big, 2 fiery
    POWER_CHANGE,
    LOOPS,  # times a maze put Mario back
    LOOPED,  # 1 if the last step was such a time
    CLEARED,  # stages cleared in this episode
    CLEARED_NOW,
    DEATHS,
    DIED_NOW,
    ELAPSED,  # steps of this episode
    STUCK,  # steps since the last new ground
    FRAMES,  # frames of this episode, those skipped included
    REASON,  # why the episode is over, or 0
    BUSY,  # 1 while buttons do nothing and the episode goes on
    WORLD,  # the present stage
    STAGE,
    FIRST_WORLD,  # the stage the episode began in
    FIRST_STAGE,
    EXECUTED,  # the action really taken, -1 for buttons that are none of the set
    BYTE,  # the buttons really pressed
    SCRIPTED,  # 1 if this episode begins with the script
    STARTED_HARD,  # 1 if it began from a hard start
    BEST_X,  # farthest place in the present area
    AREA_COUNT,
    AREAS,  # keys of the areas seen, MOST_AREAS of them, then the farthest place in each
) = range(36)

MOST_AREAS = 12
"""Areas kept apart in an episode; beyond them the oldest one is forgotten."""
BESTS = AREAS + MOST_AREAS
FIGURES = BESTS + MOST_AREAS
"""Numbers in a row."""

REASONS = (
    "",
    "flag",
    "axe",
    "enemy",
    "pit",
    "time_up",
    "game_over",
    "warp",
    "stagnation",
    "timeout",
    "scene",
)
"""Why episodes end, by their code: 0 is not at all."""
(
    GOES_ON,
    FLAG,
    AXE,
    ENEMY,
    PIT,
    TIME_UP,
    OVER,
    WARP,
    STAGNATION,
    TIMEOUT,
    SCENE,
) = range(11)
FIRST_TRUNCATION = STAGNATION
"""From here on the episode was cut; before, it ended."""
DEATH_REASONS = ("enemy", "pit", "time_up", "game_over")
CLEAR_REASONS = ("flag", "axe")

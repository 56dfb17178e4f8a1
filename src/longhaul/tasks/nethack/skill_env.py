"""NetHack played by skills: one step of the env carries a skill out, key by key."""

from __future__ import annotations

from longhaul.core.env import Array, Ending
from longhaul.core.spaces import DURATION
from longhaul.tasks.nethack.game import NetHackEnv
from longhaul.tasks.nethack.observation.arrays import (
    HP,
    R_LEVEL,
    R_SKILL,
    S_ADJACENT,
    S_SAFE,
)
from longhaul.tasks.nethack.observation.skills import LENGTH_FIGURE
from longhaul.tasks.nethack.options import NetHackGameOptions
from longhaul.tasks.nethack.prompts import MOST_ANSWERS, answer, waits
from longhaul.tasks.nethack.skills import LONG, skills_of
from longhaul.tasks.nethack.vocabulary import ATOM_INDEX, SEARCH

_INTERRUPTED = ATOM_INDEX["interrupted"]


class SkillEnv(NetHackEnv):
    """One game whose actions are skills.

    A skill goes on until it does not apply any more, a foe comes into view or beside the hero, hit
    points are lost, the level changes, or it has taken its most actions. Questions of the game are
    answered on the way.
    """

    def __init__(
        self, options: NetHackGameOptions, *, drawn: bool = False, follows_settings: bool = True
    ) -> None:
        super().__init__(options, drawn=drawn, follows_settings=follows_settings)
        most = options.skill_steps
        self._skills = skills_of(self._options.actions)
        self._longest = [min(skill.longest, most) for skill in self._skills]

    def step(self, actions: Array) -> Ending | None:
        """Carry a skill out; write also how many steps of the game that took."""
        before = self._steps
        ending = super().step(actions)
        self._slots.measures[DURATION][0] = self._steps - before
        return ending

    def _play(self, action: int) -> bool:
        skill, numbers = action, self._recall.numbers
        keys, status = self._outcome.keys, self._game.screen.status
        sighted = self._scratch.sighted
        numbers[R_SKILL] = skill
        hp, level, safe = int(status[HP]), int(numbers[R_LEVEL]), int(sighted[S_SAFE])
        fights = self._skills[skill].fights
        done, over, stopped = 0, False, False
        while not over:
            key = int(keys[skill])
            if key == 0:
                break
            over = super()._play(key) or self._answer(skill)
            done += 1
            if over or self._steps >= self._cap or done >= self._longest[skill]:
                break
            beside = sighted[S_ADJACENT] > 0 and not fights
            changed = status[HP] < hp or numbers[R_LEVEL] != level
            stopped = bool(beside or changed or sighted[S_SAFE] > safe)
            if stopped:
                break
        if done == 0:
            # A player without the mask chose what does not apply: a turn passes.
            over = super()._play(SEARCH) or self._answer(skill)
        self._outcome.atoms[_INTERRUPTED] = stopped
        self._outcome.figures[2 * len(keys) + LENGTH_FIGURE] = done / LONG
        return over

    def _answer(self, skill: int) -> bool:
        """Answer what is open; return if the game is over."""
        screen, recall = self._game.screen, self._recall
        for _ in range(MOST_ANSWERS):
            if not waits(screen, recall) or self._steps >= self._cap:
                return False
            keys = tuple(self._outcome.keys.tolist())
            if super()._play(answer(screen, recall, self._knowledge, keys, skill)):
                return True
        return False

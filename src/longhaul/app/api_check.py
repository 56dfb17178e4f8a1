"""Whether a Gymnasium environment keeps Gymnasium's rules, by Gymnasium's own checker."""

from __future__ import annotations

import re
import warnings
from contextlib import closing
from dataclasses import dataclass

from gymnasium.utils.env_checker import check_env

from longhaul.app.config import RunConfig
from longhaul.app.gymnasium_id import GymnasiumId
from longhaul.envs.user_code import user_line, words_of

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Conformity:
    """What Gymnasium's checker says of an environment."""

    good: bool
    detail: str


def check_api(config: RunConfig) -> Conformity | None:
    """Return the checker's verdict, or None for a task that is not a Gymnasium environment."""
    named = GymnasiumId.of(config)
    if named is None:
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = _problem(named)
    said = dict.fromkeys(
        _COLOUR.sub("", str(one.message)).removeprefix("WARN: ")
        for one in caught
        if issubclass(one.category, UserWarning)
    )
    remarks = f", with a warning: {' / '.join(said)}" if said else ""
    if problem:
        return Conformity(good=False, detail=f"fails Gymnasium's checker: {problem}{remarks}")
    return Conformity(good=True, detail=f"passes Gymnasium's checker{remarks}")


def _problem(named: GymnasiumId) -> str:
    """Return what the checker refuses, or nothing."""
    try:
        with closing(named.make()) as env:
            env.unwrapped.action_space.seed(1)  # the same verdict every time
            # Rendering is left out: a window cannot be opened everywhere and training needs none.
            check_env(env.unwrapped, skip_render_check=True)
    except AssertionError as error:
        if not user_line(error.__traceback__):
            return str(error) or "an assertion failed"
        return words_of(error)
    except Exception as error:  # noqa: BLE001 - the env's own code, whatever it raises
        return words_of(error)
    return ""

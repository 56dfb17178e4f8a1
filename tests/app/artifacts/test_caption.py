from __future__ import annotations

import numpy as np

from longhaul.app.artifacts.caption import CaptionWriter
from longhaul.app.evaluation.episode_player import Moment
from longhaul.core.env import Array
from longhaul.core.spaces import Discrete, EnvSpec, Part

SPEC = EnvSpec("walk", {"place": Part((1,))}, Discrete(2, ("left", "right")))


def moment(shown: dict[str, Array]) -> Moment:
    return Moment(
        step=0,
        action=None,
        value=np.zeros(1, np.float32),
        active=np.ones(1, np.bool_),
        reward=0.0,
        episode_return=0.0,
        terms={},
        shown=shown,
    )


def test_shares_that_a_policy_shows_are_bars_with_their_names() -> None:
    names = {"experts": ("calm", "bold"), "mood": ("good", "bad")}
    narrator = CaptionWriter(SPEC, {}, names)
    shown = {"experts": np.array([[0.25, 0.75]], np.float32), "mood": np.array([1])}
    bars = dict(narrator.caption(moment(shown)).bars)
    assert [(bar.name, bar.figure) for bar in bars["experts"]] == [
        ("calm", "25 %"),
        ("bold", "75 %"),
    ]
    assert [(bar.name, bar.share) for bar in bars["mood"]] == [("good", 0.0), ("bad", 1.0)]


def test_what_has_no_names_is_numbered() -> None:
    shown = {"parts": np.array([[0.5, 0.5]], np.float32), "sure": np.array([0.7], np.float32)}
    bars = dict(CaptionWriter(SPEC, {}).caption(moment(shown)).bars)
    assert [bar.name for bar in bars["parts"]] == ["0", "1"]
    assert [(bar.name, bar.figure) for bar in bars["sure"]] == [("mean", "0.70")]

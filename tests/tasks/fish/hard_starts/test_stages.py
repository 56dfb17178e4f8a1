"""Rows 14 and 17 of the fish checklist: stages, their errors, and returns of a type."""

from __future__ import annotations

import pytest

from longhaul.core.config import convert
from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.files import StageSpec, with_reinjections
from longhaul.tasks.fish.options import TailOptions

WHERE = "options.tail.stages"


def stages(*tables: dict[str, object]) -> tuple[StageSpec, ...]:
    return convert({"stages": list(tables)}, TailOptions, where="options.tail").specs()


def test_stages_are_read_with_their_keys() -> None:
    ne = {"iterations": 8, "path": "ne.json", "type": "NE"}
    warm = {"iterations": 15, "path": "a/warm.json", "type": "main", "label": "warm"}
    assert stages(ne, warm) == (
        StageSpec(8, "ne.json", "ne", "stage1:ne", "after"),
        StageSpec(15, "a/warm.json", "main", "warm", "after"),
    )
    assert stages() == ()


def test_a_stage_without_a_path_rests_and_velocities_may_differ_by_stage() -> None:
    rest, old = stages({"iterations": 4}, {"iterations": 2, "path": "x", "velocities": "before"})
    assert (rest.path, rest.label) == ("", "stage1:rest")
    assert (rest.applied, old.applied) == ("after", "before")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"path": "ne.json"}, "missing required field iterations"),
        ({"iterations": 0}, "stage 1: iterations = 0 must be at least 1"),
        ({"iterations": -3}, "stage 1: iterations = -3 must be at least 1"),
        ({"iterations": 2.5}, "must be a whole number, not 2.5"),
        ({"iterations": "x"}, "expected int"),
        ({"iterations": 8, "tipe": "ne"}, "did you mean 'options.tail.stages.type'"),
        ({"iterations": 8, "type": "n e"}, "letters, digits"),
        ({"iterations": 8, "velocities": "later"}, "there is no choice 'later'"),
    ],
)
def test_a_stage_that_cannot_be_is_refused_with_its_key(
    table: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        stages(table)
    assert WHERE in str(raised.value)


def test_a_type_comes_back_as_often_as_asked() -> None:
    """W3: a minimum number of re-injections."""
    listed = stages(
        {"iterations": 8, "path": "ne.json", "type": "ne"},
        {"iterations": 15, "path": "m.json", "type": "main"},
        {"iterations": 4, "path": "ne2.json", "type": "ne"},
    )
    assert with_reinjections(listed, {"ne": 1}, where=WHERE) == listed
    extended = with_reinjections(listed, {"ne": 3, "main": 1}, where=WHERE)
    assert [stage.type for stage in extended] == ["ne", "main", "ne", "ne", "ne", "main"]
    assert [stage.label for stage in extended[3:]] == [
        "stage3:ne2 again1",
        "stage3:ne2 again2",
        "stage2:m again1",
    ]


def test_a_type_nobody_has_cannot_come_back() -> None:
    with pytest.raises(ConfigError, match="did you mean 'main'"):
        with_reinjections((StageSpec(1, "m.json", "main"),), {"mine": 1}, where="w")

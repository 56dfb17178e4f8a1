"""Rows 14 and 17 of the fish checklist: the stage grammar, its errors, and returns of a type."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.stages import (
    StageSpec,
    by_type,
    parse_stages,
    with_reinjections,
)

WHERE = "options.tail.stages"


def test_stages_are_read_with_their_keys() -> None:
    stages = parse_stages(
        "8:ne.json|type=NE;15:a/warm.json|stage_type=main|label=warm", where=WHERE
    )
    assert stages == (
        StageSpec(8, Path("ne.json"), "ne", "stage1:ne"),
        StageSpec(15, Path("a/warm.json"), "main", "warm"),
    )


def test_blanks_and_a_last_semicolon_do_not_matter() -> None:
    assert parse_stages(" 8 : ne.json | type = ne ; ", where=WHERE) == parse_stages(
        "8:ne.json|type=ne", where=WHERE
    )
    assert parse_stages("", where=WHERE) == ()


def test_a_dash_is_a_rest_and_velocities_may_differ_by_stage() -> None:
    rest, old = parse_stages("4:-;2:x.json|velocities=before", where=WHERE)
    assert (rest.path, rest.label) == (None, "stage1:rest")
    assert (rest.applied, old.applied) == ("after", "before")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ne.json", "iterations:path"),
        ("8:", "iterations:path"),
        (":ne.json", "iterations:path"),
        ("0:ne.json", "above 0"),
        ("-3:ne.json", "above 0"),
        ("2.5:ne.json", "whole number"),
        ("8:a.json;x:b.json", "stage 2"),
        ("8:ne.json|type", "key=value"),
        ("8:ne.json|tipe=ne", "did you mean 'type'"),
        ("8:ne.json|type=ne|type=main", "given twice"),
        ("8:ne.json|type=ne|stage_type=ne", "both type and stage_type"),
        ("8:ne.json|type=n e", "letters, digits"),
        ("8:ne.json|velocities=later", "neither before nor after"),
    ],
)
def test_a_stage_that_cannot_be_is_refused_with_its_number_and_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        parse_stages(text, where=WHERE)
    assert str(raised.value).startswith(WHERE)
    assert "stage" in str(raised.value)


def test_numbers_by_type_are_trimmed_and_lowered() -> None:
    assert by_type(" NE : 0.25, main:2 ", where="w") == {"ne": 0.25, "main": 2.0}


@pytest.mark.parametrize("text", ["ne", "ne:", ":3", "ne:x"])
def test_numbers_by_type_need_both_halves(text: str) -> None:
    with pytest.raises(ConfigError, match="type:number"):
        by_type(text, where="options.tail.keep")


def test_a_type_comes_back_as_often_as_asked() -> None:
    """W3: a minimum number of re-injections."""
    stages = parse_stages("8:ne.json|type=ne;15:m.json|type=main;4:ne2.json|type=ne", where=WHERE)
    assert with_reinjections(stages, {"ne": 1}, where=WHERE) == stages
    extended = with_reinjections(stages, {"ne": 3, "main": 1}, where=WHERE)
    assert [stage.stage_type for stage in extended] == ["ne", "main", "ne", "ne", "ne", "main"]
    assert [stage.label for stage in extended[3:]] == [
        "stage3:ne2 again1",
        "stage3:ne2 again2",
        "stage2:m again1",
    ]


def test_a_type_nobody_has_cannot_come_back() -> None:
    with pytest.raises(ConfigError, match="did you mean 'main'"):
        with_reinjections(parse_stages("1:m.json|type=main", where="w"), {"mine": 1}, where="w")

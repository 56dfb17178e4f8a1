"""Row 14 of the fish checklist: tail files of all kinds, and what is wrong with bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.files import (
    TailFile,
    TailItem,
    fill,
    read_tail_file,
    write_tail_file,
)
from longhaul.tasks.fish.world.starts import PositionStart, SeedStart, ThrownStart, heading


def written(folder: Path, content: Any) -> Path:
    path = folder / "tail.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


POSITION = PositionStart(((1.0, 2.0, 0.1, 0.2),), ((0.0, 0.5, -1.0, 1.0),))


def test_velocities_are_read_and_applied_as_asked(tmp_path: Path) -> None:
    path = written(tmp_path, {"note": "old", "velocities": [[1.5, 0], [0.5, -1]]})
    before = read_tail_file(path, applied="before")
    after = read_tail_file(path, applied="after")
    assert [item.start for item in before.items] == [
        ThrownStart((1.5, 0.0)),
        ThrownStart((0.5, -1.0)),
    ]
    assert all(isinstance(i.start, ThrownStart) and i.start.after_pre_roll for i in after.items)
    assert after.note == "old"


def test_velocities_and_cluster_samples_are_concatenated(tmp_path: Path) -> None:
    sample = {"predator_velocity": [0.0, 2.0], "iteration": 8, "fish_idx": 3}
    content = {"velocities": [[1, 0]], "summary": {"clusters": [{"sample": sample, "count": 4}]}}
    items = read_tail_file(written(tmp_path, content)).items
    assert [item.known_velocity for item in items] == [(1.0, 0.0), (0.0, 2.0)]
    assert items[1].provenance["iteration"] == 8


def test_a_worst_seeds_file_with_whole_starts_replays_them_whole(tmp_path: Path) -> None:
    sample = {"start": ["seed", 7, 0.8, 96], "predator_velocity": [0.0, 2.0], "seed": 7}
    content = {"summary": {"clusters": [{"sample": sample}]}}
    assert read_tail_file(written(tmp_path, content)).items[0].start == SeedStart(7, 0.8, 96)


def test_the_list_is_repeated_to_exactly_the_limit() -> None:
    items = [TailItem(ThrownStart((float(k), 0.0))) for k in range(3)]
    filled = fill(items, 8)
    assert [item.start.velocity[0] for item in filled if isinstance(item.start, ThrownStart)] == [
        0, 1, 2, 0, 1, 2, 0, 1,
    ]  # fmt: skip
    assert fill(items, 2) == tuple(items[:2])
    assert fill([], 8) == ()


def test_a_file_without_starts_has_none(tmp_path: Path) -> None:
    assert read_tail_file(written(tmp_path, {"velocities": []})).items == ()
    assert read_tail_file(written(tmp_path, {})).items == ()


def test_a_written_file_reads_back_to_itself(tmp_path: Path) -> None:
    file = TailFile(
        (
            TailItem(POSITION, 2.5, provenance={"id": "", "seed": 12, "tail_stage_type": "ne"}),
            TailItem(SeedStart(7, 0.8, 25), velocity=(1.0, -1.0)),
            TailItem(ThrownStart((0.5, 0.25), after_pre_roll=True)),
        ),
        generated_at="2026-01-01T00:00:00Z",
        source="a run",
        note="why",
        selection={"min_speed": 1.0},
        clusters=({"angle_range": [0, 30], "count": 1},),
    )
    text = write_tail_file(file)
    again = read_tail_file(written(tmp_path, text))
    assert write_tail_file(again) == text
    assert [(i.start, i.weight, i.velocity) for i in again.items] == [
        (i.start, i.weight, i.velocity) for i in file.items
    ]
    assert again.items[0].provenance["seed"] == 12
    assert json.loads(text)["velocities"] == [[-1.0, 1.0], [1.0, -1.0], [0.5, 0.25]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ({"velocities": [[1]]}, "not a file of tail starts"),
        ({"velocities": [[1, 2, 3]]}, "not a file of tail starts"),
        ({"velocities": [["a", 2]]}, "not a file of tail starts"),
        ({"velocities": 5}, "not a file of tail starts"),
        ('{"velocities": [[1, Infinity]]}', "not finite"),
        ({"summary": {"clusters": [{"count": 1}]}}, "sample"),
        ({"starts": [{"start": ["seat", 1]}]}, "not of the form"),
        ({"starts": [{"start": None}]}, "null"),
        ({"starts": [{"start": ["seed", 1], "weight": 0}]}, "weight 0"),
    ],
)
def test_a_file_that_is_no_tail_file_is_refused_by_name(
    tmp_path: Path, content: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        read_tail_file(written(tmp_path, content), where="options.tail.stages")
    assert str(raised.value).startswith("options.tail.stages")
    assert "tail.json" in str(raised.value)


def test_a_missing_file_is_named_with_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"options\.tail\.stages: .*none\.json cannot be read"):
        read_tail_file(tmp_path / "none.json", where="options.tail.stages")


def test_equal_starts_have_equal_names_and_others_others() -> None:
    assert TailItem(POSITION).id == TailItem(POSITION, 3.0, provenance={"seed": 1}).id
    assert TailItem(POSITION).id != TailItem(SeedStart(1)).id
    assert TailItem(SeedStart(1)).id != TailItem(SeedStart(1, 0.8)).id


@pytest.mark.parametrize(
    ("velocity", "degrees"),
    [((1, 0), 0), ((0, 1), 90), ((-1, 0), 180), ((0, -1), 270), ((0, 0), 0), ((1, -1e-300), 0)],
)
def test_headings_are_at_least_0_and_below_360(
    velocity: tuple[float, float], degrees: float
) -> None:
    assert heading(velocity) == pytest.approx(degrees)
    assert 0 <= heading(velocity) < 360

"""Row 31 of the fish checklist: the mix tools as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.files import read_tail_file
from longhaul.tasks.fish.hard_starts.mix import run_mix
from longhaul.tasks.fish.world.starts import PositionStart


@pytest.fixture
def north(tmp_path: Path) -> Path:
    path = tmp_path / "north.json"
    path.write_text(json.dumps({"velocities": [[0.0, 2.0], [0.1, 0.5], [2.0, 0.1]]}))
    return path


def test_files_are_chosen_from_scaled_weighed_and_merged(tmp_path: Path, north: Path) -> None:
    output = tmp_path / "mixed.json"
    told = run_mix(
        [
            f"{north}*0.5",
            str(north),
            *("-o", str(output)),
            *("--angles", "60-120"),
            *("--speeds", "1-inf"),
            *("--scale", "0.75"),
            *("--weight", "0-360/1-2:4"),
            *("--note", "slow north"),
        ]
    )
    file = read_tail_file(output)
    (item,) = file.items
    assert item.known_velocity == (0.0, 1.5)
    assert item.weight == pytest.approx(1.5 * 4)
    assert item.provenance["scaled_by"] == 0.75
    assert file.source == f"{north}*0.5, {north}"
    assert file.note.startswith("slow north; scaled by 0.75")
    assert file.selection == {"angle_deg_min": 60, "angle_deg_max": 120, "min_speed": 1}
    assert file.generated_at
    assert file.clusters[0]["count"] == 1
    assert "1 starts" in told
    assert " 90 to 120 degrees, 1.2 to 1.6: 1" in told


def test_velocities_are_pinned_to_positions_with_few_fish(tmp_path: Path, north: Path) -> None:
    output = tmp_path / "pinned.json"
    run_mix([str(north), "-o", str(output), "--pin", "--fish", "5"])
    items = read_tail_file(output).items
    assert [len(i.start.fish) for i in items if isinstance(i.start, PositionStart)] == [5, 5, 5]
    assert items[0].velocity == (0.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--angles", "90"], "--angles '90' is not of the form LOW-HIGH"),
        (["--speeds", "a-b"], "--speeds 'a-b'"),
        (["--speeds", "8-9"], "none of the 3 starts is selected"),
        (["--weight", "1:2"], "--weight"),
        (["--scale", "-1"], "above 0"),
    ],
)
def test_what_cannot_be_mixed_is_refused_by_its_flag(
    tmp_path: Path, north: Path, arguments: list[str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        run_mix([str(north), "-o", str(tmp_path / "x.json"), *arguments])
    assert not (tmp_path / "x.json").exists()


def test_a_weight_must_be_a_number_and_a_folder_is_no_file(tmp_path: Path, north: Path) -> None:
    with pytest.raises(ConfigError, match=r"FILE\*WEIGHT"):
        run_mix([f"{north}*much", "-o", str(tmp_path / "x.json")])
    with pytest.raises(ConfigError, match="cannot be written"):
        run_mix([str(north), "-o", str(tmp_path)])

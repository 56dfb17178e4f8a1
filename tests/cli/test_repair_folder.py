"""`longhaul repair` on a folder of the predecessor's Mario checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.conftest import Longhaul, everything_in


def side_car(
    folder: Path, name: str = "a3c_world1_stage1_0000012.json", **saved: Any
) -> dict[str, Any]:
    """Write a side-car as the predecessor did, after 12 updates of 8 environments."""
    content = {
        "version": 1,
        "world": 1,
        "vector_env": {"num_envs": 8, "asynchronous": False},
        "save_state": {"global_step": 0, "global_update": 12, "type": "checkpoint", **saved},
    }
    (folder / name).write_text(json.dumps(content))
    return content


def statuses(longhaul: Longhaul, folder: Path, *arguments: str) -> list[str]:
    return [*json.loads(longhaul("repair", folder, "--json", *arguments).out)["files"].values()]


def test_twelve_updates_of_eight_envs_and_64_steps_are_6144_steps(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    (folder := tmp_path / "exp").mkdir()
    before = side_car(folder)
    outcome = longhaul("repair", tmp_path, "--apply")
    assert outcome.code == 0
    assert "updated:6144" in outcome.out
    path = folder / "a3c_world1_stage1_0000012.json"
    after = json.loads(path.read_text())
    audit = after.pop("reconstructed_step_source")
    assert after.pop("save_state") == {**before.pop("save_state"), "global_step": 6144}
    assert after == before
    assert audit.pop("computed_at")
    assert audit == {
        "method": "assumed_rollout_steps",
        "rollout_steps": 64,
        "formula": "global_update * num_envs * rollout_steps",
    }


def test_without_apply_nothing_changes(longhaul: Longhaul, tmp_path: Path) -> None:
    side_car(tmp_path)
    before = everything_in(tmp_path)
    assert statuses(longhaul, tmp_path, "--num-steps", "32") == ["would_update:3072"]
    assert everything_in(tmp_path) == before


def test_a_second_repair_changes_nothing_and_the_backup_is_the_first_content(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    before = side_car(tmp_path, global_step=100)
    assert statuses(longhaul, tmp_path, "--apply", "--update-if-lower") == ["updated:6144"]
    repaired = everything_in(tmp_path)
    again = statuses(longhaul, tmp_path, "--apply", "--update-if-lower")
    assert again == ["already_reconstructed"]
    assert everything_in(tmp_path) == repaired
    (backup,) = tmp_path.glob("*.bak")
    assert json.loads(backup.read_text()) == before


def test_the_update_is_read_from_the_checkpoint_where_the_side_car_lacks_it(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    side_car(tmp_path, global_update=0)
    weights = {"model": {"w": torch.zeros(2)}, "global_step": 0, "global_update": 5}
    torch.save(weights, tmp_path / "a3c_world1_stage1_0000012.pt")
    assert statuses(longhaul, tmp_path, "--apply") == ["updated:2560"]
    after = json.loads((tmp_path / "a3c_world1_stage1_0000012.json").read_text())
    audit = after["reconstructed_step_source"]
    assert audit["method"] == "checkpoint_plus_rollout"
    assert audit["checkpoint_global_update"] == 5


class Dangerous:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


@pytest.mark.parametrize(
    ("saved", "status"),
    [
        ({"global_step": 77}, "already_has_step"),
        ({"global_update": 0}, "no_update_info"),
        ({"global_update": "twelve"}, "no_update_info"),
    ],
)
def test_what_cannot_or_need_not_be_computed_is_said(
    longhaul: Longhaul, tmp_path: Path, saved: dict[str, Any], status: str
) -> None:
    side_car(tmp_path, **saved)
    assert statuses(longhaul, tmp_path, "--apply") == [status]


def test_a_count_above_the_computed_one_stays(longhaul: Longhaul, tmp_path: Path) -> None:
    side_car(tmp_path, global_step=6145)
    found = statuses(longhaul, tmp_path, "--apply", "--update-if-lower")
    assert found == ["current_step>=computed"]


def test_damaged_files_are_named_and_no_code_of_a_checkpoint_runs(
    longhaul: Longhaul, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    side_car(tmp_path, "a3c_world1_stage1_0000003.json", global_update=0)
    torch.save(Dangerous(), tmp_path / "a3c_world1_stage1_0000003.pt")
    (tmp_path / "a3c_world1_stage2_0000001.json").write_text("{torn")
    (tmp_path / "a3c_world1_stage3_0000001.json").write_text("[]")
    side_car(tmp_path, "a3c_world1_stage4_latest.json")
    lacking = json.loads((tmp_path / "a3c_world1_stage4_latest.json").read_text())
    del lacking["vector_env"]
    (tmp_path / "a3c_world1_stage4_latest.json").write_text(json.dumps(lacking))
    assert statuses(longhaul, tmp_path, "--apply") == [
        "no_update_info",
        "not_json",
        "no_update_info",
        "missing_num_envs",
    ]
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_either_is_refused(longhaul: Longhaul, tmp_path: Path) -> None:
    outcome = longhaul("repair", tmp_path)
    assert outcome.code == 2
    assert "is not a run directory" in outcome.problem

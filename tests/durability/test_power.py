"""The disk that forgets keeps what was synced and nothing else."""

from __future__ import annotations

import os
import random

import pytest

from tests.durability.power import Change, Loss, disk_after

CREATE = os.O_WRONLY | os.O_CREAT


def change(op: str, path: str, other: str = "", *, at: int = 0, content: bytes = b"") -> Change:
    length = CREATE if op == "open" else len(content)
    return Change(op, f"/top{path}", f"/top{other}" if other else "", length, at, content)


def left(loss: Loss, *changes: Change, seed: int = 0) -> dict[str, bytes | None]:
    return disk_after(changes, "/top").after_power_cut(loss, random.Random(seed))


WRITTEN = (change("open", "/a"), change("write", "/a", content=b"old"))
SYNCED = (*WRITTEN, change("fsync", "/a"), change("fsync", ""))


def test_a_name_is_lost_until_its_folder_is_synced() -> None:
    assert left("everything", *WRITTEN, change("fsync", "/a")) == {}
    assert left("everything", *SYNCED) == {"a": b"old"}


def test_a_content_is_lost_until_its_file_is_synced() -> None:
    assert left("everything", *WRITTEN, change("fsync", "")) == {"a": b""}
    longer = (*SYNCED, change("write", "/a", at=3, content=b"new"))
    assert left("everything", *longer) == {"a": b"old"}
    assert left("nothing", *longer) == {"a": b"oldnew"}


def test_a_rename_is_lost_until_its_folder_is_synced() -> None:
    renamed = (*SYNCED, change("rename", "/a", "/b"))
    assert left("everything", *renamed) == {"a": b"old"}
    assert left("everything", *renamed, change("fsync", "")) == {"b": b"old"}


def test_a_removed_file_is_back_until_its_folder_is_synced() -> None:
    removed = (*SYNCED, change("unlink", "/a"))
    assert left("everything", *removed) == {"a": b"old"}
    assert left("everything", *removed, change("fsync", "")) == {}


def test_what_was_not_synced_is_lost_in_different_ways() -> None:
    longer = [change("write", "/a", at=3 + n, content=b"x") for n in range(3)]
    found = {left("some", *SYNCED, *longer, seed=seed)["a"] for seed in range(60)}
    assert {b"old", b"oldx", b"oldxxx", b"old\0\0\0", b"oldx\0\0"} <= found


@pytest.mark.parametrize("loss", ["everything", "some"])
def test_a_folder_takes_what_it_holds_along(loss: Loss) -> None:
    inside = (change("mkdir", "/d"), change("open", "/d/a"), change("fsync", "/d/a"))
    assert "d/a" not in left("everything", *inside, change("fsync", "/d"))
    synced = (*inside, change("fsync", "/d"), change("fsync", ""))
    assert left(loss, *synced) == {"d": None, "d/a": b""}

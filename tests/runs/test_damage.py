from __future__ import annotations

import hashlib
import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from longhaul.core.errors import CheckpointError
from longhaul.runs.checkpoints import manifest as exact_json
from longhaul.runs.checkpoints.inspect import verify
from longhaul.runs.checkpoints.manifest import ForeignError
from longhaul.runs.checkpoints.store import CheckpointStore, load_checkpoint, load_newest
from longhaul.runs.durable import digest_file
from tests.runs.conftest import assert_same, listing, make_snapshot, make_state

MakeStore = Callable[..., CheckpointStore]


def reseal(manifest: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest the way an attacker would, with a hash that holds."""
    body = json.loads(manifest.read_bytes())
    del body["manifest_sha256"]
    change(body)
    digest = hashlib.sha256(exact_json.dumps(body)).hexdigest()
    manifest.write_bytes(exact_json.dumps({**body, "manifest_sha256": digest}))


def test_deleted_checkpoints_are_no_fresh_start(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(1))
    shutil.rmtree(path)
    with pytest.raises(CheckpointError, match="latest names step-000000000100"):
        make_store().load_newest()


def damage(path: Path, chance: random.Random) -> str:
    """Flip a bit or cut off an end of one file of a checkpoint, and say which file."""
    file = chance.choice(sorted(path.iterdir()))
    content = bytearray(file.read_bytes())
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    else:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    return file.name


def test_a_hundred_flips_and_cuts_are_all_found_and_none_deleted(make_store: MakeStore) -> None:
    store = make_store()
    good, newest = store.save(make_snapshot(1)), store.save(make_snapshot(2))
    sound = {file: file.read_bytes() for file in newest.iterdir()}
    for seed in range(100):
        broken = damage(newest, random.Random(seed))
        before = listing(store.folder)
        loaded = make_store().load_newest()
        assert loaded is not None
        assert loaded.path == good
        assert_same(loaded.states["learner"], make_state(1))
        (found,) = loaded.damaged
        assert found.path == newest
        assert broken in found.reason or "parts" in found.reason or "manifest" in found.reason
        assert listing(store.folder) == before
        for file, content in sound.items():
            file.write_bytes(content)
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.path == newest


def test_every_bit_of_a_manifest_counts(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(1)) / "manifest.json"
    content = path.read_bytes()
    for position in range(0, len(content) * 8, 29):
        broken = bytearray(content)
        broken[position // 8] ^= 1 << position % 8
        path.write_bytes(broken)
        with pytest.raises(CheckpointError):
            verify(path.parent)


def test_no_sound_checkpoint_is_an_error_that_lists_them_all(make_store: MakeStore) -> None:
    store = make_store()
    for number in (1, 2):
        path = store.save(make_snapshot(number))
        (path / "state.json").write_bytes(b"{}")
    (path / "manifest.json").unlink()
    with pytest.raises(CheckpointError) as caught:
        make_store().load_newest()
    assert "step-000000000200: manifest.json is missing" in str(caught.value)
    assert "step-000000000100: state.json has 2 bytes" in str(caught.value)
    assert caught.value.exit_code == 5
    assert len(list(store.folder.glob("step-*"))) == 2


def test_a_run_that_fell_back_saves_beside_the_damaged_checkpoint(make_store: MakeStore) -> None:
    store = make_store(keep_last=1)
    store.save(make_snapshot(1))
    newest = store.save(make_snapshot(2))
    store.save(make_snapshot(3))
    assert not newest.exists()

    store = make_store()
    broken = store.save(make_snapshot(4))
    (broken / "learner.safetensors").write_bytes(b"")
    store = make_store(keep_last=1)
    loaded = store.load_newest()
    assert loaded is not None
    assert loaded.manifest.progress.iteration == 3
    again = store.save(make_snapshot(4))
    assert again.name == "step-000000000400.4"
    assert listing(broken)["learner.safetensors"] == b""
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.path == again
    assert loaded.damaged == ()


def test_an_older_save_survives_a_damaged_younger_one_with_one_to_keep(
    make_store: MakeStore,
) -> None:
    store = make_store()
    store.save(make_snapshot(1))
    broken = store.save(make_snapshot(9))
    content = bytearray((broken / "learner.safetensors").read_bytes())
    content[-1] ^= 1
    (broken / "learner.safetensors").write_bytes(content)
    store = make_store(keep_last=1, keep_best=0)
    store.load_newest()
    saved = store.save(make_snapshot(2))
    assert saved.exists()
    assert broken.exists()
    assert not (store.folder / "step-000000000100").exists()


class Payload:
    """Unpickling this would run code."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.witness,))


@pytest.mark.parametrize("name", ["evil.pt", "learner.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("is_resealed", [False, True])
def test_a_planted_pickle_runs_nothing_and_counts_as_damage(
    make_store: MakeStore, tmp_path: Path, name: str, *, is_resealed: bool
) -> None:
    store = make_store()
    good, path = store.save(make_snapshot(1)), store.save(make_snapshot(2))
    witness = tmp_path / "the pickle was run"
    torch.save(Payload(witness), path / name)
    assert pickle.dumps(Payload(witness))
    if is_resealed and name != "manifest.json":
        found = digest_file(path / name)
        entry = {"length": found.length, "sha256": found.sha256}
        reseal(path / "manifest.json", lambda body: body["parts"].update({name: entry}))
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.path == good
    assert [one.path for one in loaded.damaged] == [path]
    assert not witness.exists()


def test_a_manifest_cannot_point_outside_its_folder(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(1))
    reseal(
        path / "manifest.json",
        lambda body: body["parts"].update({"../latest": {"length": 1, "sha256": ""}}),
    )
    with pytest.raises(CheckpointError, match=r"names the file '\.\./latest'"):
        load_checkpoint(path)


def test_links_in_a_checkpoint_are_damage(make_store: MakeStore, tmp_path: Path) -> None:
    path = make_store().save(make_snapshot(1))
    moved = (path / "learner.safetensors").rename(tmp_path / "elsewhere")
    (path / "learner.safetensors").symlink_to(moved)
    with pytest.raises(CheckpointError, match="not a regular file"):
        load_checkpoint(path)


def replace_part(path: Path, name: str, content: bytes) -> None:
    """Put other bytes into a checkpoint and make its manifest vouch for them."""
    (path / name).write_bytes(content)
    found = digest_file(path / name)
    entry = {"length": found.length, "sha256": found.sha256}
    reseal(path / "manifest.json", lambda body: body["parts"].update({name: entry}))


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"3",
        b'{"learner": 3}',
        b'{"learner": {"$float": "00"}}',
        b'{"learner": {"a": {"$float": "00"}}}',
        b'{"learner": {"a": {"$pickle": "weights"}}}',
        b'{"learner": {"a": NaN}}',
        b"{}",
        b'{"learner": {}}',
        b"[" * 100_000,
        b'{"learner": ' + b'{"a":' * 900 + b"0" + b"}" * 900 + b"}",
    ],
)
def test_states_that_nobody_wrote_are_damage_even_with_hashes_that_hold(
    make_store: MakeStore, content: bytes
) -> None:
    path = make_store().save(make_snapshot(1))
    replace_part(path, "state.json", content)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be used"):
        make_store().load_newest()


def test_manifests_that_nobody_wrote_are_damage(make_store: MakeStore) -> None:
    store = make_store()
    path = store.save(make_snapshot(1))
    sound = (path / "manifest.json").read_bytes()
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda body: body.update(progress=3),
        lambda body: body.update(settings=None),
        lambda body: body["settings"].update(rate={"$float": "x"}),
        lambda body: body["parts"].pop("state.json"),
        lambda body: body["parts"].pop("learner.safetensors"),
        lambda body: body["parts"].update({"a.safetensors": {"length": 0, "sha256": ""}}),
    ]
    for change in changes:
        (path / "manifest.json").write_bytes(sound)
        reseal(path / "manifest.json", change)
        with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be used"):
            make_store().load_newest()


def test_a_file_in_the_place_of_a_checkpoint_is_damage(
    make_store: MakeStore, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-000000000100").write_text("")
    with pytest.raises(CheckpointError, match="not a folder"):
        make_store().load_newest()


def test_a_renamed_checkpoint_is_damage(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(1))
    path.rename(path.with_name("step-000000000999"))
    with pytest.raises(CheckpointError, match="made at step 100 and renamed later"):
        make_store().load_newest()


@pytest.mark.parametrize("name", ["step-5", "step-latest"])
def test_a_folder_with_a_strange_name_is_not_taken_for_nothing(
    make_store: MakeStore, tmp_path: Path, name: str
) -> None:
    (tmp_path / "checkpoints" / name).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=f"{name}: its name is not"):
        make_store().load_newest()


def test_a_checkpoint_of_another_format_is_foreign(make_store: MakeStore) -> None:
    store = make_store()
    store.save(make_snapshot(1))
    path = store.save(make_snapshot(2))
    reseal(path / "manifest.json", lambda body: body.update(format=1))
    with pytest.raises(ForeignError, match=f"{path} cannot be used.*its format is not 2"):
        make_store().load_newest()


def test_a_checkpoint_of_another_task_is_foreign(tmp_path: Path, make_store: MakeStore) -> None:
    make_store().save(make_snapshot(1))
    with pytest.raises(ForeignError, match=r"task 'gym:CartPole-v1', but this run has 'fish'"):
        load_newest(tmp_path / "checkpoints", {"task": "fish"})

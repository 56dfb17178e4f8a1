from __future__ import annotations

import hashlib
import json
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from longhaul.core.errors import CheckpointError, ConfigError, ResourceError
from longhaul.core.progress import Progress
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.runs import exact_json
from longhaul.runs.checkpoint import CheckpointStore, Snapshot, load_checkpoint, load_newest
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.durable import Digest, digest_file
from longhaul.runs.inspection import read_latest, verify
from longhaul.runs.manifest import ForeignError, Stamp
from tests.runs.conftest import IDENTITY, FakeClock, assert_same, make_snapshot, make_state

MakeStore = Callable[..., CheckpointStore]


def listing(folder: Path) -> dict[str, bytes]:
    """Return every file below `folder` with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def reseal(manifest: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest the way an attacker would, with a hash that holds."""
    body = json.loads(manifest.read_bytes())
    del body["manifest_sha256"]
    change(body)
    digest = hashlib.sha256(exact_json.dumps(body)).hexdigest()
    manifest.write_bytes(exact_json.dumps({**body, "manifest_sha256": digest}))


def test_a_checkpoint_gives_back_what_was_saved(make_store: MakeStore) -> None:
    store = make_store()
    path = store.save(make_snapshot(7, score=1.5))
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.path == path
    assert path.name == "step-000000000700"
    assert loaded.manifest.progress == Progress(7, 700, 7)
    assert loaded.manifest.settings == {"rate": 0.007}
    assert loaded.manifest.identity == IDENTITY
    assert loaded.manifest.score is not None
    assert loaded.manifest.score.value == 1.5
    assert loaded.damaged == ()
    assert_same(loaded.states["learner"], make_state(7))
    assert loaded.states["schedule"] == {"streak": 7}
    assert read_latest(store.folder) == path.name


@pytest.mark.parametrize("value", [True, 3, 2**80, float("inf"), 0.1, "x", ((1, 2.0), ("$a",)), ()])
def test_settings_keep_value_and_type(make_store: MakeStore, value: SettingValue) -> None:
    settings = Settings([Setting("it", value, "any")])  # type: ignore[list-item]  # any kind
    make_store().save(Snapshot(Progress(1, 1, 0), settings, {"a": {}}, {}))
    loaded = make_store().load_newest()
    assert loaded is not None
    assert repr(loaded.manifest.settings["it"]) == repr(value)


def test_the_same_state_gives_the_same_files(
    tmp_path: Path, clock: FakeClock, make_store: MakeStore
) -> None:
    first = make_store().save(make_snapshot(3))
    clock.seconds += 1e6
    other = CheckpointStore(
        tmp_path / "other", CheckpointConfig(), Stamp(IDENTITY), clock.clocks()
    ).save(make_snapshot(3))
    ours, theirs = listing(first), listing(other)
    assert ours.pop("manifest.json") != theirs.pop("manifest.json")
    assert ours == theirs


def test_hashes_in_the_manifest_are_those_of_sha256sum(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(3))
    for name, digest in verify(path).parts.items():
        command = ["sha256sum", str(path / name)]
        output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        assert digest == Digest((path / name).stat().st_size, output.split()[0])


def test_saving_what_is_saved_does_nothing(make_store: MakeStore) -> None:
    store = make_store()
    store.save(make_snapshot(1))
    before = listing(store.folder)
    store.save(make_snapshot(1))
    make_store().save(make_snapshot(1))
    assert listing(store.folder) == before


def test_an_empty_folder_is_a_fresh_start(make_store: MakeStore, tmp_path: Path) -> None:
    assert make_store().load_newest() is None
    (tmp_path / "checkpoints").mkdir()
    assert make_store().load_newest() is None


def test_deleted_checkpoints_are_no_fresh_start(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(1))
    shutil.rmtree(path)
    with pytest.raises(CheckpointError, match="latest names step-000000000100"):
        make_store().load_newest()


def test_iterations_without_steps_have_checkpoints_of_their_own(make_store: MakeStore) -> None:
    store = make_store()
    settings = Settings([])
    names = [
        store.save(Snapshot(Progress(i, 50, 0), settings, {"a": {"i": i}}, {})).name
        for i in (1, 2, 12)
    ]
    assert names == ["step-000000000050", "step-000000000050.2", "step-000000000050.12"]
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.states["a"] == {"i": 12}


def test_more_than_twelve_digits_of_steps_are_newer_still(make_store: MakeStore) -> None:
    store = make_store()
    for steps in (10**12 - 1, 10**12):
        store.save(Snapshot(Progress(steps, steps, 0), Settings([]), {"a": {}}, {}))
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.manifest.progress.env_steps == 10**12


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


def test_a_renamed_checkpoint_is_damage(make_store: MakeStore) -> None:
    path = make_store().save(make_snapshot(1))
    path.rename(path.with_name("step-000000000999"))
    with pytest.raises(CheckpointError, match="made at step 100 and then renamed"):
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
    reseal(path / "manifest.json", lambda body: body.update(format=2))
    with pytest.raises(ForeignError, match=f"{path} cannot be used.*another format than 1"):
        make_store().load_newest()


def test_a_checkpoint_of_another_task_is_foreign(tmp_path: Path, make_store: MakeStore) -> None:
    make_store().save(make_snapshot(1))
    with pytest.raises(ForeignError, match=r"task 'gym:CartPole-v1', and this run has 'fish'"):
        load_newest(tmp_path / "checkpoints", {"task": "fish"})


def test_too_little_space_is_told_in_numbers_before_writing(make_store: MakeStore) -> None:
    store = make_store(reserve_megabytes=10**9)
    with pytest.raises(ResourceError, match=r"MB are free.*needs 1000000000\.\d MB") as caught:
        store.save(make_snapshot(1))
    assert caught.value.exit_code == 6
    assert list(store.folder.iterdir()) == []


FULL_DISK = """
import resource, sys
from pathlib import Path
import torch
from longhaul.core.errors import ResourceError
from longhaul.core.progress import Progress
from longhaul.core.settings import Settings
from longhaul.runs.checkpoint import CheckpointStore, Snapshot
from longhaul.runs.clocks import Clocks
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.manifest import Stamp
store = CheckpointStore(Path(sys.argv[1]), CheckpointConfig(), Stamp({}), Clocks())
def save(iteration, size):
    states = {"learner": {"weights": torch.zeros(size)}}
    return store.save(Snapshot(Progress(iteration, iteration, 0), Settings([]), states, {}))
save(1, 10)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(2, 1_000_000)
except ResourceError as error:
    sys.exit(0 if "no room to write" in str(error) else str(error))
sys.exit("nothing was raised")
"""


def test_a_disk_that_fills_up_leaves_the_old_checkpoint_and_no_rubbish(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    subprocess.run([sys.executable, "-c", FULL_DISK, folder], check=True)
    assert sorted(path.name for path in folder.iterdir()) == ["latest", "step-000000000001"]
    loaded = load_newest(folder)
    assert loaded is not None
    assert loaded.damaged == ()


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "x" * 81, "state"])
def test_a_part_name_that_could_not_be_a_file_is_refused(make_store: MakeStore, name: str) -> None:
    snapshot = Snapshot(Progress(1, 1, 0), Settings([]), {name: {}}, {})
    with pytest.raises(ConfigError, match="part of a checkpoint"):
        make_store().save(snapshot)


def test_a_state_that_cannot_be_saved_leaves_nothing_behind(make_store: MakeStore) -> None:
    store = make_store()
    snapshot = Snapshot(Progress(1, 1, 0), Settings([]), {"learner": {"a": object()}}, {})
    with pytest.raises(CheckpointError, match=r"learner/a is a builtins\.object"):
        store.save(snapshot)
    assert not store.folder.exists()


@pytest.mark.parametrize(
    "values", [{"keep_last": 0}, {"every_seconds": -1.0}, {"every_seconds": float("nan")}]
)
def test_a_config_that_makes_no_sense_is_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"checkpoint.{next(iter(values))}"):
        CheckpointConfig(**values)

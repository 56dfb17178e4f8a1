from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.control import Progress
from longhaul.core.errors import CheckpointError, ConfigError, NumericalError, ResourceError
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.runs.checkpoints.inspect import read_latest, verify
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore, load_newest
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.durable import Digest
from tests.runs.conftest import IDENTITY, FakeClock, assert_same, listing, make_snapshot, make_state

MakeStore = Callable[..., CheckpointStore]


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
    settings = Settings([Setting("it", value, "any")])  # any kind
    make_store().save(CheckpointContent(Progress(1, 1, 0), settings, {"a": {}}, {}))
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


def test_iterations_without_steps_have_checkpoints_of_their_own(make_store: MakeStore) -> None:
    store = make_store()
    settings = Settings([])
    names = [
        store.save(CheckpointContent(Progress(i, 50, 0), settings, {"a": {"i": i}}, {})).name
        for i in (1, 2, 12)
    ]
    assert names == ["step-000000000050", "step-000000000050.2", "step-000000000050.12"]
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.states["a"] == {"i": 12}


def test_more_than_twelve_digits_of_steps_are_newer_still(make_store: MakeStore) -> None:
    store = make_store()
    for steps in (10**12 - 1, 10**12):
        store.save(CheckpointContent(Progress(steps, steps, 0), Settings([]), {"a": {}}, {}))
    loaded = make_store().load_newest()
    assert loaded is not None
    assert loaded.manifest.progress.env_steps == 10**12


def test_a_score_that_is_not_finite_is_refused(make_store: MakeStore) -> None:
    with pytest.raises(NumericalError, match="eval/mean_reward = nan"):
        make_store(best_metric="eval/mean_reward").save(make_snapshot(1, score=float("nan")))


def test_a_folder_that_cannot_be_written_is_a_resource_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CheckpointStore(
        tmp_path / "file" / "checkpoints", CheckpointConfig(), Stamp({}), FakeClock().clocks()
    )
    with pytest.raises(ResourceError, match="cannot write"):
        store.save(make_snapshot(1))


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
from longhaul.core.control import Progress
from longhaul.core.settings import Settings
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore
from longhaul.runs.lock import Clocks
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.checkpoints.manifest import Stamp
store = CheckpointStore(Path(sys.argv[1]), CheckpointConfig(), Stamp({}), Clocks())
def save(iteration, size):
    states = {"learner": {"weights": torch.zeros(size)}}
    progress = Progress(iteration, iteration, 0)
    return store.save(CheckpointContent(progress, Settings([]), states, {}))
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
    snapshot = CheckpointContent(Progress(1, 1, 0), Settings([]), {name: {}}, {})
    with pytest.raises(ConfigError, match="part of a checkpoint"):
        make_store().save(snapshot)


def test_a_state_that_cannot_be_saved_leaves_nothing_behind(make_store: MakeStore) -> None:
    store = make_store()
    snapshot = CheckpointContent(Progress(1, 1, 0), Settings([]), {"learner": {"a": object()}}, {})
    with pytest.raises(CheckpointError, match=r"learner/a is a builtins\.object"):
        store.save(snapshot)
    assert not store.folder.exists()


@pytest.mark.parametrize(
    "values",
    [
        {"keep_last": 0},
        {"every_seconds": -1.0},
        {"every_seconds": float("nan")},
        {"most_share": 0.0},
    ],
)
def test_a_config_that_makes_no_sense_is_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"checkpoint.{next(iter(values))}"):
        CheckpointConfig(**values)

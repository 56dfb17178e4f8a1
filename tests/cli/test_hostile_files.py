"""A run from a stranger: its files are refused in a line, and nothing else is read or run."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.build.sources import read_toml
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.checkpoints.manifest import dumps
from longhaul.runs.checkpoints.store import load_newest
from longhaul.runs.directory import RunDirectory
from tests.app.small import stopped_run
from tests.cli.conftest import Longhaul

DEEP = 200_000
SPARSE = 64 << 30
"""Bytes of a file that takes no room on the disk, and more memory than there is."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return stopped_run(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def run(trained: RunDirectory, tmp_path: Path) -> RunDirectory:
    """Return a run with one checkpoint."""
    path = tmp_path / "runs" / trained.path.parent.name / trained.path.name
    shutil.copytree(trained.path, path)
    copied = RunDirectory(path)
    for checkpoint in list_checkpoints(copied.checkpoints)[1:]:
        shutil.rmtree(checkpoint)
    return copied


def newest(run: RunDirectory) -> Path:
    return list_checkpoints(run.checkpoints)[0]


def sealed(body: dict[str, Any]) -> bytes:
    """Return a manifest whose hash is right, as an attacker can make it."""
    body.pop("manifest_sha256", None)
    return dumps({**body, "manifest_sha256": hashlib.sha256(dumps(body)).hexdigest()})


def change_manifest(run: RunDirectory, change: Callable[[dict[str, Any]], None]) -> None:
    path = newest(run) / "manifest.json"
    body = json.loads(path.read_bytes())
    change(body)
    path.write_bytes(sealed(body))


def put_part(run: RunDirectory, name: str, content: bytes) -> None:
    """Put a file into the checkpoint and its true hash into the manifest."""
    (newest(run) / name).write_bytes(content)
    digest = {"length": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change_manifest(run, lambda body: body["parts"].update({name: digest}))


def sparse(path: Path) -> None:
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(SPARSE)


def linked(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)


def nested(opening: str, closing: str) -> bytes:
    return (opening * DEEP + closing * DEEP).encode()


def header(length: int, text: bytes = b"") -> bytes:
    return struct.pack("<Q", length) + text


def tensors(text: bytes) -> bytes:
    return header(len(text), text) + bytes(64)


ONE = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
Attack = Callable[[RunDirectory], object]
CHECKPOINT: dict[str, Attack] = {
    "a link for a checkpoint": lambda run: linked(newest(run), Path("/etc")),
    "a link for a part": lambda run: linked(newest(run) / "state.json", Path("/etc/passwd")),
    "a link for the manifest": lambda run: linked(newest(run) / "manifest.json", Path("/dev/zero")),
    "a header of 2**60 bytes": lambda run: put_part(run, "learner.safetensors", header(1 << 60)),
    "a header longer than its file": lambda run: put_part(
        run, "learner.safetensors", header(1 << 20, b"{}")
    ),
    "a deep header": lambda run: put_part(
        run, "learner.safetensors", tensors(b'{"a":' + nested("[", "]") + b"}")
    ),
    "a tensor named twice": lambda run: put_part(
        run, "learner.safetensors", tensors(b"{" + ONE + b"," + ONE + b"}")
    ),
    "a tensor beyond its file": lambda run: put_part(
        run,
        "learner.safetensors",
        tensors(b'{"a":{"dtype":"F32","shape":[4000000000],"data_offsets":[0,16000000000]}}'),
    ),
    "a deep state": lambda run: put_part(run, "state.json", nested("[", "]")),
    "a deep state of objects": lambda run: put_part(run, "state.json", nested('{"a":', "}")),
    "a state with a key twice": lambda run: put_part(run, "state.json", b'{"a":{},"a":{}}'),
    "a state that is a number": lambda run: put_part(run, "state.json", b"1" * 100_000),
    "a deep manifest": lambda run: (
        newest(run).joinpath("manifest.json").write_bytes(nested("[", "]"))
    ),
    "a huge manifest": lambda run: sparse(newest(run) / "manifest.json"),
    "a huge part": lambda run: sparse(newest(run) / "state.json"),
    "a manifest with a key twice": lambda run: (
        newest(run)
        .joinpath("manifest.json")
        .write_bytes(
            newest(run).joinpath("manifest.json").read_bytes().replace(b"{", b'{"kind":"x",', 1)
        )
    ),
    "a part outside": lambda run: change_manifest(
        run, lambda body: body["parts"].update({"../../../run.json": body["parts"]["state.json"]})
    ),
    "a part that is a command": lambda run: change_manifest(
        run, lambda body: body["parts"].update({"$(id)": body["parts"]["state.json"]})
    ),
    "a log outside": lambda run: change_manifest(
        run, lambda body: body["logs"].update({"../../../../secret": body["logs"]["metrics.jsonl"]})
    ),
    "endless settings": lambda run: change_manifest(
        run, lambda body: body["settings"].update({"learn.learning_rate": "x" * 1_000_000})
    ),
}
RUN: dict[str, Attack] = {
    "a deep record": lambda run: run.record.write_bytes(nested("[", "]")),
    "a huge record": lambda run: sparse(run.record),
    "a deep config": lambda run: run.config.write_bytes(b"a = " + nested("[", "]")),
    "a huge config": lambda run: sparse(run.config),
    "a config with an endless name": lambda run: run.config.write_text("a." * DEEP + "a = 1"),
    "a config with an endless table": lambda run: run.config.write_text(
        "[" + "'a' . " * DEEP + '"a"]'
    ),
    "a config of endless keys": lambda run: run.config.write_text(
        "".join(f"a{number} = 1\n" for number in range(DEEP))
    ),
}
UNUSED = {"a log outside", "endless settings"}
"""Attacks by entries that are never used as they are."""


@pytest.mark.parametrize("attack", sorted(CHECKPOINT))
def test_a_hostile_checkpoint_is_refused(run: RunDirectory, attack: str) -> None:
    CHECKPOINT[attack](run)
    if attack in UNUSED:
        assert load_newest(run.checkpoints) is not None
        return
    with pytest.raises(CheckpointError, match=newest(run).name) as raised:
        load_newest(run.checkpoints)
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize("attack", sorted(RUN))
def test_a_hostile_record_or_config_is_refused(run: RunDirectory, attack: str) -> None:
    RUN[attack](run)
    read = run.read_record if "record" in attack else partial(read_toml, run.config)
    with pytest.raises(ConfigError):
        read()


@pytest.mark.parametrize(
    ("attack", "command", "code"),
    [
        ("a huge manifest", "resume", 5),
        ("a deep state", "resume", 5),
        ("a link for a part", "evaluate", 2),
        ("a deep config", "resume", 2),
        ("a config with an endless name", "resume", 2),
        ("a config with an endless table", "evaluate", 2),
        ("a huge record", "report", 2),
    ],
)
def test_a_command_ends_in_one_line_with_its_code(
    longhaul: Longhaul, run: RunDirectory, attack: str, command: str, code: int
) -> None:
    {**CHECKPOINT, **RUN}[attack](run)
    outcome = longhaul(command, run.path)
    assert outcome.code == code, outcome.err
    assert outcome.err.splitlines()[-1].startswith("longhaul: ")
    assert "Traceback" not in outcome.err


def test_a_log_that_a_manifest_names_outside_is_left_alone(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    secret = run.path.parents[2] / "secret"
    secret.write_text("kept\n")
    CHECKPOINT["a log outside"](run)
    assert longhaul("resume", run.path, "--quiet").code == 0
    assert secret.read_text() == "kept\n"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "zoo:../../x", "..", "a/../b"])
def test_a_policy_of_the_zoo_is_a_plain_name(longhaul: Longhaul, name: str) -> None:
    outcome = longhaul("evaluate", f"zoo:{name}")
    assert outcome.code == 2, outcome.err
    assert "Traceback" not in outcome.err
    assert "root:" not in outcome.err + outcome.out

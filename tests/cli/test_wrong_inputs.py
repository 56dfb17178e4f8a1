"""Every wrong input is answered in one line, with its exit code, and without a traceback."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import RunDirectory
from tests.app.small import finished_run, stopped_run
from tests.cli.conftest import Longhaul, everything_in
from tests.cli.wrong_inputs import ROWS

FILES = {
    "binary.toml": b"\xff\xfe\x00",
    "cut.toml": b"learn = [",
    "yaml.toml": b"learn:\n  epochs: 3\n",
    "pickle.toml": b"\x80\x04K\x05.",
    "typo.toml": b"learn.epoch = 3",
    "fish.toml": b'task = "fish"',
    "lengths.toml": b"total_iterations = 3\ntotal_timesteps = 500",
    "rates.toml": b"learn.learning_rate = 1e-5\n[[schedule]]\nkind = 'ramp'\nname = 'rate'\n"
    b"setting = 'learn.learning_rate'\nstart = 1e-3",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, damaged copies of it, and files that are no configs."""
    root = tmp_path_factory.mktemp("prepared")
    for name, content in FILES.items():
        (root / name).write_bytes(content)
    (root / "folder").mkdir()
    finished = finished_run(root / "finished")
    finished.path.rename(root / "run")
    run = RunDirectory(root / "run")
    stopped_run(root / "runs", "name=cut")
    for name in ("garbled", "future", "foreign", "flipped", "emptied"):
        shutil.copytree(run.path, root / name)
    (root / "garbled" / "run.json").write_text("{")
    record = root / "future" / "run.json"
    record.write_text(re.sub(r'"format": ?\d+', '"format":99', record.read_text()))
    config = root / "foreign" / "config.toml"
    config.write_text(config.read_text().replace("gym:CartPole-v1", "gym:Acrobot-v1"))
    (newest,) = list_checkpoints(root / "flipped" / "checkpoints")[:1]
    weights = newest / "learner.safetensors"
    flipped = bytearray(weights.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    weights.write_bytes(flipped)
    (root / "emptied" / "checkpoints" / newest.name / "state.json").write_bytes(b"")
    return root


def test_there_are_at_least_117_wrong_inputs_each_once() -> None:
    assert len(ROWS) == len({command for command, _, _ in ROWS}) >= 117


@pytest.mark.parametrize(("command", "code", "says"), ROWS, ids=[row[0] for row in ROWS])
def test_a_wrong_input_is_answered_in_one_line(
    longhaul: Longhaul,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.replace("@", f"{prepared}/", 1) for word in shlex.split(command)]
    outcome = longhaul(*words)
    assert outcome.code == code
    assert "Traceback" not in outcome.err
    # A usage error stands in a box, whose lines depend on the terminal's width.
    told = " ".join(re.sub(r"[│╭╮╰╯─]", " ", outcome.out + outcome.err).split())
    assert says in told
    if code and "Usage: longhaul" not in told:
        assert outcome.problem
    if code == 2:
        assert everything_in(tmp_path) == {}

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from longhaul.app.diagnose.reproduce import reproduce_file
from longhaul.cli.main import app
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import FaultPolicy, Listeners
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.processes.repro import write_repro
from longhaul.envs.processes.vector import ProcessVectorEnv

BROKEN = "tests.app.trial_toys:Trial/BrokenStep-v0"


@pytest.fixture(scope="module")
def repro_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repro file of an env that raises in the sixth step of every episode."""
    folder = tmp_path_factory.mktemp("crash")
    written: list[Path] = []
    vector = ProcessVectorEnv(
        gymnasium_envs(GymnasiumFactory(BROKEN)),
        1,
        DerivedSeeds(Seeds(3)),
        config=ProcessesConfig(workers=1),
        faults=FaultPolicy(
            listeners=Listeners(on_repro=lambda repro: written.append(write_repro(repro, folder)))
        ),
    )
    try:
        vector.reset()
        while not written:
            vector.step(np.array([1]))
    finally:
        vector.close()
    return written[0]


def changed(path: Path, folder: Path, **values: object) -> Path:
    """Return a copy of a repro file with some values changed."""
    other = folder / "repro.json"
    other.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return other


def test_a_failure_is_seen_again_with_its_traceback(repro_file: Path) -> None:
    verdict = reproduce_file(repro_file)
    assert verdict.is_same
    text = verdict.as_text()
    assert "RuntimeError: the simulator fell over" in text
    assert "toys.py" in text
    assert text.endswith("the same failure")
    assert json.loads(verdict.as_json())["same"] is True


def test_a_failure_that_does_not_come_back_is_told_so(repro_file: Path, tmp_path: Path) -> None:
    shorter = changed(
        repro_file, tmp_path, actions=json.loads(repro_file.read_text())["actions"][:2]
    )
    result = CliRunner().invoke(app, ["reproduce", str(shorter)])
    assert result.exit_code == 1
    assert "no failure" in result.output


def test_another_failure_is_not_the_same(repro_file: Path, tmp_path: Path) -> None:
    verdict = reproduce_file(changed(repro_file, tmp_path, failure="hung"))
    assert not verdict.is_same
    assert verdict.as_text().endswith("a different failure than in the run")


def test_a_file_that_cannot_make_its_environment_takes_a_task(
    repro_file: Path, tmp_path: Path
) -> None:
    nameless = changed(repro_file, tmp_path, factory="", arguments={})
    with pytest.raises(ConfigError, match="name the task"):
        reproduce_file(nameless)
    assert reproduce_file(nameless, task=f"gym:{BROKEN}").is_same
    with pytest.raises(ConfigError, match="do not run in worker processes"):
        reproduce_file(nameless, task="probe:chase")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "null", '{"format": 1}', "\0\0"],
    ids=["nothing", "half", "a list", "empty", "null", "too little", "zeros"],
)
def test_a_file_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "repro.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"repro\.json is not a repro file"):
        reproduce_file(path)


@pytest.mark.parametrize(
    "values",
    [
        {"actions": [[1], [1, 2]]},
        {"actions": ["left"]},
        {"spec": {}},
        {"spec": {"observation": 3}},
        {"factory": "nowhere:Nothing"},
    ],
)
def test_a_file_with_nonsense_inside_is_refused(
    values: dict[str, object], repro_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError):
        reproduce_file(changed(repro_file, tmp_path, **values))


def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            reproduce_file(path)


def test_a_deadline_must_be_positive(repro_file: Path) -> None:
    with pytest.raises(ConfigError, match="--deadline"):
        reproduce_file(repro_file, deadline_seconds=0.0)

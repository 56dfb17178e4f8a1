"""What users install is ours, whole, and trains in an environment that holds nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ADVISED = re.compile(r"pip install (?:-\w+ )*['\"]?(longhaul(?![-\w])[^\s'\"]*)")
FIVE_STEPS = """
import gymnasium, longhaul
run = longhaul.train("gym:CartPole-v1", total_timesteps=20_000, seed=1)
print("mean", run.evaluate(episodes=10).mean)
longhaul.load(run).save("cartpole")
agent = longhaul.load("cartpole")
print("action", agent.act(gymnasium.make("CartPole-v1").reset(seed=0)[0]))
"""
"""Train, evaluate, save, load, predict, as in Stable-Baselines3's tutorial."""


def texts() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return [*pages, *(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.toml")]


def project() -> dict[str, dict[str, list[str]]]:
    table: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
        "project"
    ]
    return table


def source_files() -> set[str]:
    folder = ROOT / "src"
    return {
        path.relative_to(folder).as_posix()
        for path in (folder / "longhaul").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def test_no_text_advises_another_projects_package() -> None:
    wrong = [f"{path}: {found}" for path in texts() for found in ADVISED.findall(path.read_text())]
    assert not wrong


def test_the_distribution_is_ours_and_names_every_advised_extra() -> None:
    assert str(project()["name"]) == "longhaul-rl"
    extras = {
        extra
        for path in texts()
        for extra in re.findall(r"longhaul-rl\[(\w+)\]", path.read_text("utf-8"))
    }
    assert extras <= set(project()["optional-dependencies"])


def test_the_install_page_lists_every_extra() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/guide/install.md").read_text("utf-8"), re.M)
    assert sorted(rows) == sorted(project()["optional-dependencies"])


def test_the_wheel_holds_every_file_of_the_source(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == source_files()
    assert "longhaul/py.typed" in held
    for kind in ("presets/default.toml", "rules.toml", "web/static/run.html", "fish/policy.json"):
        assert any(name.endswith(kind) for name in held), kind


def test_the_source_archive_holds_what_a_build_and_the_tests_need(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in source_files()} <= held
    assert {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "Makefile"} <= held
    assert "tests/test_packaging.py" in held


def empty_venv(folder: Path) -> Path:
    """Return the interpreter of a virtual environment without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def outside(folder: Path, *command: str) -> str:
    """Run a command in a folder outside the checkout, without our paths; return what it prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train_and_use(python: Path, folder: Path) -> None:
    where = outside(folder, str(python), "-c", "import longhaul; print(longhaul.__file__)")
    assert Path(where.strip()).is_relative_to(python.parents[1])
    steps = outside(folder, str(python), "-c", FIVE_STEPS)
    assert float(re.findall(r"mean (.*)", steps)[0]) > 50
    assert re.findall(r"action (.*)", steps)[0] in ("0", "1")
    command = str(python.with_name("longhaul"))
    outside(folder, command, "train", "fish", "--total-timesteps", "20000", "--quiet")
    assert "finished" in outside(folder, command, "runs")
    assert "the same" in outside(folder, command, "zoo", "evaluate", "cartpole")


def test_five_steps_take_at_most_eight_lines() -> None:
    assert len(FIVE_STEPS.strip().splitlines()) <= 8


@pytest.mark.thorough
def test_the_wheel_trains_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    python = empty_venv(tmp_path / "venv")
    pip(python, "--no-deps", "--no-index", str(wheel))
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # The packages it needs, of this environment; what is in their .pth files is not read.
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])
    (tmp_path / "work").mkdir()
    train_and_use(python, tmp_path / "work")


@pytest.mark.slow
def test_the_wheel_and_what_it_needs_train_in_an_empty_environment(
    wheel: Path, tmp_path: Path
) -> None:
    python = empty_venv(tmp_path / "venv")
    pip(python, "-c", str(ROOT / "constraints.txt"), str(wheel))
    (tmp_path / "work").mkdir()
    train_and_use(python, tmp_path / "work")

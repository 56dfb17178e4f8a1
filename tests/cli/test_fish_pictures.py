"""Rows 27 and 30 of the fish's checklist: pictures, films, and the commands of a project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image, ImageSequence

from longhaul.report.film import count_frames
from longhaul.report.notebook import HEADINGS, section
from longhaul.report.snapshots import read_snapshots
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import flags
from tests.cli.conftest import Longhaul

SUITE = "v38-8"
PLOTS = (
    "survival",
    "training_overview",
    "checkpoint_grid",
    "first_death",
    "penalty_vs_first_death",
    "penalty_vs_entropy",
    "multi_eval_timeline",
    "death_hist/iter005_death_hist",
    "death_histogram",
    "step_one_heading_polar",
    "step_one_stage_distribution",
    "step_one_map",
    "tail_stage_warning",
)
"""What section 8.4 of the laboratory's description lists."""


def fish_flags(folder: Path) -> list[str]:
    """A run with a ladder, bad starts and evaluations, in a second or two."""
    tail = folder / "ne.json"
    tail.write_text(json.dumps({"velocities": [[0.5, 1.9], [-0.8, 1.7], [0.1, 2.4]]}))
    return flags(
        "num_envs=6",
        "options.fish=25",
        "options.time_limit=20",
        "options.training.curriculum=[{fish=20, iterations=5}, {fish=25, iterations=5}]",
        "options.training.ladder.phase_targets=[0.0, 0.02]",
        f"options.tail.stages=[{{iterations=5, path='{tail}', type='ne'}}, "
        f"{{iterations=5, path='{tail}', type='main'}}]",
        "total_iterations=10",
        "evaluate.every_iterations=5",
        f"evaluate.suite={SUITE}",
        f"evaluate.final_suites=['{SUITE}']",
        "evaluate.final_episodes=1",
        "report.at_end=true",
        "report.films=['worst']",
        "report.film_evaluations=1",
        "checkpoint.every_iterations=1",
        "checkpoint.keep_spread=10",
        "report.snapshots=10",
        "report.snapshot_step=15",
    )


@pytest.fixture
def _short_films(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhaul.app.artifacts.films.MOST_FRAMES", 10)


@pytest.mark.slow
@pytest.mark.usefixtures("_short_films")
def test_rows_27_and_30_a_project_from_its_first_run_to_a_comparison(
    longhaul: Longhaul, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    asked = fish_flags(tmp_path)
    assert longhaul("train", "fish", "--name", "v1", "--quiet", *asked).code == 0
    (run,) = map(RunDirectory, (tmp_path / "runs" / "fish").glob("2*"))
    check_pictures(run)
    check_films(run)

    notebook = run.notebook.read_text()
    assert [f"## {heading}\n" in notebook for heading in HEADINGS] == [True] * len(HEADINGS)
    assert "longhaul train fish --name v1" in notebook
    assert "| policy | avg_final | min_final |" in notebook
    assert "fish.density_penalty" in section(notebook, "Tail and gate")
    asked_for = notebook.index("_What should be tried next?")
    run.notebook.write_text(notebook[:asked_for] + "Brake more.\n")
    assert longhaul("report", run.path).code == 0
    assert section(run.notebook.read_text(), "Next steps") == "Brake more."

    begun = longhaul("new-experiment", "--from", run.path, "--set", "learn.gamma=0.9")
    assert begun.code == 0
    assert section(Path("experiments/v2.md").read_text(), "Plan").startswith("Brake more.")
    trained = longhaul(
        "train", "fish", "--name", "v2", "--config", "experiments/v2.toml", "--quiet", "--no-report"
    )
    assert trained.code == 0
    second = next(Path("runs/fish").glob("*-v2-s1"))

    listed = json.loads(longhaul("runs", "--json").out)
    assert [(line["name"], line["status"]) for line in listed] == [
        ("v1", "finished"),
        ("v2", "finished"),
    ]
    compared = json.loads(longhaul("compare", run.path, second, "--json").out)
    assert compared["differences"] == {"v2": {"learn.gamma": 0.9}}
    assert compared["arms"][1]["difference"] is not None
    assert longhaul("report", second).code == 0
    goal = (RunDirectory(second).notebook).read_text()
    assert "Brake more." in section(goal, "Plan")


def check_pictures(run: RunDirectory) -> None:
    for name in PLOTS:
        picture = run.plots / f"{name}.png"
        assert picture.read_bytes()[:4] == b"\x89PNG", name
    shots = [shot for shot, _ in read_snapshots(run)]
    assert [shot.iteration for shot in shots] == list(range(1, 11))
    assert {shot.seed for shot in shots} == {42}
    page = run.report.read_text()
    assert page.count("<svg") == len(list(run.plots.glob("*.png")))


def check_films(run: RunDirectory) -> None:
    """The curve grows by a frame an iteration; the worst episodes' films have the worst seeds."""
    with Image.open(run.media / "survival_curve.gif") as curve:
        lasting = [frame.info["duration"] for frame in ImageSequence.Iterator(curve)]
    assert lasting == [400] * 10
    (kept,) = run.evaluations.glob("step-*.json")
    (suite,) = json.loads(kept.read_text())["suites"]
    worst = min(
        suite["episodes"],
        key=lambda one: (one["metrics"]["survival_rate"], one["episode_return"], one["env"]),
    )
    (film,) = run.media.glob("step-????????????-worst-*.mp4")
    assert f"seed{worst['seed']}." in film.name
    assert count_frames(film) > 10
    evaluated = [row for row in read_rows(run.events).rows if row["event"] == "evaluated"]
    for row in evaluated:
        rates = [one["survival_rate"] for one in row["episodes"]]
        (film,) = run.media.glob(f"step-{row['env_steps']:012d}-evaluation-worst-1-seed*.mp4")
        seeds = [one["seed"] for one in row["episodes"]]
        assert rates[seeds.index(int(film.stem.rpartition("-seed")[2]))] == min(rates)
    history = read_rows(run.evaluations / "eval_multi_history.jsonl").rows
    assert [row["tail_replays"][0]["video_path"] for row in history if row["tail_replays"]]

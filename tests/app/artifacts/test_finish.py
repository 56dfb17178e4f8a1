"""What a finished run leaves behind for people."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from longhaul.app.artifacts.report import Artifacts, keep_panels, preset_differences, report_run
from longhaul.app.build.config import SessionOptions
from longhaul.app.evaluation.load import Run
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import ConfigError
from longhaul.report.film import count_frames
from longhaul.report.run_data import gather
from longhaul.runs.directory import RunDirectory
from longhaul.runs.films import read_film_notes
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import finished_run, small_config

QUIET = SessionOptions(quiet=True, report=True)
MEASURED = ("evaluate.final_episodes=3", "report.at_end=true", "report.films=['worst']")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run with an evaluation and without a report."""
    return finished_run(tmp_path_factory.mktemp("runs"), "evaluate.final_episodes=3")


def test_training_leaves_a_film_plots_a_report_and_a_notebook(tmp_path: Path) -> None:
    config = small_config(
        "gym:CartPole-v1", *MEASURED, "report.film_evaluations=1", "evaluate.every_iterations=3"
    )
    run = begin_run(config, tmp_path).directory
    assert run_session(run, config, QUIET).exit_code == 0
    films = sorted(path.name for path in run.media.glob("*.mp4"))
    assert films[0].startswith("step-000000000096-evaluation-worst-1-seed")
    assert films[1].startswith("step-000000000096-worst-seed")
    notes = read_film_notes(run)
    assert list(notes) == films
    assert re.fullmatch(
        r"Worst of 20 episodes: return \d+ \(evaluation during training, after 96 steps\)",
        notes[films[0]],
    )
    assert notes[films[1]].startswith("Worst of 3 episodes: return ")
    assert len(films) == 2
    assert all(count_frames(run.media / film) > 20 for film in films)
    assert {"learning", "losses", "speed"} <= {path.stem for path in run.plots.iterdir()}
    assert "gym:CartPole-v1" in run.report.read_text()
    assert "## Next steps" in run.notebook.read_text()
    assert not [row for row in read_rows(run.sessions).rows if "failed" in row["event"]]


def test_a_broken_encoder_stops_neither_the_training_nor_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    config = small_config(
        "gym:CartPole-v1", *MEASURED, "report.film_evaluations=1", "evaluate.every_iterations=1"
    )
    run = begin_run(config, tmp_path).directory
    assert run_session(run, config, QUIET).exit_code == 0
    assert run.report.exists()
    (failed,) = [row for row in read_rows(run.sessions).rows if row["event"] == "film_failed"]
    assert "/bin/false failed" in failed["reason"]
    assert list(run.media.iterdir()) == []


def test_what_fails_is_told_in_one_line_each(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr("longhaul.app.artifacts.report.report_run", broken)
    told: list[str] = []
    noted: list[str] = []
    Artifacts(Run(run), told.append, lambda event, **facts: noted.append(event)).write_report()
    assert noted == ["report_failed"]
    (line,) = told
    assert line.startswith("no report: RuntimeError")
    assert "\n" not in line


def test_a_run_that_nobody_asked_a_report_of_leaves_none(run: RunDirectory) -> None:
    assert not run.report.exists()
    assert json.loads(run.panels.read_text())["score"] == "eval/mean_reward"


def test_a_report_can_be_made_of_a_run_that_is_still_going(run: RunDirectory) -> None:
    made = report_run(run.path)
    assert made.page.read_text().startswith("<!doctype html>")
    assert str(made.page) in made.as_text()
    assert len(made.plots) == len(list(run.plots.iterdir()))


def test_the_config_is_compared_with_the_tasks_preset(run: RunDirectory) -> None:
    changed, preset = preset_differences(gather(run.path))
    assert preset == "the task's preset"
    assert changed["policy.hidden"][1] == (8,)
    assert "name" not in changed


def test_panels_are_read_back_as_they_were_written(run: RunDirectory) -> None:
    trained = Run(run).agent("latest")
    keep_panels(run, trained.task, trained.settings)
    found = gather(run.path)
    assert found.panels == trained.task.panels
    assert "learn.learning_rate" in found.rows[0]


def test_a_film_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"report\.films holds 'wurst'"):
        small_config("gym:CartPole-v1", "report.films=['wurst']")

"""Films of a run's evaluation."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from longhaul.app.artifacts.films import EpisodeFilm, FilmRequest, play_live, watch_run
from longhaul.app.build.components import build_evaluator
from longhaul.app.evaluation.episode_player import Scenario
from longhaul.app.evaluation.evaluate import (
    EvaluationRequest,
    PlayedCase,
    choose,
    evaluate_run,
    played_cases,
    suite_cases,
)
from longhaul.app.evaluation.load import Run
from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.task import Task
from longhaul.engine.evaluator import SuiteEvaluator
from longhaul.report.film import FilmError, count_frames
from longhaul.runs.directory import RunDirectory
from tests.app.small import finished_run

SCORES = (3.0, 1.0, 5.0, 2.0, 4.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run of an untrained policy with an evaluation of six episodes."""
    trained = finished_run(tmp_path_factory.mktemp("run"), "evaluate.num_envs=4")
    evaluate_run(Run(trained), EvaluationRequest(episodes=6))
    return trained


def case(number: int, score: float, task: Task) -> PlayedCase:
    episode = Episode(number, 0, 100 + number, 7, score, "time_limit")
    return PlayedCase(number, episode, score, Scenario(100 + number), task.envs)


@pytest.fixture(scope="module")
def cases(run: RunDirectory) -> list[PlayedCase]:
    task = Run(run).agent("latest").task
    return [case(number, score, task) for number, score in enumerate(SCORES)]


@pytest.mark.parametrize(
    ("which", "count", "scores"),
    [
        ("worst", 1, [1.0]),
        ("worst", 2, [1.0, 2.0]),
        ("best", 2, [5.0, 4.0]),
        ("median", 1, [3.0]),
        ("median", 3, [2.0, 3.0, 4.0]),
        ("3", 1, [2.0]),
        ("3", 2, [2.0, 4.0]),
        ("worst", 9, [1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
)
def test_episodes_are_chosen_by_their_score(
    cases: list[PlayedCase], which: str, count: int, scores: list[float]
) -> None:
    assert [case.score for case in choose(cases, which, count)] == scores


@pytest.mark.parametrize(
    ("which", "count", "words"),
    [("5", 1, "has no episode 5"), ("wurst", 1, "worst, median, best"), ("best", 0, "at least 1")],
)
def test_an_episode_that_is_not_there_is_refused(
    cases: list[PlayedCase], which: str, count: int, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        choose(cases, which, count)


def test_the_film_shows_the_worst_episode_of_the_evaluation(run: RunDirectory) -> None:
    (filmed,) = watch_run(Run(run), FilmRequest())
    (path,) = run.evaluations.glob("*-6-greedy-*.json")
    episodes = json.loads(path.read_bytes())["episodes"]
    assert filmed.case.episode.episode_return == min(one["episode_return"] for one in episodes)
    assert filmed.same
    assert filmed.film.path.parent == run.media
    assert f"seed{filmed.case.episode.seed}" in filmed.film.path.name
    assert count_frames(filmed.film.path) >= filmed.case.episode.length
    assert filmed.film.path.name in filmed.as_text()


def test_the_same_call_makes_the_same_film(run: RunDirectory, tmp_path: Path) -> None:
    films = [
        watch_run(Run(run), FilmRequest(out=tmp_path / f"{name}.gif"))[0].film.path.read_bytes()
        for name in ("first", "second")
    ]
    assert films[0] == films[1]


def test_what_comes_after_a_close_look_is_shown_four_times_as_fast(run: RunDirectory) -> None:
    trained = Run(run).agent("latest")
    (case,) = choose(played_cases(Run(run), trained), "best", 1)
    report = replace(trained.config.report, film_closely=5)
    hurried = replace(trained, config=replace(trained.config, report=report))
    reel = EpisodeFilm(hurried, case, {})
    steps = [moment.step for _, _, moment in reel.scenes()]
    last = case.episode.length
    assert last > 9
    assert steps == sorted({*range(6), *range(8, last, 4), last})
    assert reel.same


def test_an_evaluation_is_made_where_there_is_none(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "evaluate.final_episodes=3", "evaluate.greedy=false")
    for file in run.evaluations.iterdir():
        file.unlink()
    trained = Run(run).agent("latest")
    assert len(played_cases(Run(run), trained)) == 3
    assert len(list(run.evaluations.iterdir())) == 1
    (filmed,) = watch_run(Run(run), FilmRequest(episode="best", gif=True))
    assert filmed.same
    assert filmed.film.path.suffix == ".gif"


def test_a_film_shows_the_suite_that_is_asked_for(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path,
        "options.rehearsal_episodes=3",
        "options.final_episodes=2",
        "options.stagnation_limit=6",
        "evaluate.every_iterations=0",
        task="mario:standin",
    )
    trained = Run(run).agent("latest")
    assert len(played_cases(Run(run), trained)) == 2
    assert len(played_cases(Run(run), trained, suite="rehearsal")) == 3
    (filmed,) = watch_run(Run(run), FilmRequest(episode="best", suite="rehearsal", gif=True))
    assert filmed.same
    seeds = {case.episode.seed for case in played_cases(Run(run), trained, suite="rehearsal")}
    assert filmed.case.episode.seed in seeds
    with pytest.raises(ConfigError, match="there is no suite 'dress'"):
        watch_run(Run(run), FilmRequest(suite="dress"))


def test_an_env_that_draws_nothing_is_told_in_one_line(tmp_path: Path) -> None:
    run = finished_run(tmp_path, task="probe:recall")
    with pytest.raises(FilmError, match="does not render pictures"):
        watch_run(Run(run), FilmRequest())


def test_an_episode_plays_in_the_terminal(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.app.artifacts.films.FRAMES_PER_SECOND", 1e6)
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, width=60, height=24, color_system="truecolor"
    )
    told = play_live(Run(run), FilmRequest(), console)
    assert "ended by" in told
    assert "▀" in stream.getvalue()


def test_a_task_may_film_another_suite_than_it_reports(tmp_path: Path) -> None:
    sizes = "options.evaluation={episodes=2, fish=3, film_fish=4}"
    flags = ("options.fish=3", "collect.num_steps=8", sizes, "total_timesteps=48")
    run = finished_run(tmp_path, *flags, task="fish")
    (filmed,) = watch_run(Run(run), FilmRequest(gif=True))
    assert len(filmed.case.episode.facts["death_steps"]) == 4
    (usual,) = watch_run(Run(run), FilmRequest(gif=True, suite="fresh"))
    assert len(usual.case.episode.facts["death_steps"]) == 3


def test_the_cases_of_a_suite_are_played_again_as_they_went(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "options.fish=4", task="fish")
    trained = Run(run).agent("latest")
    find = trained.task.evaluation.suite
    assert find is not None
    short = replace(find("rehearsal"), cases=find("rehearsal").cases[:3])
    task = replace(
        trained.task, evaluation=replace(trained.task.evaluation, suite=lambda name: short)
    )
    evaluator = build_evaluator(trained.config, task, trained.policy)
    assert isinstance(evaluator, SuiteEvaluator)
    episodes = evaluator.episodes(short, trained.settings)
    # The second case failed in the evaluation, so that its episode is missing.
    kept = (episodes[0], episodes[2])
    cases = suite_cases(replace(trained, task=task), "rehearsal", kept)
    assert [case.number for case in cases] == [0, 2]
    reel = EpisodeFilm(trained, cases[1], {}, stride=250)
    frames = list(reel.scenes())
    assert reel.same
    assert [moment.step for _, _, moment in frames] == [0, 250, 500]


def test_a_large_company_is_left_out_where_that_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished_run(tmp_path, "evaluate.num_envs=3", "evaluate.final_episodes=3")
    trained = Run(run).agent("latest")
    case = choose(played_cases(Run(run), trained), "best", 1)[0]
    monkeypatch.setattr("longhaul.app.artifacts.films.MANY_ROWS", 1)
    reel = EpisodeFilm(trained, case, {}, stride=1000)
    assert len(list(reel.scenes())) == 2
    assert reel.same
    # What did not go as the evaluation did is played in the evaluation's company all the same.
    other = replace(case, episode=replace(case.episode, episode_return=-1.0))
    reel = EpisodeFilm(trained, other, {}, stride=1000)
    assert len(list(reel.scenes())) == 2
    assert not reel.same

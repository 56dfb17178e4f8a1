"""Films of a run's evaluation episodes, and playing them in the terminal."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from longhaul.app.artifacts.caption import CaptionWriter
from longhaul.app.build.env_output import with_env_output
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.episode_player import Moment, Replay
from longhaul.app.evaluation.evaluate import (
    PlayedCase,
    choose,
    played_cases,
    seeded_cases,
    suite_cases,
)
from longhaul.app.evaluation.load import Run
from longhaul.core.control import Progress
from longhaul.core.errors import LonghaulError
from longhaul.core.parts import Recorded, RunListener
from longhaul.core.settings import Settings
from longhaul.engine.evaluator import EpisodeEvaluator, SuiteEvaluator
from longhaul.report.film import Film, FilmError, Picture, encode, fit, half_blocks
from longhaul.report.overlay import Caption, Heading, Overlay
from longhaul.runs.durable import storage_errors
from longhaul.runs.films import film_name, keep_film_note, training_film
from longhaul.runs.reader import read_metrics

FRAMES_PER_SECOND = 25.0
MOST_FRAMES = 1500
"""A longer episode is shown faster; a film takes a minute at most."""
HELD_SECONDS = 1.0
"""How long the last frame is held."""
GIF_STRIDE = 3
HURRY = 4
"""Speed-up after the first `report.film_closely` steps."""
MANY_ROWS = 1000
STEERED = ("gate/", "curriculum/", "starts/", "tail/")
"""Groups of metrics that show the state of schedules."""


@dataclass(frozen=True, slots=True)
class FilmRequest:
    """What to film and how."""

    checkpoint: str = "latest"
    episode: str = "worst"
    count: int = 1
    gif: bool = False
    out: Path | None = None
    suite: str = ""
    """The suite whose episodes are filmed; empty: the evaluation at the end."""

    def path(self, run: Run, agent: Agent, case: PlayedCase, rank: int) -> Path:
        """Return the path of a case's film; `rank` is its place among the chosen ones."""
        if self.out is not None:
            return self.numbered(self.out, rank)
        label = self.episode if self.count == 1 else f"{self.episode}-{rank}"
        suffix = "gif" if self.gif else "mp4"
        label = f"episode-{label}" if label[:1].isdecimal() else label
        steps = agent.progress.env_steps
        return run.directory.media / film_name(steps, label, case.episode.seed, suffix)

    def numbered(self, path: Path, rank: int) -> Path:
        """Return the path of the film with this rank, if there are several."""
        return path if self.count == 1 else path.with_stem(f"{path.stem}-{rank}")


@dataclass(frozen=True, slots=True)
class FilmedEpisode:
    """A film and the episode it shows."""

    film: Film
    case: PlayedCase
    same: bool
    """Whether the replay matched the evaluation."""

    def as_text(self) -> str:
        """Return one line for people."""
        film, episode = self.film, self.case.episode
        words = (
            f"{film.path}: episode {self.case.number}, seed {episode.seed}, "
            f"return {episode.episode_return:.2f}, {episode.length} steps, "
            f"{film.width} x {film.height}, {film.seconds:.1f} s"
        )
        return words if self.same else f"{words} (the replay diverged from the evaluation)"

    def as_row(self) -> dict[str, object]:
        """Return plain values for programs."""
        return {
            "path": str(self.film.path),
            "frames": self.film.frames,
            "width": self.film.width,
            "height": self.film.height,
            "seconds": self.film.seconds,
            "episode": self.case.number,
            "seed": self.case.episode.seed,
            "return": self.case.episode.episode_return,
            "length": self.case.episode.length,
            "same": self.same,
        }


@with_env_output("watch")
def watch_run(run: Run, request: FilmRequest) -> tuple[FilmedEpisode, ...]:
    """Film episodes of a checkpoint's evaluation and return the films."""
    agent = run.agent(request.checkpoint)
    return film_cases(run, agent, filmed_cases(run, agent, request.suite), request)


def filmed_cases(run: Run, agent: Agent, suite: str = "") -> tuple[PlayedCase, ...]:
    """Return the episodes to choose from: of `suite`, else of the task's suite for films."""
    return played_cases(run, agent, suite=suite or agent.task.evaluation.films)


def film_cases(
    run: Run, agent: Agent, cases: Sequence[PlayedCase], request: FilmRequest
) -> tuple[FilmedEpisode, ...]:
    """Film the requested episodes, one file each."""
    notes = steering(run, agent)
    made = []
    for rank, case in enumerate(choose(cases, request.episode, request.count), start=1):
        path = request.path(run, agent, case, rank)
        made.append(film_case(agent, case, path, notes))
        keep_film_note(run.directory, path, caption(case, request.episode, rank, agent, len(cases)))
    return tuple(made)


def film_case(
    agent: Agent, case: PlayedCase, path: Path, notes: Mapping[str, str]
) -> FilmedEpisode:
    """Film one episode; `notes` are shown beside it."""
    is_gif = path.suffix.lower() == ".gif"
    episode = EpisodeFilm(agent, case, notes, stride=GIF_STRIDE if is_gif else 1)
    rate = FRAMES_PER_SECOND / 2 if is_gif else FRAMES_PER_SECOND
    with storage_errors(path):
        film = encode(episode.frames(), path, frames_per_second=rate)
    return FilmedEpisode(film, case, episode.same)


def caption(case: PlayedCase, which: str, rank: int, agent: Agent, count: int) -> str:
    """Return the caption of a film; `rank` is the episode's place among the chosen ones."""
    episode = case.episode
    place = f"Episode {which}" if which.isdecimal() else which.capitalize()
    if which in ("worst", "best") and rank > 1:
        place = f"{place}, number {rank},"
    score = "" if case.score == episode.episode_return else f", score {case.score:.4g}"
    return (
        f"{place} of {count} episodes: return {episode.episode_return:.4g}{score} "
        f"({'' if agent.checkpoint else 'evaluation during training, '}after "
        f"{agent.progress.env_steps:,} steps)"
    )


class EpisodeFilm:
    """One episode as frames, generated on demand."""

    def __init__(
        self, agent: Agent, case: PlayedCase, notes: Mapping[str, str], *, stride: int = 1
    ) -> None:
        self._agent = agent
        self._case = case
        self._notes = notes
        self._stride = max(stride, math.ceil(case.episode.length / MOST_FRAMES))
        self.same = False

    def frames(self) -> Iterator[Picture]:
        """Yield the frames; the last one is held."""
        overlay = Overlay(self.heading())
        frame: Picture | None = None
        for picture, caption, _ in self.scenes():
            frame = overlay.frame(picture, caption)
            yield frame
        assert frame is not None
        for _ in range(round(HELD_SECONDS * FRAMES_PER_SECOND / self._stride)):
            yield frame

    def scenes(self) -> Iterator[tuple[Picture, Caption, Moment]]:
        """Yield every n-th moment with its picture and caption."""
        agent = self._agent
        with closing(self._replay(agent.replay_settings)) as replay:
            captions = CaptionWriter(replay.spec, self._notes, agent.policy.shown_names)
            for moment in replay.moments():
                caption = captions.caption(moment)
                if not self._is_shown(moment):
                    continue
                picture = replay.picture()
                if picture is None:
                    raise FilmError(f"{replay.spec.id} does not render pictures")
                self.same = self._matches(moment)
                yield picture, caption, moment

    def _is_shown(self, moment: Moment) -> bool:
        closely = self._agent.config.report.film_closely
        stride = max(self._stride, HURRY if 0 < closely < moment.step else 1)
        return moment.step % stride == 0 or moment.ending is not None

    def _replay(self, settings: Settings) -> Replay:
        """Return the replay, with a single environment if that gives the same episode.

        The evaluation may have batched thousands of rows. With fewer rows, floating-point sums may
        differ and change an action, so the smaller replay is tried first.
        """
        envs, policy, scenario = self._case.envs, self._agent.policy, self._case.scenario
        if scenario.company * envs.spec.rows > MANY_ROWS:
            alone = replace(scenario, company=1, place=0)
            with closing(Replay(envs, policy, settings, alone)) as trial:
                moments = list(deque(trial.moments(), maxlen=1))
            scenario = alone if self._matches(moments[-1]) else scenario
        return Replay(envs, policy, settings, scenario)

    def heading(self) -> Heading:
        """Return the heading above the panel."""
        episode = self._case.episode
        steps = self._agent.progress.env_steps
        drawn = "" if self._case.scenario.draws is None else ", sampled actions"
        return Heading(
            self._agent.task.name,
            (
                f"after {steps:,} steps of training",
                f"evaluation episode {self._case.number}{drawn}",
                f"seed {episode.seed}",
            ),
            episode.length,
        )

    def _matches(self, moment: Moment) -> bool:
        episode = self._case.episode
        return (
            moment.ending is not None
            and moment.step == episode.length
            and math.isclose(moment.episode_return, episode.episode_return, rel_tol=1e-9)
        )


def steering(run: Run, agent: Agent) -> dict[str, str]:
    """Return the state of the schedules at the checkpoint: task settings, gates and stages."""
    values = agent.settings.values()
    notes = {
        setting.name: f"{value:.4g}"
        for setting in agent.task.settings
        if isinstance(value := values[setting.name], (int, float))
        and not setting.name.startswith("env.")
    }
    for row in reversed(read_metrics(run.directory).rows):
        if row.get("iteration", 0) <= agent.progress.iteration:
            steered = {name: row[name] for name in row if name.startswith(STEERED)}
            return notes | {name: f"{value:.4g}" for name, value in steered.items()}
    return notes


def play_live(run: Run, request: FilmRequest, console: Console) -> str:
    """Play the requested episodes in the terminal; return the last line shown."""
    agent = run.agent(request.checkpoint)
    notes = steering(run, agent)
    line = ""
    cases = filmed_cases(run, agent, request.suite)
    for case in choose(cases, request.episode, request.count):
        episode = EpisodeFilm(agent, case, notes)
        with Live(console=console, auto_refresh=False, transient=False) as live:
            due = time.monotonic()
            for picture, caption, moment in episode.scenes():
                small = fit(picture, columns=console.width, lines=max(console.height - 3, 4))
                line = "   ".join(f"{name} {figure}" for name, figure in caption.facts)
                live.update(Group(half_blocks(small), Text(line, overflow="ellipsis")))
                live.refresh()
                due += 1 / FRAMES_PER_SECOND
                if moment.ending is None:
                    time.sleep(max(due - time.monotonic(), 0.0))
    return line


class EvaluationFilms(RunListener):
    """Films the worst episodes of evaluations during training."""

    def __init__(
        self,
        run: Run,
        agent: Agent,
        evaluator: EpisodeEvaluator | SuiteEvaluator,
        notify: Callable[[str], None],
        shown: Callable[[Progress, int, Path], None] = lambda progress, rank, film: None,
    ) -> None:
        self._run = run
        self._agent = agent
        self._evaluator = evaluator
        self._notify = notify
        self._shown = shown
        self._failed = False

    def iteration(self, recorded: Recorded) -> None:
        """Film after an iteration with an evaluation; stop filming after the first failure."""
        if self._failed or "eval/mean_reward" not in recorded.metrics:
            return
        progress, agent = recorded.progress, replace(self._agent, progress=recorded.progress)
        try:
            cases = self._cases(agent)
            worst = choose(cases, "worst", agent.config.report.film_evaluations)
            for rank, case in enumerate(worst, start=1):
                film = self._run.directory.media / training_film(progress, rank, case.episode.seed)
                episode = EpisodeFilm(agent, case, {})
                encode(episode.frames(), film, frames_per_second=FRAMES_PER_SECOND)
                keep_film_note(
                    self._run.directory, film, caption(case, "worst", rank, agent, len(cases))
                )
                self._shown(progress, rank, film)
        except LonghaulError as error:
            self._failed = True
            self._notify(f"no films of evaluations: {error}")

    def _cases(self, agent: Agent) -> Sequence[PlayedCase]:
        if isinstance(self._evaluator, SuiteEvaluator):
            return suite_cases(agent, self._evaluator.last_suite, self._evaluator.last)
        return seeded_cases(agent, self._evaluator.last)

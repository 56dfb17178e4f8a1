"""Rows 15 and 16 of the fish checklist: bad starts in real schools, counted and told of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.control import Progress, View
from longhaul.core.env import BatchedEnv, Episode
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.envs.config import EnvConfig
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.envs.starts import STARTS, STARTS_DEALT, STARTS_LIMIT
from longhaul.nets.config import PolicyConfig
from longhaul.schedule.schedule import Schedule
from longhaul.tasks.fish.hard_starts.files import StageSpec, TailFile, TailItem, write_tail_file
from longhaul.tasks.fish.hard_starts.plan import pin, plan_tail, summarize_tail
from longhaul.tasks.fish.hard_starts.queue import TailQueue
from longhaul.tasks.fish.options import TAIL_TYPE, FishOptions, FishStartOptions, TailOptions
from longhaul.tasks.fish.task import build
from longhaul.tasks.fish.world.school import START_NAME, Schools, fish_envs
from longhaul.tasks.fish.world.starts import SeedStart, VelocityRange
from longhaul.tasks.kind import TaskRequest
from tests.contracts.vector_env_contract import through_checkpoint
from tests.tasks.fish.worlds import tank

OPTIONS = FishOptions(fish=8, time_limit=40)
SCHOOLS = 3


@pytest.fixture
def items() -> tuple[TailItem, ...]:
    return pin([TailItem(SeedStart(seed, 0.8, 8)) for seed in (3, 4)], OPTIONS)


@pytest.fixture
def path(tmp_path: Path, items: tuple[TailItem, ...]) -> Path:
    path = tmp_path / "bad.json"
    path.write_text(write_tail_file(TailFile(items)))
    return path


class Run:
    """Schools under the tail's control, with fish that keep swimming."""

    def __init__(self, options: FishOptions) -> None:
        tail = plan_tail(options.tail, options, schools=SCHOOLS)
        settings = Settings([STARTS, *options.settings(), STARTS_LIMIT, TAIL_TYPE])
        self.schedule = Schedule(tail.controllers, settings)
        self.settings, _ = self.schedule.begin(settings)
        source = fish_envs(options, library=tail.library)
        self.batches: list[BatchedEnv] = []
        self.vector = BatchedVectorEnv(
            replace(source, make=lambda count: self._keep(source.make(count))),
            SCHOOLS,
            DerivedSeeds(Seeds(1)),
        )
        self.vector.configure(self.settings)
        self.iteration, self.counted = 0, 0
        self.vector.reset()

    def _keep(self, batch: BatchedEnv) -> BatchedEnv:
        self.batches.append(batch)
        return batch

    def iterate(self, steps: int = 20) -> list[Episode]:
        self.vector.configure(self.settings)
        episodes: list[Episode] = []
        for _ in range(steps):
            episodes += self.vector.step(np.full(self.vector.rows, 4)).episodes
        self.iteration += 1
        dealt = float(self.vector.starts_used - self.counted)
        self.counted = self.vector.starts_used
        ended = {"rollout/episodes": float(len(episodes))}
        metrics = {STARTS_DEALT: dealt, **ended, **summarize_tail(episodes)}
        view = View(Progress(self.iteration), metrics, self.settings)
        self.settings, _ = self.schedule.step(view)
        return episodes


def tail_options(path: Path, **fields: object) -> FishOptions:
    stages = (
        StageSpec(3, str(path), "ne"),
        StageSpec(2, type="rest"),
        StageSpec(3, str(path), "main"),
    )
    tail = TailOptions(stages, force_reset_steps=10, **fields)  # type: ignore[arg-type]
    return replace(OPTIONS, tail=tail)


def test_episodes_begin_where_the_files_say_and_tell_so(
    path: Path, items: tuple[TailItem, ...]
) -> None:
    run = Run(tail_options(path))
    (schools,) = run.batches
    assert isinstance(schools, Schools)
    for env in range(SCHOOLS):
        start = items[env % 2].start
        assert schools.present_start(env) == start
    episodes = run.iterate()
    names = {episode.facts[START_NAME] for episode in episodes}
    assert names == {item.id for item in items}
    assert {episode.reason for episode in episodes} <= {"forced", "all_dead"}


def test_every_start_dealt_is_an_episode_begun(path: Path) -> None:
    run = Run(tail_options(path, unit="resets"))
    episodes = [episode for _ in range(9) for episode in run.iterate()]
    begun = sum(START_NAME in episode.facts for episode in episodes)
    assert run.vector.starts_used == begun == 6 * SCHOOLS
    assert run.schedule.metrics["starts/tail_injections_total"] == begun
    assert run.schedule.metrics["starts/tail_consumed"] == 8 * SCHOOLS
    assert begun + 2 * SCHOOLS <= len(episodes)


def test_the_offset_survives_that_the_schools_are_built_anew(path: Path) -> None:
    whole, resumed = Run(tail_options(path)), Run(tail_options(path))
    for run in (whole, resumed):
        run.iterate(15)
    other = Run(tail_options(path))
    other.vector.load_state_dict(through_checkpoint(whole.vector.state_dict()))
    resumed.vector = other.vector
    for _ in range(6):
        assert whole.iterate(13) == resumed.iterate(13)


def test_a_start_that_is_in_no_file_any_more_is_named() -> None:
    with pytest.raises(EnvError, match="start 0123abcd is not in the tail files"):
        tank(OPTIONS, starts=(("tail", "0123abcd"),))


def test_the_task_brings_the_queue_and_knows_its_schools(path: Path) -> None:
    options = tail_options(path)
    task = build(TaskRequest("", options, EnvConfig(), PolicyConfig(hidden=(4,)), SCHOOLS))
    (queue,) = task.controllers
    assert isinstance(queue, TailQueue)
    assert queue.tracker.total == 8 * SCHOOLS
    assert build(TaskRequest("", OPTIONS, EnvConfig(), PolicyConfig(hidden=(4,)))).controllers == ()


def test_a_type_is_kept_present_in_the_stages_of_others(
    tmp_path: Path, path: Path, items: tuple[TailItem, ...]
) -> None:
    """W3: stage mixes that keep a type present throughout."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"velocities": [[1, 0], [0, 1], [2, 0]]}))
    tail = TailOptions(
        (StageSpec(2, str(path), "ne"), StageSpec(2, str(other), "main")), keep={"ne": 0.25}
    )
    queue = plan_tail(tail, OPTIONS, schools=SCHOOLS).controllers[0]
    assert queue is not None
    first, second = queue.stages
    assert len(first.candidates) == 2
    weights = {candidate.id: candidate.weight for candidate in second.candidates}
    assert sum(weights[item.id] for item in items) / sum(weights.values()) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stages": (StageSpec(3, "none.json"),)}, r"options\.tail: none\.json cannot be read"),
        ({"stages": (StageSpec(3, "none.json"),), "path": "x"}, "both stages and path"),
        ({"path": "x"}, "go together"),
        ({"force_reset_steps": -1}, r"options\.tail\.force_reset_steps"),
        ({"warn_ratio": 1.5}, r"options\.tail\.warn_ratio"),
        ({"stages": ("EMPTY",)}, "holds no starts; for a stage without bad starts leave out"),
        ({"stages": ("FULL",), "keep": {"me": 0.5}}, "no stage has type 'me'"),
        ({"stages": ("FULL",), "keep": {"ne": 1.5}}, "keep.ne = 1.5 must be between 0 and 1"),
    ],
)
def test_what_cannot_be_dealt_is_refused_by_its_key(
    tmp_path: Path, path: Path, fields: dict[str, object], words: str
) -> None:
    (tmp_path / "empty.json").write_text("{}")
    files = {("EMPTY",): tmp_path / "empty.json", ("FULL",): path}
    if (file := files.get(fields.get("stages"))) is not None:  # type: ignore[call-overload]
        fields = {**fields, "stages": (StageSpec(2, str(file), "ne"),)}
    with pytest.raises(ConfigError, match=words):
        plan_tail(TailOptions(**fields), OPTIONS, schools=SCHOOLS)  # type: ignore[arg-type]


def test_one_path_with_iterations_is_one_stage(path: Path) -> None:
    queue = plan_tail(
        TailOptions(path=str(path), iterations=5), OPTIONS, schools=SCHOOLS
    ).controllers[0]
    assert queue is not None
    assert queue.tracker.status(0).label == "stage1:bad"
    assert queue.tracker.total == 15


def test_unwanted_headings_after_the_pre_roll_are_drawn_again() -> None:
    """W10: gravity turns half of all predators north; weights before the pre-roll cannot help."""
    north = VelocityRange((60, 120))
    shares = []
    for bias in ((), (replace(north, weight=0.0),), (replace(north, weight=0.3),)):
        options = FishOptions(fish=1, start=FishStartOptions(joint_bias=bias))
        world = tank(options, seeds=tuple(range(400))).schools.world
        velocities = world.predators[:, 0, 2:].tolist()
        shares.append(sum(north.holds((x, y)) for x, y in velocities) / len(velocities))
    assert shares[0] == pytest.approx(0.48, abs=0.06)
    assert shares[1] == 0
    odds = 0.3 * shares[0]
    assert shares[2] == pytest.approx(odds / (odds + 1 - shares[0]), abs=0.06)

"""Campaigns: where the time goes, what is kept, and that a second call goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.runs.directory import begin_record, create_run
from longhaul.tasks.mario.commands.campaign import (
    CampaignRequest,
    CampaignRunner,
    run_campaign,
)
from longhaul.tasks.mario.commands.campaign_plan import (
    PATIENCE,
    Campaign,
    CampaignCourse,
    CourseState,
    next_course,
    slice_of,
    teacher_of,
)

CAMPAIGN = Campaign(
    courses=lambda text: tuple(CampaignCourse(name, (f"x={name}",)) for name in text.split(",")),
    rate="eval/rate",
    progress="eval/progress",
    farthest="eval/farthest",
    blocked=lambda row: str(row["why"]),
)


class World:
    """Runs that learn by a rule: what a course has come to after so many slices."""

    def __init__(self, root: Path, gains: dict[str, list[tuple[float, float]]]) -> None:
        self.root = root
        self.gains = gains
        self.given: list[str] = []
        self.teachers: list[list[str]] = []
        self.told: list[str] = []
        self.now = 0.0
        self.live: list[Pretended] = []
        self.most_at_once = 0
        self.ends_at_once: dict[str, int] = {}
        self.slow_at_first: set[str] = set()
        self.findable: set[str] = set()
        self.searched: list[str] = []
        self.commands: list[list[str]] = []

    def launch(self, command: Sequence[str], log: Path) -> Pretended:
        """Begin to pretend."""
        self.commands.append(list(command))
        if "explore" in command:
            self.search(command)
        if "evaluate" in command:
            return self.evaluate(command, log)
        return Pretended(self, command[command.index("--name") + 1], command, log)

    def evaluate(self, command: Sequence[str], log: Path) -> Pretended:
        """Pretend to evaluate: a tenth less than what chose the checkpoint."""
        run = Path(command[command.index("evaluate") + 1])
        last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
        rate = last["eval/rate"] - 0.1
        self.ends_at_once["evaluation"] = 0
        pretended = Pretended(self, "evaluation", command, log)
        rates = {
            "metrics": {"eval/rate": rate},
            "intervals": {"eval/rate": [rate - 0.1, rate + 0.1]},
        }
        log.write_text(json.dumps({"suites": [rates]}))
        return pretended

    def rest(self, seconds: float) -> None:
        """Let time pass, unless somebody is about to end."""
        if not any(one.code is not None for one in self.live):
            self.now += seconds

    def search(self, command: Sequence[str]) -> None:
        """Pretend to search: a way is found at once or never."""
        name = command[command.index("--name") + 1]
        course = command[command.index("--goal") + 1]
        self.searched.append(course)
        self.ends_at_once[name] = 0
        if course in self.findable:
            demos = self.root / "toy" / f"{name}.explore" / "demos"
            demos.mkdir(parents=True)
            (demos / f"{course}.demo").write_text("{}")

    def train(self, name: str, command: Sequence[str]) -> int:
        """Pretend to train: leave behind what a run would."""
        course = name.removeprefix("campaign-")
        self.given.append(course)
        self.teachers.append(
            [word.removeprefix("start_from=") for word in command if "start_from=" in word]
        )
        found = sorted((self.root / "toy").glob(f"*-{name}-s1"))
        if found:
            run = found[0]
        else:
            record = begin_record("toy", name, 1, now=datetime(2026, 1, 1, tzinfo=UTC), command=[])
            run = create_run(self.root, record, "").path
        turn = min(self.given.count(course), len(self.gains[course])) - 1
        rate, progress = self.gains[course][turn]
        row = {"iteration": turn, "env_steps": 100 * (turn + 1), "eval/rate": rate}
        row |= {"eval/progress": progress, "eval/farthest": progress + 40}
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        (run / "events.jsonl").write_text('{"event": "evaluated", "why": "a pit"}\n')
        return 143


class Pretended:
    """A process that has done its work when it is asked to stop."""

    def __init__(self, world: World, name: str, command: Sequence[str], log: Path) -> None:
        self.name: str = name
        assert name not in {one.name for one in world.live}, "it is trained already"
        self.world, self.command, self.log = world, command, log
        self.code = world.ends_at_once.get(name)
        if self.code is not None:
            if "train" not in command:
                world.ends_at_once.pop(name)
            log.write_text("longhaul: there is no game\n")
        world.live.append(self)
        world.most_at_once = max(world.most_at_once, len(world.live))

    def poll(self) -> int | None:
        if self.code is not None:
            self.world.live.remove(self)
        return self.code

    def ask_to_stop(self) -> None:
        too_short = self.name in self.world.slow_at_first
        self.world.slow_at_first.discard(self.name)
        self.code = -15 if too_short else self.world.train(self.name, self.command)

    def end(self) -> int:
        return self.code or 0


def campaign(world: World, kind: Campaign = CAMPAIGN, **changes: Any) -> CampaignRunner:
    request = CampaignRequest(
        task="toy",
        courses=",".join(world.gains),
        budget_seconds=100.0,
        slice_seconds=10.0,
        root=world.root,
        films=False,
    )
    return CampaignRunner(
        replace(request, **changes),
        kind,
        world.told.append,
        clock=lambda: world.now,
        rest=world.rest,
        launch=world.launch,
    )


def test_every_course_is_tried_and_then_time_goes_where_it_brings_something(
    tmp_path: Path,
) -> None:
    grows = [(0.0, 300.0 * n) for n in range(1, 20)]
    world = World(tmp_path, {"a": [(0.0, 50.0)], "b": grows, "c": [(1.0, 3000.0)]})
    report = campaign(world).run()
    assert world.given[:3] == ["a", "b", "c"]
    assert world.given.count("b") > world.given.count("a") > 0
    assert world.given.count("c") == 1, "it was cleared at once"
    assert report.seconds == pytest.approx(100.0)


def test_a_campaign_ends_when_all_courses_have_reached_the_target(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.9, 10.0)], "b": [(0.5, 10.0), (0.85, 10.0)]})
    assert campaign(world).run().seconds == 30.0
    assert world.given == ["a", "b", "b"]


def test_what_is_left_is_evaluated_on_episodes_that_chose_nothing(tmp_path: Path) -> None:
    gains = {"a": [(0.9, 10.0)], "b": [(0.5, 10.0), (0.6, 10.0)], "c": [(0.0, 10.0)]}
    world = World(tmp_path, gains)
    kind = replace(CAMPAIGN, final="unseen")
    report = campaign(world, kind, budget_seconds=30.0).run()
    assert [state.final for state in report.states] == [
        pytest.approx((0.8, 0.7, 0.9)),
        pytest.approx((0.4, 0.3, 0.5)),
        (),
    ]
    done = [
        next(word for word in command if word in {"train", "evaluate"})
        for command in world.commands
    ]
    assert done == ["train", "evaluate", "train", "train", "evaluate"]
    assert "--suite unseen --no-references" in " ".join(world.commands[1])
    assert "0.80 (0.70 to 0.90)" in report.as_text()
    campaign(world, kind, budget_seconds=30.0).run()
    assert len(world.commands) == 5, "nothing was trained since"
    campaign(world, kind, budget_seconds=40.0).run()
    assert len(world.commands) == 7, "what was trained since is evaluated again"


def test_a_course_learns_from_the_one_that_is_cleared_most_often(tmp_path: Path) -> None:
    gains = {"a": [(0.5, 1.0)], "b": [(0.0, 1.0), (0.9, 1.0)], "c": [(0.85, 1.0)]}
    world = World(tmp_path, gains)
    report = campaign(world, budget_seconds=40.0).run()
    taught = {name: set(map(tuple, told)) for name, told in _by_course(world).items()}
    assert taught["a"] == {()}
    assert taught["b"] == taught["c"] == {(report.states[0].run,)}, "the same in every slice"


def test_a_course_learns_from_one_that_is_like_it_and_cleared() -> None:
    states = (
        CourseState("often", rate=0.9, run="runs/often"),
        CourseState("alike", rate=0.1, run="runs/alike"),
        CourseState("twin", rate=0.0, run="runs/twin"),
    )
    assert teacher_of(states, like=("twin", "alike")) == "runs/alike"
    assert teacher_of(states, like=("twin",)) == "runs/often"
    assert teacher_of(states) == "runs/often"


def test_a_given_teacher_teaches_until_a_course_is_cleared(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.0, 1.0)], "b": [(0.9, 1.0)], "c": [(0.85, 1.0)]})
    report = campaign(world, budget_seconds=30.0, teacher="runs/known").run()
    assert world.teachers == [["runs/known"], ["runs/known"], [report.states[1].run]]


def test_several_courses_are_trained_at_a_time_and_none_twice(tmp_path: Path) -> None:
    world = World(tmp_path, {name: [(0.0, 50.0), (0.9, 50.0)] for name in "abcd"})
    report = campaign(world, jobs=2, budget_seconds=1000.0).run()
    assert sorted(world.given) == sorted("abcd" * 2)
    assert (report.cleared, world.most_at_once) == (4, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobs": 0}, "--jobs must be at least 1, not 0"),
        ({"slice_seconds": 0.0}, "--slice must be more than 0 seconds"),
        ({"teacher": "runs/a", "transfer": False}, "exclude each other"),
    ],
)
def test_impossible_campaigns_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CampaignRequest(task="toy", **change)


def test_courses_can_begin_from_scratch(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.5, 1.0)], "b": [(0.0, 1.0)]})
    campaign(world, budget_seconds=20.0, transfer=False).run()
    assert world.teachers == [[], []]


def _by_course(world: World) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for course, told in zip(world.given, world.teachers, strict=True):
        found.setdefault(course, []).append(told)
    return found


def test_the_table_tells_what_blocks(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.25, 500.0)]})
    runner = campaign(world, budget_seconds=10.0)
    text = runner.run().as_text()
    assert "a pit" in text
    assert "1 of 1 cleared in 10 s" in text
    assert "0.25" in text
    page = (tmp_path / "toy" / "campaign.campaign" / "campaign.md").read_text()
    assert "| a | yes | 0.25 | - | 500 | 540 |" in page


def test_a_second_call_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.0, 50.0)], "b": [(0.0, 60.0)]})
    campaign(world, budget_seconds=10.0).run()
    assert world.given == ["a"]
    report = campaign(world, budget_seconds=20.0).run()
    assert world.given == ["a", "b"]
    assert report.seconds == 20.0
    assert [state.seconds for state in report.states] == [10.0, 10.0]


def test_a_campaign_that_is_stopped_keeps_what_its_last_slice_brought(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.0, 50.0)], "b": [(0.0, 60.0)]})
    looks = iter([None, None, None])
    report = campaign(world).run(lambda: next(looks, "stopped by SIGINT"))
    assert world.given == ["a"]
    assert report.states[0].progress == 50.0
    text = replace(report, reason="stopped by SIGINT").as_text()
    assert text.endswith("stopped by SIGINT; run the same command to continue")


def test_a_wrong_name_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage 9-9"):
        run_campaign(CampaignRequest(task="mario", courses="9-9", root=tmp_path), print)
    assert not list(tmp_path.iterdir())


def test_a_teacher_that_is_none_leaves_nothing_behind(tmp_path: Path) -> None:
    request = CampaignRequest(task="mario", teacher="runs/nobody", root=tmp_path)
    with pytest.raises(ConfigError, match="--teacher runs/nobody is not a run, a checkpoint"):
        run_campaign(request, print)
    assert not list(tmp_path.iterdir())


def test_every_slice_is_told_before_it_begins(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.9, 10.0)], "b": [(0.9, 10.0)]})
    campaign(world, budget_seconds=120.0, slice_seconds=60.0).run()
    assert world.told[0] == "a: trains for 60 s (0 s of 2 min 00 s used, 0 cleared)"
    assert world.told[2] == "b: trains for 60 s (60 s of 2 min 00 s used, 1 cleared)"


def test_a_course_that_cannot_be_trained_is_told_and_left(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.0, 1.0)], "b": [(0.9, 1.0)]})
    world.ends_at_once["campaign-a"] = 3
    report = campaign(world).run()
    assert report.states[0].problem == "longhaul: there is no game"
    assert report.states[1].rate == 0.9


def test_a_slice_too_short_for_a_run_to_begin_is_no_failure(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": [(0.9, 1.0)]})
    world.slow_at_first.add("campaign-a")
    (state,) = campaign(world).run().states
    assert (state.problem, state.rate, len(state.worths)) == ("", 0.9, 2)


@pytest.mark.parametrize(
    ("budget", "courses", "jobs", "seconds"),
    [(7200.0, 32, 1, 112.5), (7200.0, 32, 2, 225.0), (600.0, 32, 1, 60.0), (7200.0, 1, 1, 240.0)],
)
def test_trying_all_courses_takes_half_the_budget_if_slices_are_of_use(
    budget: float, courses: int, jobs: int, seconds: float
) -> None:
    assert slice_of(budget, courses, jobs=jobs) == seconds


states = st.builds(
    CourseState,
    name=st.text("abc", min_size=1, max_size=3),
    rate=st.floats(0, 1),
    progress=st.floats(0, 4000),
    worths=st.lists(st.floats(0, 2), max_size=8).map(tuple),
)


@given(st.lists(states, max_size=6, unique_by=lambda state: state.name), st.floats(0.1, 1))
def test_what_is_next_is_open_and_untried_ones_come_first(
    listed: list[CourseState], target: float
) -> None:
    chosen = next_course(tuple(listed), target=target)
    untried = [state.name for state in listed if not state.worths]
    if untried:
        assert chosen == untried[0]
    elif chosen is None:
        assert all(state.rate >= target for state in listed)
    else:
        assert next(s for s in listed if s.name == chosen).rate < target


def test_a_course_that_stopped_moving_waits_for_the_others() -> None:
    stuck = CourseState("stuck", rate=0.7, worths=(1.0, *(1.0,) * PATIENCE))
    slow = CourseState("slow", rate=0.0, progress=100.0, worths=(0.01, 0.03))
    assert next_course((stuck, slow), target=0.8) == "slow"


def test_a_course_is_searched_once_and_trained_along_the_way_that_was_found(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"maze": [(0.1, 50.0), (0.3, 90.0)], "hill": [(0.2, 70.0)]})
    world.findable = {"maze"}
    report = campaign(world, explore=True, overrides=("learn.gamma=0.9",)).run()
    assert world.searched == ["maze", "hill"]
    states = {state.name: state for state in report.states}
    assert states["maze"].demo.endswith("campaign-maze.explore/demos/maze.demo")
    assert states["hill"].demo == ""
    trained = [command for command in world.commands if "train" in command]
    along = [command for command in trained if "specialist" in command]
    assert along
    assert all(any(word.startswith("env.path.demos=") for word in command) for command in along)
    assert all(command[command.index("--name") + 1] == "campaign-maze" for command in along)
    assert "learn.gamma=0.9" in world.commands[0]


def test_a_second_call_searches_nothing_again(tmp_path: Path) -> None:
    world = World(tmp_path, {"maze": [(0.1, 50.0)]})
    world.findable = {"maze"}
    campaign(world, explore=True, budget_seconds=10.0).run()
    campaign(world, explore=True, budget_seconds=20.0).run()
    assert world.searched == ["maze"]

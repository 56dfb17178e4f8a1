"""The probe tasks: what they show, that they can be saved, and that they can be solved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.env import Ending, SingleEnvs, StepBuffers, VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.envs.serial import SerialVectorEnv
from longhaul.tasks.probe.chase import best_return
from longhaul.tasks.probe.recall import RecallEnv, RecallFactory
from tests.contracts.task_contract import build
from tests.contracts.vector_env_contract import Make, VectorEnvContract
from tests.probes.schooling import Lessons, Taught, teach

CUES, DELAY = 3, 4


class TestRecallContract(VectorEnvContract):
    @pytest.fixture(params=[(2, 0), (3, 4)], ids=["two cues at once", "three cues later"])
    def make(self, request: pytest.FixtureRequest) -> Iterator[Make]:
        factory = RecallFactory(*request.param)
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            made.append(SerialVectorEnv(SingleEnvs(factory.spec, factory), count, seeds))
            return made[-1]

        yield make
        for vector in made:
            vector.close()


@pytest.fixture
def slots() -> StepBuffers:
    return StepBuffers.allocate(RecallFactory(CUES, DELAY).spec, 1)


@pytest.fixture
def recall(slots: StepBuffers) -> RecallEnv:
    env = RecallFactory(CUES, DELAY)()
    env.bind(slots)
    env.reset(7, None)
    return env


def cue_of(slots: StepBuffers) -> int:
    shown = slots.obs["obs"][0, :CUES]
    assert sorted(shown) == [0.0] * (CUES - 1) + [1.0]
    return int(shown.argmax())


def wait(recall: RecallEnv, slots: StepBuffers) -> None:
    """Go through the delay, acting at will."""
    for step in range(DELAY + 1):
        assert slots.obs["obs"][0, CUES] == 0.0, "the question comes after the delay"
        assert recall.step(np.array([step % CUES])) is None
        assert slots.reward[0] == 0.0
        assert not slots.terminated[0]
        assert not slots.obs["obs"][0, :CUES].any(), "the cue is shown once only"


def test_the_right_answer_pays_one_and_ends_the_episode(
    recall: RecallEnv, slots: StepBuffers
) -> None:
    cue = cue_of(slots)
    wait(recall, slots)
    assert slots.obs["obs"][0, CUES] == 1.0
    assert recall.step(np.array([cue])) == Ending("answered", {"right": 1.0})
    assert slots.reward[0] == 1.0
    assert slots.terminated[0]
    assert not slots.truncated[0]


def test_a_wrong_answer_pays_nothing_and_ends_it_too(recall: RecallEnv, slots: StepBuffers) -> None:
    cue = cue_of(slots)
    wait(recall, slots)
    assert recall.step(np.array([(cue + 1) % CUES])) == Ending("answered", {"right": 0.0})
    assert slots.reward[0] == 0.0
    assert slots.terminated[0]


def test_every_cue_comes_up_about_as_often(recall: RecallEnv, slots: StepBuffers) -> None:
    counts = [0] * CUES
    for seed in range(600):
        recall.reset(seed, None)
        counts[cue_of(slots)] += 1
    assert min(counts) > 150


def test_the_question_does_not_betray_the_cue(recall: RecallEnv, slots: StepBuffers) -> None:
    """Seen at the question there is the flag, and noise that has the same spread for all cues."""
    noise: dict[int, list[float]] = {cue: [] for cue in range(CUES)}
    for seed in range(900):
        recall.reset(seed, None)
        cue = cue_of(slots)
        wait(recall, slots)
        noise[cue].append(float(slots.obs["obs"][0, CUES + 1]))
    means = [np.mean(values) for values in noise.values()]
    assert np.ptp(means) < 0.12


@pytest.mark.parametrize(
    ("task", "override", "said"),
    [
        ("probe:recall", "options.cues=1", "options.cues"),
        ("probe:recall", "options.delay=-1", "options.delay"),
        ("probe:chase", "options.walkers=0", "options.walkers"),
        ("probe:chase", "options.time_limit=0", "options.time_limit"),
        ("probe:chas", "seed=1", "did you mean 'chase'"),
        ("probe", "seed=1", "probes: recall, chase"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(task: str, override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(task, override)


def test_options_make_the_probes_harder() -> None:
    recall = build("probe:recall", "options.cues=6", "options.delay=2").task
    assert recall.envs.spec.observation["obs"].shape == (8,)
    assert build("probe:chase", "options.walkers=3").task.envs.spec.rows == 3


def taught_by_preset(task: str, *, steps: int, seed: int = 1) -> Taught:
    """Train as the preset says, but for so many steps."""
    config = resolve(ConfigSources(task=task))
    source = build(task).task.envs
    rows = config.num_envs * source.spec.rows
    lessons = Lessons(
        rollouts=steps // (config.collect.num_steps * rows),
        steps=config.collect.num_steps,
        chunk=config.collect.chunk,
        envs=config.num_envs,
        learn=config.learn,
        policy=config.policy,
        seed=seed,
    )
    return teach(source, config.learn.algorithm, lessons)


def test_chase_is_half_way_solved_within_a_fifth_of_its_budget() -> None:
    taught = taught_by_preset("probe:chase", steps=40_000)
    assert taught.mean_return() > 0.5 * best_return()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["probe:chase", "probe:recall"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_preset_solves_its_probe_within_its_budget(
    task: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    steps = resolve(ConfigSources(task=task)).total_timesteps
    solved = build(task).task.evaluation.solved
    assert solved is not None
    reached = taught_by_preset(task, steps=steps, seed=seed).mean_return(200)
    record_property("return", f"{reached:.2f}")
    assert reached >= solved


@pytest.mark.slow
@pytest.mark.parametrize("core", ["lstm", "transformer"])
def test_recall_is_solved_with_every_memory(core: str) -> None:
    config = resolve(ConfigSources(task="probe:recall", overrides=(f"policy.core={core}",)))
    lessons = Lessons(
        rollouts=config.total_timesteps // (config.collect.num_steps * config.num_envs),
        steps=config.collect.num_steps,
        envs=config.num_envs,
        learn=config.learn,
        policy=replace(config.policy, memory_length=16),
    )
    assert teach(build("probe:recall").task.envs, "ppo", lessons).mean_return() >= 0.95

"""What every task must do; subclass, give a `name` fixture, and all of it is tested."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch
from docs.tools.fields import field_docs

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.metrics import declared_metrics, declares
from longhaul.app.build.sources import ConfigSources, find_kind, resolve
from longhaul.core.control import Progress
from longhaul.core.env import Episode, VectorEnv
from longhaul.core.rollout import Rollout, unfold_chunks
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Tier
from longhaul.core.task import Task
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.evaluator import figures
from longhaul.engine.summary import Summary
from longhaul.envs.build import make_vector_env
from longhaul.envs.checks import allowed_actions, check_seeds, random_actions
from longhaul.learn.config import METRICS
from longhaul.tasks.mario.rom import RomError

METRIC_GROUPS = frozenset(
    {"rollout", "train", "time", "eval", "reward", "env", "policy"}
    | {"replay", "gate", "curriculum", "starts", "fault", "mem"}
)
SEEDS = Seeds(3)
ENVS = 2
MOST_STEPS = 3000  # until an episode must have ended


@dataclass(frozen=True)
class Built:
    """A task with the configuration it comes with."""

    config: RunConfig
    task: Task
    settings: Settings


def build(name: str, *overrides: str) -> Built:
    """Return the task the way a run would get it."""
    config = resolve(ConfigSources(task=name, overrides=overrides))
    task = build_task(config)
    try:
        task.make_policy()
    except RomError as error:
        pytest.skip(f"no ROM: {error}")
    return Built(config, task, build_settings(config, task))


def play(vector: VectorEnv, *, steps: int, seed: int = 0) -> list[Episode]:
    """Act at random for some steps; return the episodes that ended."""
    columns = [random_actions(vector.spec, steps, seed + env) for env in range(vector.count)]
    episodes: list[Episode] = []
    for wished in np.concatenate(columns, axis=1):
        episodes += vector.step(allowed_actions(vector.spec, vector.slots, wished)).episodes
    return episodes


class TaskContract:
    """The suite; `name` is the task as a user would write it."""

    @pytest.fixture
    def name(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def built(self, name: str) -> Built:
        return build(name)

    @pytest.fixture
    def vector(self, built: Built) -> Iterator[VectorEnv]:
        vector = make_vector_env(built.task.envs, count=ENVS, seeds=DerivedSeeds(SEEDS), threads=1)
        vector.configure(built.settings)
        vector.reset()
        yield vector
        vector.close()

    @pytest.fixture
    def rollout(self, built: Built, vector: VectorEnv) -> Rollout:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            policy = built.task.make_policy()
        collector = RolloutCollector(vector, policy, SEEDS, steps=12, chunk=6)
        rollout = collector.collect(built.settings)
        with torch.no_grad():
            judged = policy.evaluate_actions(rollout.sequences(), built.settings)
        again = unfold_chunks(judged.log_prob, rollout.steps)
        chosen = rollout.active & ~rollout.forced
        torch.testing.assert_close(again[chosen], rollout.log_prob[chosen], atol=1e-5, rtol=1e-5)
        return rollout

    def test_it_is_named_as_the_user_names_it(self, name: str, built: Built) -> None:
        assert built.task.name == name
        assert built.config.task == name

    def test_its_spec_is_what_its_envs_write(self, built: Built, vector: VectorEnv) -> None:
        spec = built.task.envs.spec
        assert vector.spec == spec
        assert spec.observation
        assert spec.rows >= 1
        play(vector, steps=20)
        for part, declared in spec.observation.items():
            written = vector.slots.obs[part]
            assert written.shape == (ENVS * spec.rows, *declared.shape)
            assert written.dtype == declared.dtype
            assert np.isfinite(written).all()
        assert set(vector.slots.terms) == set(spec.terms)
        assert (vector.slots.mask is not None) == spec.has_masks

    def test_its_seeds_are_honest_and_its_tier_is_exact(self, built: Built) -> None:
        assert check_seeds(built.task.envs).honest
        assert built.task.envs.spec.tier in (Tier.SNAPSHOT, Tier.REPLAY)

    def test_its_policy_acts_and_judges_alike(self, built: Built, rollout: Rollout) -> None:
        assert rollout.env_steps > 0
        assert torch.isfinite(rollout.value).all()
        assert torch.isfinite(rollout.log_prob[rollout.active]).all()

    def test_its_policies_are_equal_for_equal_seeds(self, built: Built) -> None:
        weights = []
        for _ in range(2):
            with torch.random.fork_rng():
                torch.manual_seed(4)
                weights.append(built.task.make_policy().state_dict())
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])

    def test_its_settings_hold_their_own_defaults(self, built: Built) -> None:
        for setting in built.task.settings:
            assert setting.meaning
            assert setting.check(setting.default) == setting.default
            assert setting.name in built.settings

    def test_its_schedule_writes_declared_settings_and_reads_metrics_somebody_measures(
        self, built: Built, rollout: Rollout, vector: VectorEnv
    ) -> None:
        schedule = build_schedule(built.config, built.task, built.settings)
        settings, _ = schedule.begin(built.settings)
        assert list(settings) == list(built.settings)
        assert not schedule.unmeasured(self.measured(built, rollout, vector))

    def measured(self, built: Built, rollout: Rollout, vector: VectorEnv) -> set[str]:
        """Return the names of all metrics that a run of the task may bring."""
        episodes = self.episodes(vector)
        summary = Summary(built.task.summarize)
        return {
            *summary.of(rollout, Progress()),
            *built.task.summarize(episodes),
            *figures(episodes),
            *(metric.name for metric in METRICS),
            *(metric.name for metric in built.task.metrics),
            "rollout/ep_rew_mean",
            "rollout/ep_len_mean",
        }

    def episodes(self, vector: VectorEnv) -> list[Episode]:
        """Play at random until an episode ends."""
        for seed in range(MOST_STEPS // 100):
            if episodes := play(vector, steps=100, seed=seed):
                return episodes
        raise AssertionError(f"no episode ended within {MOST_STEPS} steps")

    def test_its_episodes_end_and_say_why(self, vector: VectorEnv) -> None:
        for episode in self.episodes(vector):
            assert episode.reason
            assert episode.length > 0
            assert math.isfinite(episode.episode_return)
            assert all(math.isfinite(value) for value in episode.metrics.values())

    def test_it_declares_what_it_summarizes(self, built: Built, vector: VectorEnv) -> None:
        declared = {metric.name: metric for metric in built.task.metrics}
        assert len(declared) == len(built.task.metrics)
        for metric in declared.values():
            assert metric.meaning
            assert metric.group in METRIC_GROUPS
        figures_of_its_own = built.task.summarize(self.episodes(vector))
        for name in figures_of_its_own:
            assert any(declares(metric, name) for metric in built.task.metrics), name
        assert all(math.isfinite(value) for value in figures_of_its_own.values())

    def test_a_rollout_without_ends_makes_up_no_figure(self, built: Built) -> None:
        assert built.task.summarize([]) == {}

    def test_its_score_is_measured_by_an_evaluation(self, built: Built, vector: VectorEnv) -> None:
        evaluation = built.task.evaluation
        assert evaluation.solved is None or math.isfinite(evaluation.solved)
        if evaluation.suite is None:
            assert evaluation.metric in figures(self.episodes(vector))
            return
        assert evaluation.metric in {metric.name for metric in built.task.metrics}
        assert evaluation.during not in evaluation.final, "what picks must not be what is reported"
        for name in (evaluation.during, *evaluation.final):
            suite = evaluation.suite(name)
            assert suite.envs.spec.observation == built.task.envs.spec.observation
            assert suite.envs.spec.action == built.task.envs.spec.action
            assert len({case.seed for case in suite.cases}) == len(suite.cases)

    def test_its_panels_show_metrics_that_exist(
        self, built: Built, rollout: Rollout, vector: VectorEnv
    ) -> None:
        known = self.measured(built, rollout, vector) | set(built.settings)
        declared = declared_metrics([built.task])
        for panel in built.task.panels:
            assert panel.title
            # What panels of records and of single episodes show are fields of files, not metrics.
            of_files = panel.records or panel.kind == "episodes"
            shown = () if of_files else (*panel.metrics, *panel.right)
            unknown = [name for name in shown if name not in known]
            assert all(any(declares(one, name) for one in declared) for name in unknown)

    def test_its_options_are_documented(self, name: str) -> None:
        options = find_kind(name).options
        assert set(field_docs(options)) == {field.name for field in fields(options)}

    def test_its_config_reads_back_to_itself(self, built: Built) -> None:
        again = resolve(ConfigSources(task=built.config.task))
        assert again == built.config

"""Row 28 of the fish checklist, its table: every tag of the original has a metric of ours."""

from __future__ import annotations

import re

from longhaul.app.build.metrics import GENERAL, TIMINGS, declares
from longhaul.envs.config import EnvConfig
from longhaul.learn.config import PPOConfig, learn_settings
from longhaul.nets.config import PolicyConfig
from longhaul.tasks.fish.lab.exports import TAGS
from longhaul.tasks.fish.lab.timeline import NAMES
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.task import build
from longhaul.tasks.kind import TaskRequest

WANTED = re.findall(
    r"\w+",
    """
avg_survival_rate final_num_alive avg_num_alive first_death_step first_death_p10
first_death_sample_size density_penalty_coef entropy_coef escape_boost_speed step_one_death_count
step_one_death_ratio step_one_top_share step_one_ne_high_speed_share prewarm_override_ratio
prewarm_override_hits prewarm_override_episodes tail_stage_index tail_stage_progress
tail_queue_remaining tail_queue_remaining_ratio tail_ne_reinjections tail_stage_warn_active
tail_stage_warn_since tail_stage_warn_duration tail_forced_resets tail_forced_resets_total
tail_prewarm_injections tail_prewarm_injections_total
    """,
)
"""The tags of section 8.3 under `custom/`."""


def test_every_tag_of_the_original_is_there() -> None:
    assert list(NAMES["curves"]) == WANTED
    others = {
        "multi_eval/avg_final_survival_rate",
        "multi_eval_death/early_death_fraction_100",
        "multi_eval/step_one_ne_high_speed_share",
        "eval_multi/min_final_survival_rate",
        "eval_multi_death/p10",
        "eval_single/avg_alive",
        "eval_single/avg_steps",
    }
    assert others <= set(TAGS)
    assert set(NAMES["curves_by_type"]) <= set(NAMES["curves"])


def test_every_tag_names_a_metric_or_setting_that_exists() -> None:
    task = build(TaskRequest("", FishOptions(fish=2), EnvConfig(), PolicyConfig(hidden=(4,))))
    declared = [*GENERAL, *TIMINGS, *task.metrics]
    settings = {setting.name for setting in (*task.settings, *learn_settings(PPOConfig()))}
    for name in {*TAGS.values(), *NAMES["curves_by_type"].values()}:
        assert name in settings or any(declares(metric, name) for metric in declared), name

"""Every name of the trainers before longhaul has a counterpart that exists."""

from __future__ import annotations

import re

import pytest
from docs.tools.reference import example_tasks, old_names_page

from longhaul.app.build.components import build_settings
from longhaul.app.build.metrics import declared_metrics, declares
from longhaul.app.build.sources import from_values
from longhaul.core.metrics import Alias, alias_curves
from longhaul.core.task import Task
from longhaul.tasks.mario.task import OLD_NAMES

COUNTERS = {"iteration", "env_steps", "episodes"}
PLACES = re.compile(
    r"(config\.toml|events\.jsonl|sessions\.jsonl|heartbeat\.json): \S.*|longhaul tool \w+ \w+"
)
SCHEMA = re.findall(
    r"\S+",
    """
timestamp update global_step model_compiled train_device num_envs loss_total loss_policy loss_value
loss_per entropy learning_rate grad_norm avg_return recent_return_std recent_return_max
recent_return_min recent_return_p50 recent_return_p90 recent_return_p99 episodes_completed
episode_length_mean episode_length_p50 episode_length_p90 episode_length_p99
episode_active_steps_mean episode_active_steps_max episode_active_steps_p50
episode_end_reason_<tag> episode_end_timeout_ratio episode_end_stagnation_ratio
episode_end_flag_ratio episode_end_death_ratio env_steps_per_sec updates_per_sec update_time
rollout_time learn_time env_mean_x_pos env_max_x_pos env_distance_delta_sum env_shaping_raw_sum
env_shaping_scaled_sum env_shaping_last_dx env_shaping_last_raw env_shaping_last_scaled
env_shaping_last_scale env_shaping_parse_fail env_positive_dx_envs env_positive_dx_ratio
stagnation_envs stagnation_mean_steps wrapper_distance_weight adaptive_ratio_avg adaptive_ratio_ema
adaptive_ratio_fallback adaptive_distance_weight adaptive_distance_weight_effective
adaptive_entropy_beta adaptive_lr_scale adaptive_error auto_bootstrap_triggered
auto_bootstrap_remaining auto_bootstrap_action_id secondary_script_triggered
secondary_script_remaining secondary_script_progress_surpassed milestone_count milestone_next
episode_timeout_steps probe_action_<i>_id probe_action_<i>_dx probe_action_<i>_last_x
probe_forward_action_selected action_freq_<id> replay_size replay_capacity replay_push_total
replay_fill_rate replay_last_unique_ratio replay_avg_unique_ratio replay_priority_mean
replay_priority_p50 replay_priority_p90 replay_priority_p99 replay_sample_time_ms
replay_sample_split_prior_ms replay_sample_split_choice_ms replay_sample_split_weight_ms
replay_sample_split_decode_ms replay_sample_split_tensor_ms replay_sample_split_total_ms
replay_per_sample_interval replay_gpu_sampler replay_gpu_sampler_fallback replay_gpu_sampler_reason
gpu_count gpu_<i>_mem_alloc_bytes gpu_<i>_mem_reserved_bytes gpu_<i>_util_pct gpu_<i>_mem_used_mb
gpu_<i>_mem_total_mb proc_cpu_percent proc_mem_rss_bytes system_cpu_percent system_mem_percent
gpu_util_last gpu_util_mean_window _hint_printed _hint_text
    """,
)
"""The rows of the trainer before, from its description."""


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return example_tasks()


def test_every_field_of_the_old_schema_is_in_the_table() -> None:
    fields = [alias.old for alias in OLD_NAMES if alias.kind == "field"]
    assert set(SCHEMA) - set(fields) == set()
    assert len(set(fields)) == len(fields)


def test_every_counterpart_exists(tasks: dict[str, Task]) -> None:
    for example, task in tasks.items():
        declared = declared_metrics([task])
        settings = set(build_settings(from_values({"task": example}), task))
        for alias in task.aliases:
            is_there = (
                alias.new in settings | COUNTERS
                or PLACES.fullmatch(alias.new)
                or any(
                    metric.name == alias.new or declares(metric, alias.new) for metric in declared
                )
            )
            assert is_there, f"{example}: {alias.old} -> {alias.new}"


def test_the_page_lists_every_name_once(tasks: dict[str, Task]) -> None:
    page = old_names_page()
    for alias in OLD_NAMES:
        assert f"| `{alias.old}` | `{alias.new}` |" in page


def test_a_curve_is_drawn_under_its_old_name() -> None:
    aliases = (
        Alias("Policy/entropy", "train/entropy_loss", factor=-1.0),
        Alias("custom/share_<value>", "eval/share", by="kind"),
        Alias("entropy", "train/entropy_loss", "field"),
        Alias("absent", "not/measured"),
    )
    values = {"train/entropy_loss": -0.5, "eval/share": 0.25, "kind": "a b"}
    assert alias_curves(aliases, values) == {"Policy/entropy": 0.5, "custom/share_a_b": 0.25}
    assert "custom/share_" not in alias_curves(aliases, {**values, "kind": ""})

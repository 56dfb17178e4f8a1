"""The fields and curves of the trainer before, from its description."""

from __future__ import annotations

import re

FIELDS = re.findall(
    r"\S+",
    """
timestamp update global_step model_compiled train_device num_envs loss_total loss_policy
loss_value loss_per entropy learning_rate grad_norm avg_return recent_return_std recent_return_max
recent_return_min recent_return_p50 recent_return_p90 recent_return_p99 episodes_completed
episode_length_mean episode_length_p50 episode_length_p90 episode_length_p99
episode_active_steps_mean episode_active_steps_max episode_active_steps_p50
episode_end_reason_<tag> episode_end_timeout_ratio episode_end_stagnation_ratio
episode_end_flag_ratio episode_end_death_ratio env_steps_per_sec updates_per_sec update_time
rollout_time learn_time env_mean_x_pos env_max_x_pos env_distance_delta_sum env_shaping_raw_sum
env_shaping_scaled_sum env_shaping_last_dx env_shaping_last_raw env_shaping_last_scaled
env_shaping_last_scale env_shaping_parse_fail env_positive_dx_envs env_positive_dx_ratio
stagnation_envs stagnation_mean_steps wrapper_distance_weight adaptive_ratio_avg
adaptive_ratio_ema adaptive_ratio_fallback adaptive_distance_weight
adaptive_distance_weight_effective adaptive_entropy_beta adaptive_lr_scale adaptive_error
auto_bootstrap_triggered auto_bootstrap_remaining auto_bootstrap_action_id
secondary_script_triggered secondary_script_remaining secondary_script_progress_surpassed
milestone_count milestone_next episode_timeout_steps probe_action_<i>_id probe_action_<i>_dx
probe_action_<i>_last_x probe_forward_action_selected action_freq_<id> replay_size replay_capacity
replay_push_total replay_fill_rate replay_last_unique_ratio replay_avg_unique_ratio
replay_priority_mean replay_priority_p50 replay_priority_p90 replay_priority_p99
replay_sample_time_ms replay_sample_split_prior_ms replay_sample_split_choice_ms
replay_sample_split_weight_ms replay_sample_split_decode_ms replay_sample_split_tensor_ms
replay_sample_split_total_ms replay_per_sample_interval replay_gpu_sampler
replay_gpu_sampler_fallback replay_gpu_sampler_reason gpu_count gpu_<i>_mem_alloc_bytes
gpu_<i>_mem_reserved_bytes gpu_<i>_util_pct gpu_<i>_mem_used_mb gpu_<i>_mem_total_mb
proc_cpu_percent proc_mem_rss_bytes system_cpu_percent system_mem_percent gpu_util_last
gpu_util_mean_window _hint_printed _hint_text

return_native_<figure> success_rate clear_rate_<stage> eta_seconds env_frames_per_sec
collect_fraction policy_lag_mean policy_lag_max rho_mean rho_clipped_fraction td_error_p50
td_error_p90 td_error_p99 explained_variance kl_old_new forced_action_fraction queue_depth
workers_alive worker_restarts amp_skipped_steps ram_parse_success ram_parse_failure
    """,
)
"""Of its log's rows, first those it wrote and then those its description asks for."""

CURVES = re.findall(
    r"\S+",
    """
Loss/total Loss/policy Loss/value Loss/per Policy/entropy LearningRate Grad/global_norm
Reward/avg_return Reward/p50 Reward/p90 Reward/p99 Reward/recent_std Env/mean_x_pos Env/max_x_pos
Env/distance_delta_sum Env/shaping_raw_sum Env/shaping_scaled_sum Replay/fill_rate
Replay/last_unique_ratio Replay/avg_unique_ratio Replay/size Replay/priority_mean
Replay/priority_p90 Resource/proc_mem_rss_bytes Resource/proc_cpu_percent
Resource/system_cpu_percent Resource/system_mem_percent Resource/gpu_util_mean_window meta/started
meta/init
    """,
)
"""Tags of its event files."""

"""The original's names of curves, each with the metric that tells the same."""

from __future__ import annotations

from collections.abc import Mapping

from longhaul.core.metrics import PLACE, Alias
from longhaul.tasks.fish.tail.queue import TAIL_TYPE
from longhaul.tasks.fish.trace.history import DEATH_STATS, SUMMARY

CUSTOM: Mapping[str, str] = {
    "avg_survival_rate": "env/survival_rate",
    "final_num_alive": "env/final_num_alive",
    "avg_num_alive": "env/avg_num_alive",
    "first_death_step": "env/first_death_step",
    "first_death_p10": "env/first_death_p10",
    "first_death_sample_size": "env/first_death_sample_size",
    "density_penalty_coef": "fish.density_penalty",
    "entropy_coef": "learn.entropy_weight",
    "escape_boost_speed": "fish.escape_boost",
    "step_one_death_count": "eval/step_one_death_count",
    "step_one_death_ratio": "eval/step_one_death_ratio",
    "step_one_top_share": "eval/step_one_top_share",
    "step_one_ne_high_speed_share": "eval/step_one_ne_high_speed_share",
    "prewarm_override_ratio": "starts/tail_override_ratio",
    "prewarm_override_hits": "starts/used",
    "prewarm_override_episodes": "rollout/episodes",
    "tail_stage_index": "starts/tail_stage",
    "tail_stage_progress": "starts/tail_stage_progress",
    "tail_queue_remaining": "starts/tail_remaining",
    "tail_queue_remaining_ratio": "starts/tail_remaining_ratio",
    "tail_ne_reinjections": "starts/tail_reentries_ne",
    "tail_stage_warn_active": "starts/tail_warning",
    "tail_stage_warn_since": "starts/tail_warning_since",
    "tail_stage_warn_duration": "starts/tail_warning_duration",
    "tail_forced_resets": "starts/tail_forced_resets",
    "tail_forced_resets_total": "starts/tail_forced_resets_total",
    "tail_prewarm_injections": "starts/tail_injections",
    "tail_prewarm_injections_total": "starts/tail_injections_total",
}
"""Tags under `custom/`; a name without a slash is a setting."""

BY_TYPE: Mapping[str, str] = {
    "step_one_top_share": "eval/step_one_top_share",
    "step_one_ne_high_speed_share": "eval/step_one_ne_high_speed_share",
}
"""Tags under `custom/` that also exist as `<tag>_<type>`: the value while a stage of that type is
on, the setting `fish.tail_type` says which."""

TAGS: Mapping[str, str] = {
    **{f"custom/{tag}": metric for tag, metric in CUSTOM.items()},
    **{f"{group}/{name}": f"eval/{name}" for group in ("multi_eval", "eval_multi")
       for name in SUMMARY},
    **{f"{group}_death/{name}": f"eval/{name}" for group in ("multi_eval", "eval_multi")
       for name in DEATH_STATS},
    "multi_eval/step_one_ne_high_speed_share": "eval/step_one_ne_high_speed_share",
    "eval_single/avg_alive": "eval/final_num_alive",
    "eval_single/avg_steps": "eval/mean_ep_length",
}  # fmt: skip
"""Every tag of the original with the metric or setting that tells the same."""

ALIASES = (
    *(Alias(tag, metric) for tag, metric in TAGS.items()),
    *(
        Alias(f"custom/{tag}_{PLACE}", metric, by=TAIL_TYPE.name, note="while that type is on")
        for tag, metric in BY_TYPE.items()
    ),
)
"""The same for whoever draws curves."""

"""What other libraries call our config keys, for people who come from them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping

from longhaul.core.errors import suggestion

_NAMES: Mapping[str, str] = {
    "learn.learning_rate": "lr base_lr",
    "learn.discount": "gamma discount_factor",
    "learn.gae_decay": "gae_lambda lambda lambda_ lam td_lambda",
    "learn.clip_range": "clip clip_coef clip_param clip_ratio clip_epsilon ppo_clip_ratio",
    "learn.value_clip": "clip_range_vf clip_vloss vf_clip vf_clip_param ppo_clip_value",
    "learn.entropy_weight": "ent_coef entropy_coef entropy_coeff exploration_loss_coeff",
    "learn.value_weight": "vf_coef vf_loss_coeff value_coef value_loss_coef value_loss_coeff",
    "learn.epochs": "n_epochs num_epochs update_epochs num_sgd_iter noptepochs",
    "learn.minibatch": "batch_size minibatch_size num_minibatches nminibatches sgd_minibatch_size",
    "learn.kl_stop": "target_kl kl_target",
    "learn.max_grad_norm": "grad_clip clip_grad_norm",
    "learn.normalise_advantage": "norm_adv normalize_advantage normalize_advantages",
    "learn.normalise_reward": "norm_reward normalize_reward normalize_returns",
    "learn.reward_clip": "clip_reward clip_rewards",
    "learn.adam_epsilon": "adam_eps",
    "learn.algorithm": "algo",
    "collect.steps": "n_steps num_steps rollout rollout_length rollout_fragment_length "
    "train_batch_size nsteps",
    "collect.window": "stats_window_size",
    "num_envs": "n_envs num_envs_per_worker num_envs_per_env_runner nenvs",
    "total_timesteps": "total_steps train_for_env_steps",
    "policy.hidden": "net_arch hidden_sizes hidden_size fcnet_hiddens encoder_mlp_layers",
    "policy.activation": "activation_fn fcnet_activation nonlinearity",
    "policy.core": "use_rnn use_lstm use_gru rnn_type lstm recurrent",
    "policy.core_size": "lstm_hidden_size lstm_cell_size rnn_size",
    "policy.core_layers": "n_lstm_layers rnn_num_layers",
    "policy.normalise_observations": "norm_obs normalize_input normalize_obs "
    "normalize_observations observation_filter",
    "policy.observation_clip": "clip_obs",
    "policy.initial_log_std": "log_std_init",
    "policy": "policy_kwargs model",
    "env.processes.workers": "num_workers num_env_runners n_workers",
    "evaluate.every_iterations": "eval_freq evaluation_interval",
    "evaluate.episodes": "n_eval_episodes eval_episodes evaluation_duration",
    "checkpoint.every_iterations": "save_freq save_every checkpoint_freq",
    "schedule": "anneal_lr lr_schedule",
    "track.to": "tensorboard_log with_wandb",
    "track.project": "wandb_project_name wandb_project",
    "report.film_evaluations": "capture_video",
    "device": "cuda",
    "deterministic": "torch_deterministic",
}

FOREIGN: Mapping[str, str] = {name: key for key, names in _NAMES.items() for name in names.split()}
"""Our config key for each name of Stable-Baselines3, CleanRL, RLlib and Sample Factory."""


def key_suggestion(path: str, siblings: Iterable[str], everywhere: Collection[str]) -> str:
    """Return what an unknown config key probably means.

    By its name elsewhere, by the table it really is in, by spelling, and else where to look.
    """
    last = _last(path)
    if last in FOREIGN:
        return f"; did you mean {FOREIGN[last]!r}?"
    if same := [key for key in everywhere if _last(key) == last]:
        return f"; did you mean {min(same, key=len)!r}?"
    names = {_last(key): key for key in siblings}
    if close := difflib.get_close_matches(last, names, n=1, cutoff=0.6):
        return f"; did you mean {names[close[0]]!r}?"
    return "; `longhaul config TASK` lists all keys"


def setting_suggestion(name: str, settings: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for a setting by its name elsewhere, or else by spelling."""
    meant = FOREIGN.get(_last(name))
    return f"; did you mean {meant!r}?" if meant in settings else suggestion(name, settings)


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower().replace("-", "_")

"""A run's policy as one of its checkpoints left it, ready to act."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from longhaul.app.assemble import build_policy, build_settings, build_task
from longhaul.app.checkpoints import find_checkpoint, load_weights
from longhaul.app.config import RunConfig
from longhaul.app.configure import from_values, read_toml
from longhaul.app.device import fix_torch
from longhaul.core.policy import Policy
from longhaul.core.progress import Progress
from longhaul.core.settings import Assignment, Settings
from longhaul.core.task import Task
from longhaul.runs.directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Trained:
    """What a checkpoint holds that one needs to play."""

    config: RunConfig
    task: Task
    policy: Policy
    settings: Settings
    checkpoint: str
    progress: Progress


def load_trained(run: RunDirectory, checkpoint: str) -> Trained:
    """Return the policy of the checkpoint called `latest`, `best`, or by its number of steps."""
    run.read_record()
    run.check_plain()
    config = from_values(read_toml(run.config))
    fix_torch(threads=config.threads, deterministic=config.deterministic)
    loaded = find_checkpoint(run, checkpoint)
    task = build_task(config)
    policy = build_policy(config, task, torch.device("cpu"))
    load_weights(policy, loaded)
    settings = build_settings(config, task).with_(
        Assignment(name, value) for name, value in loaded.manifest.settings.items()
    )
    return Trained(config, task, policy, settings, loaded.path.name, loaded.manifest.progress)

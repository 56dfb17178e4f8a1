"""Several learners for one run, launched by `torchrun`."""

from __future__ import annotations

from longhaul.app.assemble import LEARNERS, build_policy, build_task
from longhaul.app.config import RunConfig
from longhaul.app.device import choose_device, fix_torch
from longhaul.cluster.rank import Rank
from longhaul.cluster.team import JoinableLearner, LeadingLearner, ProcessTeam, follow
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import Seeds
from longhaul.learn.replay import NoReplay


def lead(learner: JoinableLearner, config: RunConfig, rank: Rank) -> LeadingLearner:
    """Return the learner that teaches the other processes what it learns."""
    refuse_replay(config)
    team = ProcessTeam(rank)
    learner.join(team)
    return LeadingLearner(learner, team)


def help_learning(config: RunConfig, rank: Rank) -> int:
    """Learn with the leader until it lets us go; return the exit code."""
    refuse_replay(config)
    fix_torch(threads=config.threads, deterministic=config.deterministic)
    device = choose_device(config.device, require_gpu=False)
    policy = build_policy(config, build_task(config), device)
    generator = Seeds(config.seed).generator("learn")
    learner = LEARNERS[config.learn.algorithm](policy, config.learn, generator, NoReplay())
    team = ProcessTeam(rank)
    learner.join(team)
    follow(learner, team)
    return 0


def refuse_replay(config: RunConfig) -> None:
    """Raise if several learners would each need the replay of all."""
    if config.learn.replay.enabled:
        raise ConfigError(
            "learn.replay.enabled = true is for a single learner; start the run without torchrun, "
            "or turn replay off"
        )

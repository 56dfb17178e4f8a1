"""Building the NetHack task, and what to look at after a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metric, Metrics, Panel
from longhaul.core.spaces import DURATION
from longhaul.core.task import Evaluation, Task
from longhaul.nets.config import build_policy
from longhaul.tasks.kind import TaskKind, TaskRequest
from longhaul.tasks.nethack import rules as rule_records
from longhaul.tasks.nethack.evaluation import HELD_OUT, REHEARSAL, SCORE, ended, suites
from longhaul.tasks.nethack.evaluation import METRICS as EVALUATION_METRICS
from longhaul.tasks.nethack.logs import summarize_training
from longhaul.tasks.nethack.options import TRAINING_CAP, NetHackOptions
from longhaul.tasks.nethack.rule_order import RuleOrder
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.source import TERMS, game_envs, rules_of
from longhaul.tasks.nethack.vocabulary import ATOM_BITS

if TYPE_CHECKING:
    from longhaul.core.rollout import Rollout

PANELS = (
    Panel(
        "Score",
        ("env/score", "eval/score", "eval/score_median"),
        name="score",
        right=("env/deepest_level",),
        note="true in-game score, of training games and of held-out ones",
    ),
    Panel(
        "How games end",
        ("env/ended/death", "env/ended/cap", "env/ended/abort"),
        name="ends",
        right=("env/turns",),
    ),
    Panel(
        "Scores of held-out games",
        ("score",),
        kind="histogram",
        name="score_distribution",
        records="events.jsonl",
        event="evaluated",
        each="games",
        label="true score",
    ),
)


METRICS = (
    Metric("env/score", "mean in-game score of the last moment the hero was alive", "points"),
    Metric("env/score_max", "best in-game score of the finished games", "points"),
    Metric("env/deepest_level", "mean of the deepest level reached"),
    Metric("env/turns", "mean of the game's turns", "turns"),
    Metric("env/step_cap", "steps after which the games were cut, mean"),
    Metric("env/skill_steps", "mean steps of the game that a skill took", "steps"),
    Metric("env/game_steps", "steps of the game in the rollout; its decisions are fewer", "steps"),
    Metric("env/ended/<reason>", "share of the games that ended by death, cap or otherwise"),
)


def build(request: TaskRequest) -> Task:
    """Return the task of playing NetHack for score."""
    if request.argument:
        raise ConfigError(
            f"task 'nethack' takes no argument, not {request.argument!r}; choose the character "
            "with --set options.character=val-hum-neu-fem"
        )
    options: NetHackOptions = request.options
    envs = game_envs(options.game())
    graph = rules_of(options.rules, options.play)
    most = options.max_steps
    terms = tuple(f"reward/{term}" for term in TERMS[options.reward])
    paid = Panel("What is paid", terms, name="reward")
    task = Task(
        name="nethack",
        envs=envs,
        make_policy=lambda: build_policy(envs.spec, request.policy),
        summarize=summarize,
        settings=(replace(TRAINING_CAP, default=most, high=most),),
        metrics=(*METRICS, *EVALUATION_METRICS),
        evaluation=Evaluation(
            metric=SCORE, suite=suites(options), during=REHEARSAL, final=(HELD_OUT,)
        ),
        panels=(*PANELS, paid, rule_records.PANEL),
        records=lambda log: rule_records.rule_records(graph),
        summarize_training=summarize_training(options.reward),
        summarize_steps=summarize_skills if options.play == "skills" else None,
        script=rule_script(graph) if options.play == "skills" else None,
    )
    if options.network == "plain":
        return task
    # Imported here, because it takes torch, which a config needs only once it is known to be good.
    from longhaul.tasks.nethack.policy.build import build_player

    player = build_player(envs.spec, graph, options.policy, options.phases, request.plan)
    return replace(
        task,
        make_policy=player.make_policy,
        settings=(*task.settings, *player.settings),
        controllers=player.controllers,
        metrics=(*task.metrics, *player.metrics),
        panels=(*task.panels, *player.panels),
        study=player.study,
        records=lambda log: {**rule_records.rule_records(graph), **player.records(log)},
        hints=player.hints,
    )


def rule_script(graph: RuleGraph) -> Callable[[Any, Any], Any]:
    """Return the rules' order as a teacher: it is certain of the skill they call for most."""
    order = RuleOrder(graph)

    def choose(obs: Mapping[str, Any], mask: Any) -> Any:
        import torch

        chosen = order.choose(obs[ATOM_BITS].cpu().numpy(), mask.cpu().numpy())
        return torch.nn.functional.one_hot(torch.from_numpy(chosen), mask.shape[1])

    return choose


def summarize_skills(rollout: Rollout) -> Metrics:
    """Return how long skills went on, and how many steps of the game they took in all."""
    known = (rollout.active & ~rollout.lost).sum()
    steps = rollout.measures[DURATION][rollout.active & ~rollout.lost].sum()
    if known == 0:
        return {}
    return {"env/skill_steps": float(steps / known), "env/game_steps": float(steps)}


def summarize(episodes: Sequence[Episode]) -> Metrics:
    """Return NetHack's own figures of a rollout; absent where no game ended."""
    if not episodes:
        return {}

    def mean(value: Callable[[Episode], float]) -> float:
        return sum(map(value, episodes)) / len(episodes)

    return {
        "env/score": mean(lambda e: e.metrics["score"]),
        "env/score_max": max(e.metrics["score"] for e in episodes),
        "env/deepest_level": mean(lambda e: e.metrics["deepest_level"]),
        "env/turns": mean(lambda e: e.metrics["turns"]),
        "env/step_cap": mean(lambda e: e.metrics["step_cap"]),
        **ended(episodes, "env"),
    }


TASK = TaskKind(
    name="nethack",
    summary="NetHack's early game for score, played by experts that know its rules",
    options=NetHackOptions,
    build=build,
    examples=("nethack",),
    presets=Path(__file__).parent / "presets",
    controller_keys={"phases": "options.phases"},
)

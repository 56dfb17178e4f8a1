"""The hint rules of a run, and the facts they may use."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Iterator

import psutil

from longhaul.app.build.config import RunConfig
from longhaul.app.build.memory import MEGABYTE
from longhaul.app.build.sources import find_kind, to_values
from longhaul.core.config import flatten
from longhaul.core.errors import ConfigError
from longhaul.core.hint import SCHEDULED, Facts, Rule
from longhaul.core.spaces import ActionSpec
from longhaul.core.task import Evaluation, Task
from longhaul.hints.advisor import Hints, choose_rules
from longhaul.hints.speed import DEVICE, MACHINE_MEMORY
from longhaul.hints.updates import MOST_ENTROPY, SOLVED

GROUP = "longhaul.hints"


def build_hints(config: RunConfig, task: Task, device: str) -> Hints:
    """Return the rules of a run, ready to read its metrics."""
    rules = choose_rules(config.hints, plugin_rules(), task.hints)
    return Hints(rules, run_facts(config, task, device))


def plugin_rules() -> Iterator[Rule]:
    """Yield the rules of installed packages; an entry point holds one rule or a tuple of them."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        offered = entry.load()
        for rule in offered if isinstance(offered, tuple) else (offered,):
            if not isinstance(getattr(rule, "name", None), str) or not hasattr(rule, "judge"):
                raise ConfigError(
                    f"the plugin {entry.value!r} offers {rule!r} as a hint rule, which has no name "
                    "or no judge; see the guide on hints"
                )
            yield rule


def run_facts(config: RunConfig, task: Task, device: str) -> Facts:
    """Return the facts about a run that rules may use beside its metrics."""
    facts = flatten(to_values(config))
    facts |= {
        DEVICE: device,
        SCHEDULED: scheduled(config, task),
        MOST_ENTROPY: most_entropy(task.envs.spec.action),
        MACHINE_MEMORY: psutil.virtual_memory().total // MEGABYTE,
        **task.facts,
    }
    evaluation = task.evaluation
    # A task with a separate score declares no threshold for returns.
    if evaluation.solved is not None and evaluation.metric == Evaluation().metric:
        facts[SOLVED] = evaluation.solved
    return facts


def scheduled(config: RunConfig, task: Task) -> dict[str, str]:
    """Return the config table of the controller of each setting that a controller changes."""
    keys = find_kind(config.task).controller_keys
    moved = {str(table.get("setting", "")): "[[schedule]]" for table in config.schedule}
    for controller in task.controllers:
        moved |= dict.fromkeys(controller.writes, keys.get(controller.name, "the task"))
    return moved


def most_entropy(action: ActionSpec) -> float:
    """Return the entropy of uniformly random actions; 0 if it is unbounded."""
    return sum((math.log(count) for count in action.counts), 0.0)

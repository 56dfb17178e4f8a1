"""Exporting a run's policy, for use without its run and without longhaul."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longhaul.app.build.components import build_env
from longhaul.app.build.text import first_line
from longhaul.app.evaluation.agent import ONNX, Agent, load_exported
from longhaul.app.evaluation.load import Run
from longhaul.core.env import VectorEnv
from longhaul.core.errors import EnvError, NumericalError
from longhaul.core.policy import NO_NOISE, Policy
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import ActionSpec, Continuous
from longhaul.engine.evaluator import policy_inputs

ROWS = 3  # of the example; the graph takes any number
CHECKS = 20
"""Random batches on which graph and policy must agree."""
TOLERANCE = 1e-4
PROVIDERS = ["CPUExecutionProvider"]
MASK = "action_mask"
PLAYED_EPISODES, PLAYED_STEPS = 20, 2000
"""Limits of the check with masked episodes, whichever is reached first."""
PLAYED_ENVS = 4


@dataclass(frozen=True, slots=True)
class Export:
    """An exported policy, and its ONNX graph if there is one."""

    folder: Path
    card: dict[str, Any]
    onnx: str  # path and checks of the graph, or why there is none

    def as_text(self) -> str:
        """Return what was written."""
        source = self.card["source"]
        steps = f"{source['env_steps']:,} steps"
        return "\n".join(
            [
                f"policy   {self.folder} ({self.card['parameters']:,} parameters)",
                f"source   {source['checkpoint']} of {source['run']}, {steps}",
                f"onnx     {self.onnx}",
            ]
        )

    def as_json(self) -> str:
        """Return the same for programs."""
        return json.dumps({"folder": str(self.folder), "onnx": self.onnx, "card": self.card})


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the graph's inputs and outputs, in order."""

    obs: tuple[str, ...]
    memory: tuple[str, ...]
    has_masks: bool
    has_logits: bool

    @property
    def inputs(self) -> list[str]:
        """The observation's parts, the mask, the memory's parts."""
        masks = [MASK] if self.has_masks else []
        return [*self.obs, *masks, *(f"memory_{name}" for name in self.memory)]

    @property
    def outputs(self) -> list[str]:
        """The action, its value, the logits of choices, the next memory's parts."""
        logits = ["logits"] if self.has_logits else []
        return ["action", "value", *logits, *(f"next_{name}" for name in self.memory)]


def names_of(agent: Agent) -> Names:
    """Return the names for a policy's graph."""
    spec = agent.task.envs.spec
    return Names(
        obs=tuple(spec.observation),
        memory=tuple(agent.policy.initial_state(1)),
        has_masks=spec.has_masks,
        has_logits=not isinstance(spec.action, Continuous),
    )


class ExportedStep(nn.Module):
    """One step of the policy as a function of tensors: its most likely action, value and logits."""

    def __init__(self, policy: Policy, settings: Settings, names: Names) -> None:
        super().__init__()
        self.policy = policy
        self._settings = settings
        self._names = names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Take the tensors of `Names.inputs`, return those of `Names.outputs`, each [rows, ...]."""
        names = self._names
        count = len(names.obs)
        obs = dict(zip(names.obs, tensors[:count], strict=True))
        mask = tensors[count] if names.has_masks else None
        memory = dict(zip(names.memory, tensors[count + names.has_masks :], strict=True))
        act = self.policy.act(obs, memory, self._settings, mask=mask)
        logits = () if act.logits is None else (act.logits,)
        return (act.action, act.value, *logits, *(act.memory[name] for name in names.memory))


def export_run(run: Run, checkpoint: str, out: Path | None, *, onnx: bool) -> Export:
    """Write the policy of a checkpoint to a separate folder."""
    agent = run.agent(checkpoint)
    folder = out or run.path / "export" / agent.checkpoint
    card = agent.save(folder)
    graph = write_onnx(load_exported(folder), folder) if onnx else "not requested"
    return Export(folder, card, graph)


def write_onnx(agent: Agent, folder: Path) -> str:
    """Write the graph and check that it matches the policy; return its path or why it failed."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ModuleNotFoundError:
        return (
            "not written: it needs the packages onnx, onnxruntime and onnxscript (the extra 'onnx')"
        )
    names = names_of(agent)
    example = example_inputs(agent, np.random.default_rng(0))
    agent.policy.set_noise(NO_NOISE)
    agent.policy.eval()
    step = ExportedStep(agent.policy, agent.settings, names)
    path = folder / ONNX
    rows = torch.export.Dim("rows", min=1)
    # The exporter's internal warnings do not help users.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                step,
                tuple(example),
                dynamo=True,
                input_names=names.inputs,
                output_names=names.outputs,
                dynamic_shapes=((tuple({0: rows} for _ in example)),),
                verbose=False,
            )
            assert program is not None
            program.save(str(path), external_data=False)
    except Exception as error:  # noqa: BLE001 - the exporter raises many kinds of errors
        path.unlink(missing_ok=True)
        return f"not written: this policy cannot be traced ({first_line(error)})"
    graph = Graph(step, names, onnxruntime.InferenceSession(str(path), providers=PROVIDERS))
    return f"{path} ({compare(agent, graph)}{play_masked(agent, graph)})"


def example_inputs(agent: Agent, generator: np.random.Generator, rows: int = ROWS) -> list[Tensor]:
    """Return random observations, valid masks, and the initial recurrent state."""
    spec = agent.task.envs.spec
    tensors = []
    for part in spec.observation.values():
        shape = (rows, *part.shape)
        drawn = (
            generator.standard_normal(shape)
            if np.dtype(part.dtype).kind == "f"
            else generator.integers(0, 2, shape)
        )
        tensors.append(torch.from_numpy(drawn.astype(part.dtype)))
    if spec.has_masks:
        tensors.append(torch.from_numpy(random_masks(spec.action, generator, rows)))
    tensors += [part.clone() for part in agent.policy.initial_state(rows).values()]
    return tensors


def random_masks(
    action: ActionSpec, generator: np.random.Generator, rows: int
) -> NDArray[np.bool_]:
    """Return masks [rows, choices] that forbid half of the choices, never all of one action."""
    parts = []
    for count in action.counts:
        allowed = generator.random((rows, count)) < 0.5
        allowed[np.arange(rows), generator.integers(0, count, rows)] = True
        parts.append(allowed)
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, slots=True)
class Graph:
    """The policy's step in torch, and the session of its ONNX graph."""

    step: ExportedStep
    names: Names
    session: Any

    def run(self, tensors: Sequence[Tensor]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Return the outputs of the graph and of the policy for the same inputs."""
        # The exporter drops inputs that have no effect.
        taken = {one.name for one in self.session.get_inputs()}
        fed = {
            name: tensor.numpy()
            for name, tensor in zip(self.names.inputs, tensors, strict=True)
            if name in taken
        }
        with torch.no_grad():
            expected = [part.numpy() for part in self.step(*tensors)]
        return self.session.run(None, fed), expected


def compare(agent: Agent, graph: Graph) -> str:
    """Return how well the graph agrees with the policy, in words; raise if it does not."""
    generator = np.random.default_rng(1)
    worst, same = 0.0, 0
    for number in range(CHECKS):
        found, expected = graph.run(example_inputs(agent, generator, rows=1 + number % 5))
        # Discrete actions are equal or not; continuous ones differ by rounding.
        same += bool(np.allclose(found[0], expected[0], rtol=0.0, atol=TOLERANCE))
        pairs = zip(found[1:], expected[1:], strict=True)
        worst = max(worst, *(float(np.abs(ours - theirs).max()) for ours, theirs in pairs))
    if worst > TOLERANCE or same < CHECKS - 1:
        raise NumericalError(
            f"the ONNX graph differs from the policy by {worst:.3g}, and its actions agree in "
            f"{same} of {CHECKS} batches; do not use it"
        )
    return f"equal on {CHECKS} random batches, values within {worst:.1g}"


def play_masked(agent: Agent, graph: Graph) -> str:
    """Play episodes with the graph if actions are masked; raise if it takes a forbidden one."""
    spec = agent.task.envs.spec
    if not spec.has_masks:
        return ""
    seeds = DerivedSeeds(Seeds(agent.config.evaluate.seed))
    try:
        env = build_env(agent.config, agent.task, seeds, PLAYED_ENVS)
    except EnvError as error:
        return f"; not played with masks: {error}"
    try:
        played = _play(env, agent, graph)
    finally:
        env.close()
    if played.forbidden or played.differing * 100 > played.actions:
        raise NumericalError(
            f"the ONNX graph took a forbidden action {played.forbidden} times and differed from "
            f"the policy {played.differing} times in {played.actions} actions; do not use it"
        )
    return f"; {played.episodes} masked episodes, {played.actions} actions, none forbidden"


@dataclass(slots=True)
class GraphEpisodes:
    """Counts of what a graph did in masked episodes."""

    episodes: int = 0
    actions: int = 0
    forbidden: int = 0
    differing: int = 0


def _play(env: VectorEnv, agent: Agent, graph: Graph) -> GraphEpisodes:
    """Act with the graph alone, with its recurrent state, and count its actions."""
    played = GraphEpisodes()
    kept = len(graph.names.memory)
    counts = env.spec.action.counts
    env.configure(agent.settings)
    env.reset()
    memory = agent.policy.initial_state(env.rows)
    for _ in range(PLAYED_STEPS):
        obs, memory, mask = policy_inputs(env, memory, torch.device("cpu"))
        assert mask is not None, "the environment has masks"
        active = env.slots.active.copy()
        found, expected = graph.run([*obs.values(), mask, *memory.values()])
        action = found[0].reshape(env.rows, -1)
        allowed = np.split(mask.numpy(), np.cumsum(counts)[:-1], axis=1)
        fine = [
            np.take_along_axis(part, action[:, [number]], axis=1)[:, 0]
            for number, part in enumerate(allowed)
        ]
        played.actions += int(active.sum())
        played.forbidden += int((~np.all(fine, axis=0) & active).sum())
        differs = (action != expected[0].reshape(env.rows, -1)).any(axis=1)
        played.differing += int((differs & active).sum())
        memory = dict(
            zip(graph.names.memory, map(torch.from_numpy, found[len(found) - kept :]), strict=True)
        )
        played.episodes += len(env.step(found[0]).episodes)
        if played.episodes >= PLAYED_EPISODES:
            break
    return played

"""Exporting a run's policy, for use without its run and without longhaul."""

from __future__ import annotations

import json
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longhaul.app.exported import ONNX, Exported, load_policy, write_policy
from longhaul.app.trained import load_trained
from longhaul.core.errors import NumericalError
from longhaul.core.policy import SILENT, Policy
from longhaul.core.settings import Settings
from longhaul.runs.directory import RunDirectory

ROWS = 3  # of the example; the graph takes any number
CHECKS = 20
"""Random batches on which both must agree."""
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Export:
    """Where the policy went, and whether there is an ONNX graph of it."""

    folder: Path
    card: dict[str, Any]
    onnx: str  # in words

    def as_text(self) -> str:
        """Return what was written."""
        return "\n".join(
            [
                f"policy   {self.folder} ({self.card['parameters']:,} parameters)",
                f"source   {self.card['source']}",
                f"onnx     {self.onnx}",
            ]
        )

    def as_json(self) -> str:
        """Return the same for programs."""
        return json.dumps({"folder": str(self.folder), "onnx": self.onnx, "card": self.card})


class Step(nn.Module):
    """One step of the policy as a function of tensors: the most likely action and its value."""

    def __init__(
        self, policy: Policy, settings: Settings, names: list[str], kept: list[str]
    ) -> None:
        super().__init__()
        self.policy = policy
        self._settings = settings
        self._names = names
        self._kept = kept

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Take the observation's parts, then the memory's, each [rows, ...]."""
        count = len(self._names)
        obs = dict(zip(self._names, tensors[:count], strict=True))
        memory = dict(zip(self._kept, tensors[count:], strict=True))
        act = self.policy.act(obs, memory, self._settings)
        return (act.action, act.value, *(act.memory[name] for name in self._kept))


def export_run(run: Path, checkpoint: str, out: Path | None, *, onnx: bool) -> Export:
    """Write the policy of a checkpoint into a folder of its own."""
    directory = RunDirectory(run)
    trained = load_trained(directory, checkpoint)
    folder = out or run / "export" / trained.checkpoint
    source = {
        "run": run.name,
        "checkpoint": trained.checkpoint,
        "env_steps": trained.progress.env_steps,
    }
    card = write_policy(folder, trained.config, trained.policy, trained.settings, source)
    told = write_onnx(load_policy(folder), folder) if onnx else "not asked for"
    return Export(folder, card, told)


def write_onnx(exported: Exported, folder: Path) -> str:
    """Write the graph if the policy allows it, and check that it computes the same; in words."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ModuleNotFoundError:
        return "not written: it needs the extra 'onnx': pip install 'longhaul[onnx]'"
    names, kept, example = example_inputs(exported, np.random.default_rng(0))
    exported.policy.set_noise(SILENT)
    exported.policy.eval()
    step = Step(exported.policy, exported.settings, names, kept)
    path = folder / ONNX
    outputs = ["action", "value", *(f"next_{name}" for name in kept)]
    rows = torch.export.Dim("rows", min=1)
    # What the exporter's own parts complain of is nobody's concern here.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                step,
                tuple(example),
                dynamo=True,
                input_names=[*names, *(f"memory_{name}" for name in kept)],
                output_names=outputs,
                dynamic_shapes=((tuple({0: rows} for _ in example)),),
                verbose=False,
            )
            assert program is not None
            program.save(str(path), external_data=False)
    except Exception as error:  # noqa: BLE001 - the exporter fails in as many ways as there are nets
        path.unlink(missing_ok=True)
        reason = str(error).strip().splitlines()
        return f"not written: this policy cannot be traced ({reason[0] if reason else error!r})"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return f"{path} {compare(exported, step, session)}"


def example_inputs(
    exported: Exported, generator: np.random.Generator, rows: int = ROWS
) -> tuple[list[str], list[str], list[Tensor]]:
    """Return the names of the observation's and the memory's parts, and numbers to put there."""
    spec = exported.task.envs.spec
    tensors = []
    for part in spec.observation.values():
        shape = (rows, *part.shape)
        drawn = (
            generator.standard_normal(shape)
            if np.dtype(part.dtype).kind == "f"
            else generator.integers(0, 2, shape)
        )
        tensors.append(torch.from_numpy(drawn.astype(part.dtype)))
    memory = exported.policy.initial(rows)
    tensors += [part.clone() for part in memory.values()]
    return list(spec.observation), list(memory), tensors


def compare(exported: Exported, step: Step, session: Any) -> str:
    """Return in words how well the graph agrees with the policy; one that does not is an error."""
    generator = np.random.default_rng(1)
    worst, same = 0.0, 0
    inputs = [one.name for one in session.get_inputs()]
    for number in range(CHECKS):
        names, kept, tensors = example_inputs(exported, generator, rows=1 + number % 5)
        labels = [*names, *(f"memory_{name}" for name in kept)]
        with torch.no_grad():
            expected = step(*tensors)
        fed = {n: t.numpy() for n, t in zip(labels, tensors, strict=True) if n in inputs}
        found = session.run(None, fed)
        same += bool(np.array_equal(found[0], expected[0].numpy()))
        gaps = [
            float(np.abs(a - b.numpy()).max()) for a, b in zip(found[1:], expected[1:], strict=True)
        ]
        worst = max(worst, *gaps)
    if worst > TOLERANCE or same < CHECKS - 1:
        raise NumericalError(
            f"the ONNX graph differs from the policy by {worst:.3g}, and its actions agree in "
            f"{same} of {CHECKS} batches; do not use it"
        )
    return f"(equal on {CHECKS} random batches, values within {worst:.1g})"

"""The ONNX graph of a policy, played by ONNX Runtime alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from longhaul.app.artifacts.export import export_run
from longhaul.app.evaluation.load import Run
from tests.app.small import finished_run

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

NAMED = "Toy/Forbidding-v0"


class Forbidding(gym.Env[Any, Any]):
    """Allows a part of its actions in every step and ends with a forbidden one."""

    observation_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._look()

    def step(self, action: Any) -> Any:
        self.steps += 1
        first, second = self.masks
        forbidden = not (first[action[0]] and second[action[1]])
        return *self._look()[:1], 1.0, forbidden, self.steps >= 8, self.facts(forbidden=forbidden)

    def _look(self) -> tuple[Any, dict[str, Any]]:
        self.masks = self.np_random.random(3) < 0.4, self.np_random.random(2) < 0.4
        for mask in self.masks:
            mask[self.np_random.integers(len(mask))] = True
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), self.facts()

    def facts(self, *, forbidden: bool = False) -> dict[str, Any]:
        return {"action_mask": self.masks, "forbidden": forbidden}


if NAMED not in gym.registry:
    gym.register(NAMED, f"{__name__}:Forbidding")


@pytest.mark.thorough
@pytest.mark.parametrize("core", ["none", "gru"])
def test_an_exported_graph_never_takes_a_forbidden_action(core: str, tmp_path: Path) -> None:
    run = finished_run(tmp_path, f"policy.core={core}", task=f"gym:{NAMED}")
    export = export_run(Run(run), "latest", None, onnx=True)
    assert "20 masked episodes" in export.onnx
    assert "none forbidden" in export.onnx
    session = onnxruntime.InferenceSession(str(export.folder / "policy.onnx"))
    memory = [one for one in session.get_inputs() if one.name.startswith("memory_")]
    env = Forbidding()
    for episode in range(20):
        obs, facts = env.reset(seed=episode)
        kept = {one.name: np.zeros((1, *one.shape[1:]), np.float32) for one in memory}
        over = False
        while not over:
            mask = np.concatenate(facts["action_mask"])[None]
            found = dict(
                zip(
                    [one.name for one in session.get_outputs()],
                    session.run(None, {"obs": obs[None], "action_mask": mask, **kept}),
                    strict=True,
                )
            )
            assert (found["logits"][~mask] < -1e8).all()
            choices = np.split(found["logits"][0], [3])
            assert [part.argmax() for part in choices] == found["action"][0].tolist()
            kept = {name: found[name.replace("memory_", "next_")] for name in kept}
            obs, _, terminated, truncated, facts = env.step(found["action"][0])
            assert not terminated, "a forbidden action"
            over = truncated


@pytest.mark.thorough
def test_a_graph_of_continuous_actions_has_neither_mask_nor_logits(tmp_path: Path) -> None:
    run = finished_run(tmp_path, task="gym:Pendulum-v1")
    export = export_run(Run(run), "latest", None, onnx=True)
    session = onnxruntime.InferenceSession(str(export.folder / "policy.onnx"))
    assert [one.name for one in session.get_inputs()] == ["obs"]
    assert [one.name for one in session.get_outputs()] == ["action", "value"]

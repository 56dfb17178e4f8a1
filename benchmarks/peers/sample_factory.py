"""Sample Factory's APPO over our consoles, to measure beside our learner.

This file is run as a script by a Python that has Sample Factory with the NumPy and the Gymnasium it
needs (`make peers-sample-factory` makes one); it finds the rest by this file's path. It
writes agent steps a second.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NAME = "longhaul_games"
ROOT = Path(__file__).parents[2]


def find_longhaul() -> None:
    """Let longhaul and this folder be imported, in processes started from here as well."""
    for folder in (str(ROOT), str(ROOT / "src")):
        if folder not in sys.path:
            sys.path.append(folder)


def make_games(name: str, cfg: Any, env_config: Any, render_mode: Any, *, asked: Any) -> Any:
    """Return all games of a run as one environment of many agents, which is SF's batched form."""
    find_longhaul()
    import gymnasium
    import numpy as np

    from longhaul.core.config import convert
    from longhaul.core.seeds import DerivedSeeds, Seeds
    from longhaul.envs.build import make_vector_env
    from longhaul.envs.config import EnvConfig
    from longhaul.nets.config import PolicyConfig
    from longhaul.tasks.kind import TaskRequest
    from longhaul.tasks.mario.task import TASK

    options = convert(asked["options"], TASK.options, where="options")
    count = asked["num_envs"]
    task = TASK.build(TaskRequest(asked["game"], options, EnvConfig(), PolicyConfig(), count))
    vector = make_vector_env(task.envs, count=count, seeds=DerivedSeeds(Seeds(asked["seed"])))
    ((part, shown),) = vector.spec.observation.items()

    class Games(gymnasium.Env[Any, Any]):
        """Agents that share nothing but their step."""

        is_multiagent = True
        num_agents = count

        def __init__(self) -> None:
            box = gymnasium.spaces.Box(0, 255, shown.shape, np.uint8)
            self.observation_space = gymnasium.spaces.Dict({"obs": box})
            self.action_space = gymnasium.spaces.Discrete(vector.spec.choices)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            """Begin an episode in every game."""
            vector.reset()
            return {"obs": vector.slots.obs[part]}, {}

        def step(self, actions: Any) -> Any:
            """Take a step in every game; ended ones come back already reset."""
            slots = vector.step(np.ascontiguousarray(actions, np.int64)).slots
            # Its own arrays take what they keep before the next step.
            return {"obs": slots.obs[part]}, slots.reward, slots.terminated, slots.truncated, {}

        def close(self) -> None:
            """End the games."""
            vector.close()

    return Games()


def make_trunk(cfg: Any, obs_space: Any, *, asked: Any) -> Any:
    """Return the network of the comparison: plain layers, or ours on loan."""
    find_longhaul()
    import torch
    from benchmarks.peers.network import plain_trunk
    from sample_factory.model.encoder import Encoder

    from longhaul.nets.cnn import LeanCnn

    shape, outputs = obs_space["obs"].shape, asked["outputs"]

    class Trunk(Encoder):  # type: ignore[misc]  # not installed where types are checked
        """The trunk in its place."""

        def __init__(self) -> None:
            super().__init__(cfg)
            self.inner = (
                LeanCnn(shape, outputs=outputs) if asked["lent"] else plain_trunk(shape, outputs)
            )

        def forward(self, obs: Any) -> Any:
            """Return [N, outputs]."""
            return self.inner(obs["obs"])

        def get_out_size(self) -> int:
            """Return how many features there are."""
            return int(outputs)

        def type_for_input_tensor(self, input_tensor_name: str) -> torch.dtype:
            """Leave bytes as they are for a network that reads bytes."""
            return torch.uint8 if asked["lent"] else torch.float32

    return Trunk()


def command_line(asked: dict[str, Any], folder: str, own: dict[str, Any]) -> list[str]:
    """Return a run as Sample Factory's command line takes it: what all have, and its own."""
    size = asked["num_envs"] * asked["steps"]
    chosen: dict[str, Any] = {
        "experiment": "bench",
        "train_dir": folder,
        "device": "cpu",
        "seed": asked["seed"],
        "rollout": asked["steps"],
        "batch_size": asked["minibatch_size"],
        "num_batches_per_epoch": size // asked["minibatch_size"],
        "num_epochs": asked["n_epochs"],
        "serial_mode": asked["mode"] == "serial",
        "async_rl": asked["mode"] != "serial",
        "normalize_input": False,
        "normalize_returns": False,
        "learning_rate": asked["learning_rate"],
        "train_for_env_steps": asked["iterations"] * size - 1,
        "save_every_sec": 100_000,
        "with_wandb": False,
        "set_workers_cpu_affinity": False,
    }
    return [f"--{name}={value}" for name, value in (own | chosen).items()]


def arguments(asked: dict[str, Any], folder: str) -> list[str]:
    """Return a run over our consoles."""
    own = {
        "algo": "APPO",
        "env": NAME,
        "batched_sampling": True,
        "num_workers": 1,
        "num_envs_per_worker": 1,
        "worker_num_splits": 1,
        "shuffle_minibatches": asked["n_epochs"] > 1,
        "use_rnn": False,
        # Bytes are scaled by the network on loan itself.
        "obs_scale": 1.0 if asked["lent"] else 255.0,
        "gamma": asked["gamma"],
        "max_grad_norm": asked["max_grad_norm"],
    }
    return command_line(asked, folder, own)


def measure(asked: dict[str, Any]) -> dict[str, float]:
    """Return the speed of some iterations after the first."""
    find_longhaul()
    from sample_factory.algo.utils.context import global_model_factory
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env

    register_env(NAME, partial(make_games, asked=asked))
    global_model_factory().register_encoder_factory(partial(make_trunk, asked=asked))
    with TemporaryDirectory(prefix="longhaul-bench-") as folder:
        given = arguments(asked, folder)
        parser, _ = parse_sf_args(given)
        size = asked["num_envs"] * asked["steps"]
        return run_measured(parse_full_cfg(parser, given), size, asked["threads"])


def run_measured(cfg: Any, size: int, threads: int) -> dict[str, float]:
    """Return the speed of a run whose iterations have `size` steps, without the first."""
    import torch
    from benchmarks.peers.marks import Marks
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.train import make_runner

    marks = Marks()

    class AfterIterations(AlgoObserver):  # type: ignore[misc]  # as above
        """Takes the time after every training iteration."""

        def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
            """Count what was learned from."""
            marks(training_iteration_since_resume * size)

    _, runner = make_runner(cfg)
    runner.register_observer(AfterIterations())
    runner.init()
    torch.set_num_threads(threads)
    runner.run()
    return marks.rates()


def answer(found: dict[str, float]) -> None:
    """Write what was measured as the last line; Sample Factory's log goes to the same place."""
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    answer(measure(json.loads(sys.argv[1])))

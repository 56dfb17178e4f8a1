"""A tiny policy with everything a learner may meet, and rollouts made by hand or by acting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from longhaul.core.policy import Act, ActionEvaluation, Generators, Policy
from longhaul.core.rollout import Bootstrap, Memory, Rollout, Sequences, TensorTree, clear_started
from longhaul.core.settings import Settings
from longhaul.learn.config import OnPolicyConfig, learn_settings


class FakePolicy(Policy):
    """One hidden layer, a plain recurrence if wanted, a categorical head and a value."""

    seen: Tensor

    def __init__(
        self, inputs: int, choices: int, *, hidden: int = 16, memory: bool = False
    ) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.again = nn.Linear(hidden, hidden) if memory else None
        self.logits = nn.Linear(hidden, choices)
        self.worth = nn.Linear(hidden, 1)
        self.register_buffer("seen", torch.zeros(()))
        self.aux = False

    @property
    def recurrent(self) -> bool:
        return self.again is not None

    def initial_state(self, rows: int) -> Memory:
        if self.again is None:
            return {}
        return {"hidden": torch.zeros(rows, self.again.in_features)}

    def _hidden(self, obs: TensorTree, memory: Memory) -> Tensor:
        total = self.first(obs["x"])
        if self.again is not None:
            total = total + self.again(memory["hidden"])
        return torch.tanh(total)

    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        assert generator is None or isinstance(generator, torch.Generator)
        hidden = self._hidden(obs, memory)
        log_probs = self.logits(hidden).log_softmax(-1)
        action = torch.multinomial(log_probs.exp(), 1, generator=generator)
        log_prob = log_probs.gather(-1, action).squeeze(-1)
        return Act(
            action.squeeze(-1),
            log_prob,
            self.worth(hidden).squeeze(-1),
            {"hidden": hidden} if self.recurrent else {},
            logits=log_probs,
        )

    def value(self, obs: TensorTree, memory: Memory, settings: Settings) -> Tensor:
        worth: Tensor = self.worth(self._hidden(obs, memory))
        return worth.squeeze(-1)

    def evaluate_actions(self, sequences: Sequences, settings: Settings) -> ActionEvaluation:
        memory, steps = sequences.memory, []
        if self.recurrent:
            for t in range(sequences.started.shape[0]):
                memory = clear_started(memory, sequences.started[t])
                memory = {"hidden": self._hidden({"x": sequences.obs["x"][t]}, memory)}
                steps.append(memory["hidden"])
            hidden = torch.stack(steps)
        else:
            hidden = self._hidden(sequences.obs, {})
        log_probs = self.logits(hidden).log_softmax(-1)
        log_prob = log_probs.gather(-1, sequences.action.unsqueeze(-1)).squeeze(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        aux = {"tidy": hidden.square().mean()} if self.aux else {}
        value = self.worth(hidden).squeeze(-1)
        return ActionEvaluation(
            log_prob, entropy, value, aux, {"hidden": hidden.detach().abs().mean()}, log_probs
        )

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        self.seen += active.sum()


def settings_for(config: OnPolicyConfig) -> Settings:
    return Settings(learn_settings(config))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def make_policy(
    inputs: int = 3, choices: int = 2, *, seed: int = 0, memory: bool = False
) -> FakePolicy:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return FakePolicy(inputs, choices, memory=memory)


@dataclass
class FakeWorld:
    """N rows of a tiny problem, stepped in arrays: `react` answers (reward, terminated, next)."""

    rows: int
    react: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
    observe: Callable[[Tensor], Tensor]
    time_limit: int = 0  # steps until truncation, 0 for never

    def __post_init__(self) -> None:
        self.state = torch.zeros(self.rows, dtype=torch.int64)
        self.age = torch.zeros(self.rows, dtype=torch.int64)
        self.memory: Memory | None = None
        self.started = torch.ones(self.rows, dtype=torch.bool)


Cut = tuple[int, int, Tensor, Memory]


def collect(
    world: FakeWorld,
    policy: Policy,
    settings: Settings,
    draws: torch.Generator,
    *,
    steps: int,
    chunk: int,
) -> Rollout:
    """Act for some steps by the rules of `Rollout`."""
    memory = policy.initial_state(world.rows) if world.memory is None else world.memory
    fields: dict[str, list[Tensor]] = {}
    memories: list[Memory] = []
    cuts: list[Cut] = []
    with torch.no_grad():
        for t in range(steps):
            memory = clear_started(memory, world.started)
            if t % chunk == 0:
                memories.append(memory)
            obs = world.observe(world.state)
            act = policy.act({"x": obs}, memory, settings, generator=draws)
            memory = act.memory
            for name, tensor in _advance(world, obs, act, cuts, t).items():
                fields.setdefault(name, []).append(tensor)
        world.memory = memory
        last_obs = {"x": world.observe(world.state)}
        last_value = policy.value(last_obs, memory, settings)
        truncations = _truncations(cuts, policy, settings, last_obs["x"])
    stacked = {name: torch.stack(tensors) for name, tensors in fields.items()}
    everywhere = torch.ones(steps, world.rows, dtype=torch.bool)
    at_end = torch.full((world.rows,), steps - 1)
    return Rollout(
        obs={"x": stacked["obs"]},
        action=stacked["action"],
        log_prob=stacked["log_prob"],
        value=stacked["value"],
        reward=stacked["reward"],
        terminated=stacked["terminated"],
        truncated=stacked["truncated"],
        started=stacked["started"],
        active=everywhere,
        forced=~everywhere,
        lost=~everywhere,
        mask=None,
        memory={k: torch.stack([m[k] for m in memories]) for k in memory},
        chunk=chunk,
        truncations=truncations,
        last=Bootstrap(at_end, torch.arange(world.rows), last_obs, memory, last_value),
        episodes=(),
        terms={},
        noise_seed=0,
        env_steps=steps * world.rows,
        events=(),
    )


def _advance(
    world: FakeWorld, obs: Tensor, act: Act, cuts: list[Cut], step: int
) -> dict[str, Tensor]:
    """Move the world one step on and return what a rollout keeps of it."""
    reward, terminated, after = world.react(world.state, act.action, world.age)
    world.age = world.age + 1
    truncated = ~terminated & (world.age >= world.time_limit if world.time_limit else False)
    cuts += [
        (step, row, world.observe(after)[row], {k: m[row] for k, m in act.memory.items()})
        for row in truncated.nonzero().flatten().tolist()
    ]
    kept = {
        "obs": obs, "action": act.action, "log_prob": act.log_prob, "value": act.value,
        "reward": reward, "terminated": terminated, "truncated": truncated,
        "started": world.started,
    }  # fmt: skip
    ended = terminated | truncated
    world.started = ended
    world.state = torch.where(ended, torch.zeros_like(after), after)
    world.age = torch.where(ended, torch.zeros_like(world.age), world.age)
    return kept


def _truncations(cuts: list[Cut], policy: Policy, settings: Settings, like: Tensor) -> Bootstrap:
    step = torch.tensor([cut[0] for cut in cuts], dtype=torch.int64)
    row = torch.tensor([cut[1] for cut in cuts], dtype=torch.int64)
    if not cuts:
        memory = {name: part[:0] for name, part in policy.initial_state(1).items()}
        return Bootstrap(step, row, {"x": like[:0]}, memory, torch.zeros(0))
    obs = {"x": torch.stack([cut[2] for cut in cuts])}
    memory = {name: torch.stack([cut[3][name] for cut in cuts]) for name in cuts[0][3]}
    return Bootstrap(step, row, obs, memory, policy.value(obs, memory, settings))


def random_rollout(
    seed: int, *, steps: int = 16, rows: int = 4, chunk: int = 8, hidden: int = 0
) -> Rollout:
    """Return a rollout of made-up numbers with ends of every kind, absent and forced steps."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=draw)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    terminated = uniform(steps, rows) < 0.1
    truncated = ~terminated & (uniform(steps, rows) < 0.1)
    started = torch.cat([torch.ones(1, rows, dtype=torch.bool), (terminated | truncated)[:-1]])
    step, row = truncated.nonzero(as_tuple=True)
    memory = {"hidden": normal(steps // chunk, rows, hidden)} if hidden else {}

    def bootstrap(step: Tensor, row: Tensor) -> Bootstrap:
        count = len(row)
        held = {"hidden": normal(count, hidden)} if hidden else {}
        return Bootstrap(step, row, {"x": normal(count, 3)}, held, normal(count))

    return Rollout(
        obs={"x": normal(steps, rows, 3)},
        action=(uniform(steps, rows) < 0.5).long(),
        log_prob=-uniform(steps, rows),
        value=normal(steps, rows),
        reward=normal(steps, rows),
        terminated=terminated,
        truncated=truncated,
        started=started,
        active=uniform(steps, rows) < 0.8,
        forced=uniform(steps, rows) < 0.2,
        lost=torch.zeros(steps, rows, dtype=torch.bool),
        mask=None,
        memory=memory,
        chunk=chunk,
        truncations=bootstrap(step, row),
        last=bootstrap(torch.full((rows,), steps - 1), torch.arange(rows)),
        episodes=(),
        terms={},
        noise_seed=0,
        env_steps=0,
    )

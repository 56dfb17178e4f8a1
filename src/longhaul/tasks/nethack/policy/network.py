"""The player's network as a policy of the engine."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
from longhaul.core.policy import Act, ActionEvaluation, Generators, Policy
from longhaul.core.rollout import Memory, Sequences, TensorTree
from longhaul.core.settings import Settings
from longhaul.core.spaces import Part
from longhaul.nets import heads
from longhaul.nets.recurrent import Gru, Lstm, NoCore, SequenceCore
from longhaul.tasks.nethack.policy import health as losses
from longhaul.tasks.nethack.policy.graph import GraphStream, Memo, Spoken, Thought, distinct
from longhaul.tasks.nethack.policy.health import Situations, measures
from longhaul.tasks.nethack.policy.layers import (
    REQUIRED,
    ROUTER_GAIN,
    VALUE_GAIN,
    ExpertBank,
    SightEncoder,
    build_fusion,
    ending_in,
    route,
)
from longhaul.tasks.nethack.policy.options import (
    ALIGNMENT_TEMPERATURE,
    LEARNED,
    ROUTER,
    ROUTERS,
    TEMPERATURE,
    TEMPERATURE_SCALE,
    Learned,
    PolicyOptions,
    RouterKind,
)
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import ACTIONS, ATOM_BITS, EXPERTS

ALPHA = "alpha"
"""The memory's name of the experts' weights of the step before."""
SHOWN = "experts"
"""What films call the experts' weights."""
FARTHEST = 20.0
"""Logits are kept within plus and minus this, before the mask."""


class ExpertPolicy(Policy):
    """Experts whose weights a router sets by what is seen and what the rules want."""

    of_expert: Tensor

    def __init__(
        self,
        parts: Mapping[str, Part],
        graph: RuleGraph,
        options: PolicyOptions,
        choices: tuple[str, ...] = ACTIONS,
    ) -> None:
        super().__init__()
        for name in REQUIRED:
            if name not in parts:
                raise ConfigError(f"the player needs the observation {name!r}, which is missing")
        self.options = options
        self.choice_names = choices
        self.expert_names = expert_names(options.experts)
        self.graph = GraphStream(
            graph, size=options.graph_size, heads=options.graph_heads, rule_boost=options.rule_boost
        )
        self.graph.requires_grad_(not options.freeze_graph)
        self.register_buffer("of_expert", _expert_shares(graph, options.experts), persistent=False)
        self.sight = SightEncoder(parts, options)
        self.core = _build_core(self.sight.outputs, options)
        self.fusion = build_fusion(options.fusion, self.core.outputs, self.graph.outputs)
        fused, seen = self.fusion.outputs, self.core.outputs
        self.router = ending_in(
            fused,
            (options.router_size, options.router_size // 2),
            options.experts,
            gain=ROUTER_GAIN,
        )
        self.experts = ExpertBank(
            fused if options.experts_see_intent else seen,
            options.expert_size,
            len(choices),
            experts=options.experts,
        )
        self.critic = ending_in(
            fused, (options.critic_size, options.critic_size // 2), 1, gain=VALUE_GAIN
        )
        self.situations = Situations()
        self.memo = Memo()

    @property
    def recurrent(self) -> bool:
        """True: the weights of the step before are kept beside every step."""
        return True

    @property
    def shown_names(self) -> Mapping[str, tuple[str, ...]]:
        """The experts' names, for those who watch."""
        return {SHOWN: self.expert_names}

    def initial_state(self, rows: int) -> Memory:
        """Return zeros."""
        before = self.of_expert.new_zeros(rows, self.options.experts)
        return {ALPHA: before, **self.core.initial_state(rows)}

    def set_noise(self, seed: int) -> None:
        """Forget what the graph said: a rollout must not show what was asked before it."""
        self.memo.forget()

    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        """Choose actions for [N] rows; without a generator, the most likely ones."""
        seen, memory = self.core.step(self.sight.forward(obs), _of_core(memory))
        thought = self._think(seen, self.memo.spoken(self.graph, obs[ATOM_BITS]), settings)
        thought = self._refined(thought, obs, mask)
        logits = self._masked(thought, mask)
        uniform = None if generator is None else heads.uniform_like(logits, generator)
        action, log_prob = heads.choose(logits, uniform)
        alpha = thought.alpha
        memory = {ALPHA: alpha, **memory}
        return Act(action, log_prob, thought.value, memory, {SHOWN: alpha}, logits)

    def value(self, obs: TensorTree, memory: Memory, settings: Settings) -> Tensor:
        """Return the value [N] of observations seen with this memory."""
        seen, _ = self.core.step(self.sight.forward(obs), _of_core(memory))
        with torch.no_grad():
            spoken = self.memo.spoken(self.graph, obs[ATOM_BITS])
        return self._value(self.fusion.forward(seen, spoken.intent))

    def think(self, obs: TensorTree, settings: Settings) -> Thought:
        """Return what the network makes of the observations [N] of one episode, in their order."""
        seen = self.sight.forward(obs).unsqueeze(1)
        started = torch.zeros(seen.shape[:2], dtype=torch.bool, device=seen.device)
        started[0] = True
        seen, _ = self.core.sequence(seen, _of_core(self.initial_state(1)), started)
        thought = self._think(seen.squeeze(1), self._speak(obs[ATOM_BITS]), settings)
        return self._refined(thought, obs, None)

    def chances(self, thought: Thought, mask: Tensor | None) -> Tensor:
        """Return how likely each choice is [N, A]."""
        return torch.softmax(self._masked(thought, mask), 1)

    def evaluate_actions(self, sequences: Sequences, settings: Settings) -> ActionEvaluation:
        """Return log-probability, entropy and value of each recorded step, and the losses."""
        shape = sequences.started.shape
        obs = {name: part.flatten(0, 1) for name, part in sequences.obs.items()}
        seen = self.sight.forward(obs).unflatten(0, shape)
        seen, _ = self.core.sequence(seen, _of_core(sequences.memory), sequences.started)
        atoms = obs[ATOM_BITS]
        thought = self._think(seen.flatten(0, 1), self._speak(atoms), settings)
        mask = None if sequences.mask is None else sequences.mask.flatten(0, 1)
        thought = self._refined(thought, obs, mask)
        logits = self._masked(thought, mask)
        log_prob, entropy = heads.evaluate_choice(logits, sequences.action.flatten())
        alpha = thought.alpha.view(*shape, -1)
        earlier = sequences.memory[ALPHA].unsqueeze(0)
        before = torch.cat([earlier, alpha[:-1].detach()])
        similar = losses.similarity(thought.expert_logits)
        target = self.target(thought.spoken.score, settings)
        aux = self._losses(thought, similar, target)
        aux["temporal"] = losses.temporal(
            thought.alpha, before.flatten(0, 1), ~sequences.started.flatten()
        )
        with torch.no_grad():
            measured = measures(
                thought, target, self.situations.forward(atoms), before, sequences.started, mask
            )
        return ActionEvaluation(
            log_prob=log_prob.view(shape),
            entropy=entropy.view(shape),
            value=thought.value.view(shape),
            aux_losses=aux,
            metrics={**measured, **self._usage(thought.alpha)},
            logits=logits.unflatten(0, shape),
        )

    def target(self, score: Tensor, settings: Settings) -> Tensor:
        """Return which experts the rules recommend [N, K], by the rules' scores [N, R]."""
        by_expert = score @ self.of_expert
        if self.options.align_detach:
            by_expert = by_expert.detach()
        if self.options.align_relative:
            by_expert = losses.unusual(by_expert)
        return losses.alignment_target(by_expert, settings[ALIGNMENT_TEMPERATURE])

    def _speak(self, atoms: Tensor) -> Spoken:
        """Return what the graph says about each row, worked out once for equal ones."""
        found = distinct(atoms)
        said = self.graph.forward(found.atoms)
        intent, score, spread = (
            part.index_select(0, found.index) for part in (said.intent, said.score, said.spread)
        )
        return Spoken(intent, score, spread)

    def _refined(self, thought: Thought, obs: TensorTree, mask: Tensor | None) -> Thought:
        """Return the thought after what depends on the situation beside the network; as it is."""
        return thought

    def _think(self, seen: Tensor, spoken: Spoken, settings: Settings) -> Thought:
        fused = self.fusion.forward(seen, spoken.intent)
        temperature = settings[TEMPERATURE] * settings[TEMPERATURE_SCALE]
        raw: Tensor = self.router(fused)
        kind = self._router_kind(settings)
        learned: Learned = kind if kind in LEARNED else "softmax"
        alpha = route(raw, learned, temperature)
        of_experts = self.experts.forward(fused if self.options.experts_see_intent else seen)
        by_row = of_experts.transpose(0, 1)  # [N, K, A]
        mixed = (alpha.unsqueeze(1) @ by_row).squeeze(1)
        return Thought(
            logits=mixed.clamp(-FARTHEST, FARTHEST),
            value=self._value(fused),
            alpha=alpha,
            router_logits=raw / temperature,
            expert_logits=by_row,
            spoken=spoken,
        )

    def _router_kind(self, settings: Settings) -> RouterKind:
        kind = self.options.router
        if kind != "schedule":
            return kind
        named = settings[ROUTER]
        if named not in ROUTERS:
            raise ConfigError(f"router.kind = {named!r} is not one of {', '.join(ROUTERS)}")
        return named

    def _value(self, fused: Tensor) -> Tensor:
        worth: Tensor = self.critic(fused)
        return worth.squeeze(1)

    def _masked(self, thought: Thought, mask: Tensor | None) -> Tensor:
        """Return logits [N, A] with forbidden actions out of reach."""
        if self.options.mixing == "logits":
            return heads.masked_logits(thought.logits, mask)
        by_expert = thought.expert_logits.clamp(-FARTHEST, FARTHEST)
        if mask is not None:
            by_expert = by_expert.masked_fill(~mask.unsqueeze(1), heads.FORBIDDEN)
        shares = torch.softmax(by_expert, 2)
        mixed = (thought.alpha.unsqueeze(1) @ shares).squeeze(1)
        return heads.masked_logits(losses.floored_log(mixed), mask)

    def _losses(self, thought: Thought, similar: Tensor, target: Tensor) -> dict[str, Tensor]:
        alpha = thought.alpha
        if self.options.alignment_on == "logits":
            log_weights = torch.log_softmax(thought.router_logits, 1)
        else:
            log_weights = losses.floored_log(alpha)
        return {
            "alpha_entropy": losses.alpha_entropy(alpha),
            "load_balance": losses.load_balance(alpha),
            "diversity": losses.diversity(similar),
            "alignment": losses.alignment(target, log_weights),
            "semantic": losses.semantic(similar),
            "overlap": losses.overlap(alpha, similar),
        }

    @torch.no_grad()
    def _usage(self, alpha: Tensor) -> dict[str, Tensor]:
        mean = alpha.mean(0)
        first = nn.functional.one_hot(alpha.argmax(1), alpha.shape[1]).float().mean(0)
        found = {}
        for place, name in enumerate(self.expert_names):
            found[f"policy/expert_weight/{name}"] = mean[place]
            found[f"policy/expert_share/{name}"] = first[place]
        return found


def expert_names(count: int) -> tuple[str, ...]:
    """Return what so many experts are called."""
    if count < len(EXPERTS):
        groups: list[list[str]] = [[] for _ in range(count)]
        for number, name in enumerate(EXPERTS):
            groups[number * count // len(EXPERTS)].append(name)
        return tuple("_".join(group) for group in groups)
    return (*EXPERTS, *(f"free_{number}" for number in range(1, count - len(EXPERTS) + 1)))


def _expert_shares(graph: RuleGraph, count: int) -> Tensor:
    """Return [R, K], by which rules' scores become the mean score of each expert's rules."""
    own = torch.from_numpy(graph.rule_expert.copy())
    if count < len(EXPERTS):
        own = own * count // len(EXPERTS)
    member = nn.functional.one_hot(own, count).float()
    return member / member.sum(0).clamp(min=1)


def _build_core(inputs: int, options: PolicyOptions) -> SequenceCore:
    match options.core:
        case "none":
            return NoCore(inputs)
        case "gru":
            return Gru(inputs, options.core_size)
        case "lstm":
            return Lstm(inputs, options.core_size)


def _of_core(memory: Memory) -> Memory:
    """Return the memory without what is only kept for the losses."""
    return {name: part for name, part in memory.items() if name != ALPHA}

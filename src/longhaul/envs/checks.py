"""Checks of an environment: seeds reproduce, reward terms add up, no episode is lost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from longhaul.core.env import Array, EnvSource, SingleEnvs, Step, StepBuffers, empty_actions
from longhaul.core.seeds import Seeds
from longhaul.core.spaces import Continuous, Discrete, EnvSpec, MultiDiscrete, Tier
from longhaul.envs.build import make_vector_env

Comparison = Literal[
    "two resets", "two constructions", "an episode played again", "reward terms", "lost episodes"
]
OF_ONE_PLAY: tuple[Comparison, ...] = ("reward terms", "lost episodes")
"""Findings of a single play, which do not question the seeds."""

CHECK_STEPS = 25
ATTEMPTS = 2
"""Plays of the check; an episode that is lost ends the comparison and says nothing of the seeds."""


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One broken promise."""

    comparison: Comparison
    step: int  # 0 is the reset
    what: str  # the array that differs

    def __str__(self) -> str:
        if self.comparison in OF_ONE_PLAY:
            return f"{self.what} at step {self.step}"
        return f"{self.comparison} with one seed differ in {self.what} at step {self.step}"


@dataclass(frozen=True, slots=True)
class SeedCheck:
    """Findings of the start-up check, and the source to continue with."""

    source: EnvSource
    findings: tuple[BrokenPromise, ...]

    @property
    def honest(self) -> bool:
        """Whether there were no findings."""
        return not self.findings

    def report(self) -> str:
        """Return the findings in one line for the user."""
        if self.honest:
            return f"{self.source.spec.id}: seeds reproduce (tier {self.source.spec.tier.value})"
        found = "; ".join(str(finding) for finding in self.findings)
        if all(finding.comparison in OF_ONE_PLAY for finding in self.findings):
            return f"{self.source.spec.id}: {found}"
        return (
            f"{self.source.spec.id}: {found}. It is run as tier {self.source.spec.tier.value}: "
            "a resumed run will be statistically the same but not bit for bit. "
            "Seed everything the environment draws from reset(seed=...)"
        )


@dataclass(frozen=True, slots=True)
class _FixedSeed:
    value: int

    def seed(self, env: int, episode: int) -> int:
        """Return the one seed there is."""
        return self.value


Trace = list[dict[str, str]]
"""For the reset and each step, a digest of every array."""


def check_seeds(source: EnvSource, *, seed: int = 1, steps: int = CHECK_STEPS) -> SeedCheck:
    """Compare resets and short episodes that share a seed; a mismatch gives tier `none`."""
    actions = random_actions(source.spec, steps, seed)
    # No replay log and no snapshots here: they would hide differences.
    plain = replace(source, spec=replace(source.spec, tier=Tier.NONE))
    for _ in range(ATTEMPTS):
        first, again, beside = _play_twice(plain, seed, actions)
        other, _, later = _play_twice(plain, seed, actions)
        findings = _differences(first, again, other)
        if findings or not any(one.comparison == "lost episodes" for one in (*beside, *later)):
            break
    if findings:
        source = replace(source, spec=replace(source.spec, tier=Tier.NONE))
    return SeedCheck(source, (*findings, *beside))


def random_actions(spec: EnvSpec, steps: int, seed: int) -> Array:
    """Return uniformly drawn actions [steps, rows, ...] for one environment."""
    generator = Seeds(seed).generator("check", "actions")
    one = empty_actions(spec, spec.rows)
    match spec.action:
        case Discrete(count):
            return generator.integers(0, count, (steps, *one.shape))
        case MultiDiscrete(counts):
            return generator.integers(0, np.array(counts), (steps, *one.shape))
        case Continuous(low, high):
            # Unbounded axes are tried within one unit of zero.
            floor, ceiling = np.maximum(low, -1.0), np.minimum(high, 1.0)
            drawn = generator.uniform(floor, np.maximum(floor, ceiling), (steps, *one.shape))
            return drawn.astype(np.float32)


def allowed_actions(spec: EnvSpec, slots: StepBuffers, wished: Array) -> Array:
    """Return the wished actions, each replaced by the next allowed one where masked."""
    if slots.mask is None:
        return wished
    counts = spec.action.counts
    chosen = wished.reshape(len(wished), -1).copy()
    for row, mask in enumerate(slots.mask):
        heads = np.split(mask, np.cumsum(counts)[:-1])
        for position, head in enumerate(heads):
            options = np.flatnonzero(head)
            if options.size:
                chosen[row, position] = options[chosen[row, position] % options.size]
    return chosen.reshape(wished.shape)


def _play_twice(
    source: EnvSource, seed: int, actions: Array
) -> tuple[Trace, Trace, tuple[BrokenPromise, ...]]:
    """Play the same episode twice in one construction; return other findings as well."""
    # An env that may crash runs in another process here as well.
    apart = isinstance(source, SingleEnvs) and source.prefers_processes
    vector = make_vector_env(
        source, count=1, seeds=_FixedSeed(seed), runtime="processes" if apart else "serial"
    )
    traces: list[Trace] = []
    loose: BrokenPromise | None = None
    lost: BrokenPromise | None = None
    try:
        for _ in range(2):
            vector.reset()
            trace = [_digests(vector.slots, reset=True)]
            for step, wished in enumerate(actions):
                played = vector.step(allowed_actions(source.spec, vector.slots, wished))
                if found := _lost_episode(played, step + 1):
                    lost = lost or found
                    break
                trace.append(_digests(vector.slots, reset=False))
                loose = loose or _loose_terms(vector.slots, step + 1)
            traces.append(trace)
    finally:
        vector.close()
    return traces[0], traces[1], tuple(one for one in (loose, lost) if one is not None)


def _digests(slots: StepBuffers, *, reset: bool) -> dict[str, str]:
    arrays: dict[str, Array] = {f"observation {name!r}": part for name, part in slots.obs.items()}
    if slots.mask is not None:
        arrays["the action mask"] = slots.mask
    if not reset:
        arrays["the reward"] = slots.reward
        arrays["terminated"] = slots.terminated
        arrays["truncated"] = slots.truncated
    return {
        name: hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
        for name, array in arrays.items()
    }


def _lost_episode(played: Step, step: int) -> BrokenPromise | None:
    for event in played.events:
        return BrokenPromise(
            "lost episodes", step, f"an episode was lost ({event.facts.get('error')})"
        )
    return None


def _loose_terms(slots: StepBuffers, step: int) -> BrokenPromise | None:
    if not slots.terms:
        return None
    total = np.sum(list(slots.terms.values()), axis=0)
    if np.allclose(total, slots.reward, rtol=1e-4, atol=1e-5):
        return None
    return BrokenPromise("reward terms", step, "the reward terms do not add up to the reward")


def _differences(first: Trace, again: Trace, other: Trace) -> tuple[BrokenPromise, ...]:
    """Return the first difference of each comparison."""
    comparisons: list[tuple[Comparison, Trace]] = [
        ("two resets", again[:1]),
        ("an episode played again", again),
        ("two constructions", other),
    ]
    findings: list[BrokenPromise] = []
    for comparison, trace in comparisons:
        if findings and comparison == "an episode played again":
            continue  # the resets already differ, which implies it
        found = _first_difference(comparison, first, trace)
        if found is not None:
            findings.append(found)
    return tuple(findings)


def _first_difference(comparison: Comparison, first: Trace, second: Trace) -> BrokenPromise | None:
    for step, (one, two) in enumerate(zip(first, second, strict=False)):
        for what, digest in one.items():
            if digest != two[what]:
                return BrokenPromise(comparison, step, what)
    return None

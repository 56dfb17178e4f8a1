"""Rules about episodes: what they return, how they end, and how evaluation compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longhaul.core.hint import Finding, HintRule, Recent
from longhaul.hints.numbers import median, number, rounded

RETURN, LENGTH, ENDED = "rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/episodes"
MEASURED, DEVIATION = "eval/mean_reward", "eval/std_reward"
ENTROPY_KEY = "learn.ent_coef"
SOLVED, LIMIT_KEY = "solved", "episodes.limit_key"


def is_solved(recent: Recent, level: float) -> bool:
    """Whether a return is known to be good enough."""
    return SOLVED in recent.facts and level >= recent.number(SOLVED)


@dataclass(frozen=True, slots=True)
class ReturnsFlat(HintRule):
    """Returns have stayed flat at zero, or flat below zero and far from solved."""

    name: str = "returns-flat"
    window: int = 50
    """Iterations in all of which nothing changed."""
    spread: float = 0.05
    """Largest change, as a share of the return, that counts as flat."""
    zero: float = 1e-6
    """Largest return that counts as zero."""

    reads: ClassVar[tuple[str, ...]] = (RETURN, LENGTH)

    def judge(self, recent: Recent) -> Finding | None:
        """Distinguish a lack of reward from a reward that only punishes."""
        returns = recent.values(RETURN, self.window)
        if len(returns) < self.window or is_solved(recent, max(returns)):
            return None
        low, high = min(returns), max(returns)
        if -self.zero <= low and high <= self.zero:
            return self._without_reward(recent)
        known = SOLVED in recent.facts
        if not known or high > 0 or high - low > self.spread * abs(low):
            return None
        solved = recent.number(SOLVED)
        cause = "The policy has settled on something that does not lead there."
        if solved > 0:
            cause = (
                "Rewards that should add up are taken away: their sign may be wrong, or a penalty "
                "outweighs them."
            )
        return Finding(
            evidence=(
                f"For {self.window} iterations the mean return has stayed between {number(low)} "
                f"and {number(high)}; {number(solved)} counts as solved."
            ),
            cause=cause,
            advice=_explore(recent, "Check the reward's sign and its terms first; if it is right"),
            setting=ENTROPY_KEY,
            value=_more_entropy(recent),
        )

    def _without_reward(self, recent: Recent) -> Finding:
        lengths = recent.values(LENGTH, 1)
        length = f" of {number(lengths[-1])} steps" if lengths else ""
        return Finding(
            evidence=(
                f"For {self.window} iterations every episode{length} has returned 0 "
                f"({recent.progress.episodes:,} episodes since the run began)."
            ),
            cause="The policy never meets a reward, so there is nothing to learn from.",
            advice=_explore(
                recent,
                "Make rewards denser or begin episodes nearer to the goal (hard starts); or",
            ),
            setting=ENTROPY_KEY,
            value=_more_entropy(recent),
        )


def _more_entropy(recent: Recent) -> float:
    return rounded(max(3 * recent.number(ENTROPY_KEY), 0.01))


def _explore(recent: Recent, first: str) -> str:
    weight, more = recent.number(ENTROPY_KEY), _more_entropy(recent)
    key = recent.setting(ENTROPY_KEY)
    return f"{first} raise {key} from {number(weight)} to {number(more)}."


@dataclass(frozen=True, slots=True)
class EndingPays(HintRule):
    """Every step costs and the policy has learned to end its episodes early."""

    name: str = "ending-pays"
    window: int = 20
    """Iterations in all of which episodes were short and returns negative."""
    share: float = 0.6
    """Share of the first episodes' length that counts as short."""

    reads: ClassVar[tuple[str, ...]] = (RETURN, LENGTH)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare lengths with those of the first episodes."""
        returns, lengths = recent.values(RETURN, self.window), recent.values(LENGTH, self.window)
        opening = recent.opening(LENGTH)
        if min(len(returns), len(lengths)) < self.window or not opening:
            return None
        at_first, now = max(opening), max(lengths)
        is_short = now <= self.share * at_first and now <= 1.15 * min(lengths)
        if not is_short or max(returns) >= 0 or is_solved(recent, returns[-1]):
            return None
        each = returns[-1] / max(lengths[-1], 1.0)
        return Finding(
            evidence=(
                f"Episodes have shrunk from {number(at_first)} to {number(lengths[-1])} steps and "
                f"stay there, and every step costs {number(-each)}."
            ),
            cause=(
                "Ending early is the best the policy can do about a reward below zero; unless "
                "that is the task, the reward's sign is wrong."
            ),
            advice=(
                "Turn the sign of the reward, or pay at least "
                f"{number(rounded(-2 * each))} for every step that is survived."
            ),
        )


@dataclass(frozen=True, slots=True)
class EpisodesNeverEnd(HintRule):
    """No episode has ended for far longer than episodes take."""

    name: str = "episodes-never-end"
    window: int = 500
    """Iterations that are looked at, at most."""
    least_iterations: int = 20
    """Iterations without an end before the rule reports."""
    least_steps: int = 2000
    """Steps of each environment without an end before the rule reports."""
    times: float = 5.0
    """Multiple of the usual length that is too long."""

    reads: ClassVar[tuple[str, ...]] = (ENDED, LENGTH)

    def judge(self, recent: Recent) -> Finding | None:
        """Count the iterations since the last end."""
        if recent.last(ENDED) != 0:
            return None
        without = 0
        for ended in reversed(recent.values(ENDED, self.window)):
            if ended:
                break
            without += 1
        steps = without * int(recent.number("collect.num_steps", 1))
        lengths = recent.values(LENGTH, self.window)
        usual = lengths[-1] if lengths else 0.0
        if without < self.least_iterations or steps < max(self.least_steps, self.times * usual):
            return None
        ever = (
            f"the last ones took {number(usual)}"
            if recent.progress.episodes
            else "none ever has in this run"
        )
        key = str(recent.facts.get(LIMIT_KEY, ""))
        limit = max(1000, int(rounded(2 * usual)))
        return Finding(
            evidence=(
                f"Every environment has taken {steps:,} steps without an episode's end; {ever}."
            ),
            cause=(
                "Either the policy has found a place where nothing happens, or the environment "
                "never says that it is over; there are no returns to see while that lasts."
            ),
            advice=(
                f"Cut episodes: set {key} = {limit}."
                if key
                else f"Cut episodes with a time limit, for example after {limit:,} steps."
            ),
            setting=key,
            value=limit if key else None,
        )


@dataclass(frozen=True, slots=True)
class EvaluationApart(HintRule):
    """Evaluations repeatedly differ from training."""

    name: str = "evaluation-apart"
    window: int = 300
    """Iterations within which the evaluations that are compared must lie."""
    cooldown: int = 500
    evaluations: int = 3
    """Evaluations in a row that must say so."""
    share: float = 0.5
    """Difference, as a share of the larger return, that is large."""

    reads: ClassVar[tuple[str, ...]] = (MEASURED, DEVIATION, RETURN)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare each of the last evaluations with the training of its iteration."""
        if recent.last(MEASURED) is None:
            return None
        measured, trained = recent.series[MEASURED], recent.series.get(RETURN)
        if trained is None or len(measured.values) < self.evaluations:
            return None
        at = dict(zip(trained.iterations, trained.values, strict=True))
        pairs = [
            (value, at[iteration])
            for iteration, value in zip(measured.iterations, measured.values, strict=True)
            if iteration in at
        ][-self.evaluations :]
        if len(pairs) < self.evaluations:
            return None
        deviation = median(list(recent.latest(DEVIATION, self.evaluations)) or [0.0])
        gaps = [value - training for value, training in pairs]
        scale = max(max(abs(value), abs(training)) for value, training in pairs)
        is_far = min(map(abs, gaps)) > max(self.share * scale, 2 * deviation, 1e-9)
        is_one_sided = max(gaps) < 0 or min(gaps) > 0
        if not is_far or not is_one_sided:
            return None
        return self._found(recent, pairs[-1])

    def _found(self, recent: Recent, pair: tuple[float, float]) -> Finding:
        value, training = pair
        evidence = (
            f"{self.evaluations} evaluations in a row were far from training: the last returned "
            f"{number(value)}, training's episodes {number(training)}."
        )
        if value < training:
            weight = recent.number(ENTROPY_KEY)
            return Finding(
                evidence,
                "What is learned does not carry over: the policy needs the chance in its actions, "
                "or training episodes are easier (starts, seeds, a script).",
                "Compare `longhaul evaluate RUN --sampled` with the greedy one: if that closes the "
                f"gap, lower {ENTROPY_KEY} (it began at {number(weight)}) to "
                f"{number(rounded(weight / 3))} towards the end.",
                ENTROPY_KEY,
                rounded(weight / 3),
            )
        return Finding(
            evidence,
            "Training looks worse than the policy is: exploration, hard starts or shaping terms "
            "pull its returns down.",
            "Judge the run by its evaluations; evaluate.every_iterations sets how often they come.",
            "evaluate.every_iterations",
        )

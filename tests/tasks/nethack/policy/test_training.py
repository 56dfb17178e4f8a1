"""The player learns in the real game: phases pass, losses live, nothing depends on luck."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.app.artifacts.records import study_run
from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.evaluation.load import Run
from longhaul.app.experiments.compare import compare_runs
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.control import Progress
from longhaul.engine.stop import Until
from longhaul.report.page import write_plots
from longhaul.report.pictures import read_png
from longhaul.report.run_data import gather
from longhaul.report.style import Chart, laid_out
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.reader import read_metrics

pytest.importorskip("nle")
pytestmark = pytest.mark.nethack

EXAMPLES = Path(__file__).parents[4] / "examples" / "nethack"
SMALL = (
    "env.runtime=serial",
    "env.check_seeds=false",
    "options.policy.state_size=32",
    "options.policy.expert_size=16",
    "options.policy.critic_size=16",
    "options.policy.graph_size=16",
    "options.phases.along=episodes",
    "learn.minibatch_size=128",
    "evaluate.final_episodes=0",
    "report.at_end=false",
)
CLOCKS = ("time/", "mem/", "env/step_", "system/")


def trained(
    root: Path, *overrides: str, example: str = "", watch: Until | None = None
) -> RunDirectory:
    changes = (*SMALL, *overrides)
    config = resolve(
        ConfigSources("nethack", file=EXAMPLES / f"{example}.toml", overrides=changes)
        if example
        else ConfigSources("nethack", preset="table", overrides=changes)
    )
    run = begin_run(config, root).directory
    assert run_session(run, config, SessionOptions(quiet=True), also_until=watch).exit_code == 0
    return run


def rows(run: RunDirectory) -> list[dict[str, Any]]:
    return [dict(row) for row in read_metrics(run).rows]


def scaled(episodes: int, cap: int, num_envs: int) -> tuple[str, ...]:
    """Return what makes a run of so many games pass through all phases."""
    return (
        f"options.max_steps={cap}",
        f"num_envs={num_envs}",
        f"options.phases.scale={episodes / 5000}",
        f"total_timesteps={episodes * cap}",
        "collect.num_steps=16",
    )


def test_a_short_run_passes_through_all_phases(tmp_path: Path) -> None:
    run = trained(tmp_path, *scaled(24, 16, 4))
    found = rows(run)
    assert {row["curriculum/phases_phase"] for row in found} == {1.0, 2.0, 3.0}
    assert all(row["train/aux_alignment"] > 0 for row in found)
    assert all(row["fault/skipped_updates"] == 0 for row in found)
    phases = read_rows(run.evaluations / "phases.jsonl").rows
    assert [phase["phase"] for phase in phases] == ["warm-up", "transition", "fine-tune"]


def test_the_temperature_follows_the_entropy_while_the_phases_go_on(tmp_path: Path) -> None:
    run = trained(tmp_path, *scaled(24, 16, 4), example="adaptive-temperature")
    moves: dict[str, list[float]] = {}
    for line in run.events.read_text().splitlines():
        for move in json.loads(line).get("moves", []):
            moves.setdefault(move["setting"], []).append(move["new"])
    scale = moves["router.temperature_scale"]
    entropy = [row["adaptive/temperature_mean"] for row in rows(run)[1:]]
    assert min(entropy) > 0.7, "weights that are hardly learned are nearly equal"
    assert scale == [pytest.approx(0.2 + 0.8 * 0.9**k) for k in range(1, len(scale) + 1)]
    assert moves["router.temperature"][-1] == 0.5


def test_the_cap_of_training_games_grows_and_that_of_evaluations_does_not(tmp_path: Path) -> None:
    caps = ", ".join(
        f'{{name = "{cap}", start = {start}, assign = {{"nethack.max_steps" = {cap}}}}}'
        for start, cap in ((0.0, 8), (0.5, 32))
    )
    schedule = f'schedule=[{{kind = "phases", name = "cap", along = "run", phases = [{caps}]}}]'
    measured = ("evaluate.every_iterations=3", "evaluate.num_envs=4", "collect.num_steps=32")
    run = trained(tmp_path, *scaled(24, 32, 4), *measured, schedule)
    found = rows(run)
    played = [row["env/step_cap"] for row in found if "env/step_cap" in row]
    assert played[0] == 8
    assert played[-1] == 32
    assert {row["eval/step_cap"] for row in found if "eval/step_cap" in row} == {32.0}


@pytest.mark.thorough
def test_killed_workers_change_no_byte_of_the_logs(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    killed: list[int] = []

    def kill_a_worker(progress: Progress) -> str | None:
        if progress.iteration in (2, 5):
            # Beside the workers there is a guard, which ends what they leave behind.
            workers = [
                one
                for one in set(psutil.Process().children()) - before
                if "processes.process" in " ".join(one.cmdline())
            ]
            worker = min(workers, key=lambda one: one.pid)
            worker.kill()
            killed.append(worker.pid)
        return None

    apart = (*scaled(8, 64, 4), "env.runtime=processes", "env.processes.workers=2")
    plain = trained(tmp_path / "plain", *apart)
    shaken = trained(tmp_path / "shaken", *apart, watch=kill_a_worker)
    assert len(set(killed)) == 2
    faults = [row for row in read_rows(shaken.sessions).rows if row["event"] == "env_fault"]
    assert {fault["kind"] for fault in faults} == {"died", "replaced"}
    for log in ("metrics.jsonl", "episodes.jsonl", "events.jsonl"):
        assert (shaken.path / log).read_bytes() == (plain.path / log).read_bytes(), log


@pytest.mark.slow
def test_sixty_games_switch_router_and_signs_with_short_gradients(tmp_path: Path) -> None:
    run = trained(tmp_path, *scaled(60, 100, 4), "collect.num_steps=32")
    found = rows(run)
    assert {row["curriculum/phases_phase"] for row in found} == {1.0, 2.0, 3.0}
    assert statistics.median(row["train/grad_norm"] for row in found) < 5
    moves = [
        (move["setting"], move["new"])
        for line in run.events.read_text().splitlines()
        for move in json.loads(line).get("moves", [])
    ]
    assert ("router.kind", "sparsemax") in moves
    assert ("loss.alpha_entropy", 0.05) in moves


@pytest.mark.slow
def test_the_same_seed_gives_the_same_losses(tmp_path: Path) -> None:
    first, second = (
        rows(trained(tmp_path / name, *scaled(20, 64, 4))) for name in ("first", "second")
    )
    assert len(first) >= 20

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if not name.startswith(CLOCKS)}

    assert list(map(plain, first)) == list(map(plain, second))


@pytest.mark.slow
def test_alignment_is_live_and_falls_within_two_minutes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    alike = (  # as large and as quick as in the presets; a narrower graph aligns less far
        "options.policy.graph_size=64",
        "options.policy.state_size=128",
        "options.policy.expert_size=64",
        "options.phases.learning_rate_factor=3.0",
        "learn.n_epochs=4",
    )
    shape = (*scaled(1000, 100, 16), "collect.num_steps=32", "options.phases.only=warm-up")
    run = trained(tmp_path, *shape, *alike)
    losses = [row["train/aux_alignment"] for row in rows(run)]
    first, last = statistics.fmean(losses[:20]), statistics.fmean(losses[-20:])
    record_property("first and last loss", f"{first:.3f} {last:.3f}")
    assert min(losses) > 0
    assert last < 0.8 * first


FIGURES: dict[int, tuple[str, ...]] = {
    # Training curves: return, score with its mean of fifty, entropy with ln 4 and ln 2, borders of
    # phases, boxes by phase.
    1: ("training-game-by-game", "entropy-of-the-experts-weights", "scores-by-phase"),
    # Bars of three phases; their table is evaluations/phases.md.
    2: ("phases",),
    # Comparison of two arms: curves; gains, distributions, lengths, boxes, thresholds; usage,
    # situations and switches of the experts. Its table is on the page.
    3: (
        "compare-rollout-ep_rew_mean",
        "compare-eval-score",
        "compare-sheet",
        "compare-leading-expert",
        "compare-routing-by-situation",
        "compare-policy-expert_switches",
    ),
    # Effect of the manager: alignment and semantic loss, degree of alignment.
    4: ("rules-and-router", "likeness-of-experts"),
    # Use of experts over time, and share of the leading one.
    5: ("expert-weights", "leading-expert"),
    # Routing of one episode with atoms, actions and values.
    6: ("routing-over-one-episode",),
    # From scene to expert.
    7: ("routing-by-situation", "routing-by-atom"),
    # Chances of actions step by step, and each expert's profile.
    8: ("chances-of-actions-over-one-episode", "what-each-expert-does"),
    # Attention over the graph at key moments with their screens.
    9: ("what-the-graph-attends-to", "operator-scores"),
    # Projection of what experts answer, and of intents, for the same states.
    10: ("answers-of-the-experts-projected", "intents-projected"),
    # Likeness of every two experts.
    11: ("likeness-of-experts-pair-by-pair",),
    # Health.
    12: ("health",),
    # Bars of an ablation with intervals.
    13: ("compare-bars",),
}
"""The figures of section 9.6 of the study's specification, and the pictures that show each."""


def drawn_fields(chart: Chart) -> int:
    """Return in how many axes of a chart something is drawn."""
    with laid_out(chart) as figure:
        return sum(
            bool(axes.lines or axes.patches or axes.images or axes.collections)
            for axes in figure.axes
        )


@pytest.mark.slow
def test_every_figure_is_drawn_from_a_run_of_twenty_games(
    tmp_path: Path,
) -> None:
    assert list(FIGURES) == list(range(1, 14))
    measured = (
        "evaluate.final_episodes=4",
        "options.eval_episodes=4",
        "evaluate.every_iterations=4",
    )
    shape = (*scaled(20, 100, 4), *measured, "evaluate.num_envs=4")
    runs = [
        trained(tmp_path, *shape, f"name={mode}", f"options.phases.mode={mode}")
        for mode in ("baseline", "manager")
    ]
    for run in runs:
        study_run(Run(run), episodes=3)
    made = {one.chart.name: one for one in write_plots(gather(runs[1].path))}
    page = compare_runs([run.path for run in runs]).page
    for number, names in FIGURES.items():
        for name in names:
            folder = page.parent if name.startswith("compare-") else runs[1].plots
            picture = read_png(folder / f"{name}.png")
            assert picture.std() > 5, f"figure {number}: {name} is blank"
            if name in made:
                assert drawn_fields(made[name].chart) > 0, f"figure {number}: {name}"
    moments = list(read_rows(runs[1].evaluations / "moments.jsonl").rows)
    assert moments
    assert all((runs[1].path / row["picture"]).is_file() for row in moments)

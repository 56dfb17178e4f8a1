"""A run that goes on in a new run directory, with all state of the one it continues."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from longhaul import api
from longhaul.app.build.config import SessionOptions
from longhaul.app.session.continuation import Origin
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run, start_or_resume
from longhaul.core.errors import ConfigError, LockedError, LonghaulError
from longhaul.engine.stop import after_iterations
from longhaul.runs.checkpoints.inspect import list_checkpoints, read_manifest
from longhaul.runs.directory import RunDirectory, list_run_directories
from longhaul.runs.lock import Clocks, RunLock
from tests.app.small import CARTPOLE, QUIET, small
from tests.golden.runs import COMMON, RUNS

HALF, WHOLE = 2, 4
LOGS = ("metrics", "episodes", "events")


def contents(run: RunDirectory) -> dict[str, str]:
    """Return the logs and the parts of the newest checkpoint."""
    logs = {name: getattr(run, name).read_bytes() for name in LOGS}
    manifest = read_manifest(list_checkpoints(run.checkpoints)[0])
    return {
        **{name: hashlib.sha256(held).hexdigest() for name, held in logs.items()},
        **{name: part.sha256 for name, part in manifest.parts.items()},
        "settings": repr(manifest.settings),
    }


def trained(root: Path, *overrides: str, name: str = "first", iterations: int) -> RunDirectory:
    config = api.resolve_config(CARTPOLE, overrides=small(*overrides), name=name)
    run = begin_run(config, root).directory
    run_session(run, config, QUIET, also_until=after_iterations(iterations))
    return run


@pytest.mark.parametrize("name", RUNS)
def test_a_continued_run_is_bit_for_bit_what_the_resumed_one_is(name: str, tmp_path: Path) -> None:
    source = RUNS[name]
    common = (*source.overrides, *COMMON, "checkpoint.keep_best=2")
    config = api.resolve_config(source.task, preset=source.preset, overrides=common)
    first = begin_run(config, tmp_path).directory
    run_session(first, config, QUIET, also_until=after_iterations(HALF))
    before = contents(first)
    config = api.resolve_config(source.task, continue_from=first.path, name="second")
    second = begin_run(config, tmp_path, Origin.find(first.path)).directory
    assert contents(second) == contents(first) == before
    run_session(second, config, QUIET, also_until=after_iterations(WHOLE))
    run_session(
        first,
        api.resolve_config(source.task, continue_from=first.path),
        QUIET,
        also_until=after_iterations(WHOLE),
    )
    assert contents(second) == contents(first) != before
    assert second.read_record().continued_from.startswith(f"{first.path.name}/step-")


def test_a_run_continues_from_an_earlier_checkpoint_as_well(tmp_path: Path) -> None:
    every = ("checkpoint.every_iterations=1", "checkpoint.keep_last=9", "schedule=[]")
    first = trained(tmp_path, *every, "total_timesteps=128", iterations=4)
    early = first.checkpoints / "step-000000000064"
    run = api.train(
        CARTPOLE,
        continue_from=early,
        name="second",
        runs_root=tmp_path,
        quiet=True,
        session=SessionOptions(report=False),
    )
    assert run.path != first.path
    assert contents(run.directory) == contents(first)


def test_the_same_call_again_goes_on_in_the_same_new_run(tmp_path: Path) -> None:
    first = trained(tmp_path, iterations=1)
    config = api.resolve_config(CARTPOLE, continue_from=first.path, name="second")

    def start() -> Path:
        origin = Origin.find(first.path)
        return start_or_resume(
            config, tmp_path, choice="same", notify=print, origin=origin
        ).directory.path

    assert start() == start()
    other = trained(tmp_path / "elsewhere", name="third", iterations=1)
    with pytest.raises(ConfigError, match="does not continue"):
        start_or_resume(
            config, tmp_path, choice="same", notify=print, origin=Origin.find(other.path)
        )


def test_what_a_schedule_may_change_may_be_changed_and_counts_from_there(tmp_path: Path) -> None:
    first = trained(tmp_path, "schedule=[]", iterations=2)
    config = api.resolve_config(
        CARTPOLE, continue_from=first.path, name="second", overrides=["learn.learning_rate=1e-30"]
    )
    second = begin_run(config, tmp_path, Origin.find(first.path)).directory
    run_session(second, config, QUIET)
    weights = [
        Origin.find(run.path).checkpoint.states["learner"]["policy"] for run in (first, second)
    ]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


REFUSED = {
    "collect.num_steps=8": "does not fit another collect.num_steps: 16 -> 8",
    "policy.hidden=[9]": r"does not fit another policy.hidden: \[8\] -> \[9\]",
    "seed=4": "does not fit another seed: 1 -> 4",
    'schedule=[{kind="ramp", name="other", setting="learn.ent_coef"}]': "the schedule cannot be",
    'name="first"': "'first' is the name of the run it continues; give another --name",
}


@pytest.mark.parametrize("override", REFUSED)
def test_what_the_state_does_not_fit_is_refused_and_leaves_nothing(
    override: str, tmp_path: Path
) -> None:
    first = trained(tmp_path, iterations=1)
    with pytest.raises(ConfigError, match=REFUSED[override]) as refused:
        api.train(
            CARTPOLE,
            continue_from=first.path,
            overrides=["name=second", override],
            runs_root=tmp_path,
        )
    assert "\n" not in str(refused.value)
    assert [one.path for one in list_run_directories(first.path.parent)] == [first.path]
    assert not list(first.path.parent.glob(".tmp-*"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preset": "default"}, "leave out --preset and --config"),
        ({"continue_from": "nowhere"}, "nowhere is not a run directory"),
    ],
)
def test_a_wrong_origin_is_named(given: dict[str, str], words: str, tmp_path: Path) -> None:
    first = trained(tmp_path, iterations=1)
    with pytest.raises(LonghaulError, match=words):
        api.train(CARTPOLE, **{"continue_from": first.path, "name": "second", **given})  # type: ignore[arg-type]  # keywords of different kinds


def test_another_task_cannot_continue_a_run(tmp_path: Path) -> None:
    first = trained(tmp_path, iterations=1)
    with pytest.raises(ConfigError, match="the config is for task"):
        api.train("probe:chase", continue_from=first.path, name="second")


def test_a_run_that_is_being_trained_cannot_be_copied(tmp_path: Path) -> None:
    first = trained(tmp_path, iterations=1)
    with RunLock(first.lock, Clocks()), pytest.raises(LockedError, match="is being trained"):
        api.train(CARTPOLE, continue_from=first.path, name="second", runs_root=tmp_path)

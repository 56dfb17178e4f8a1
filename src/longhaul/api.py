"""The Python interface; the command line is a thin layer over it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul.app.build.config import SessionOptions
from longhaul.core.config import merge, unflatten, value_words
from longhaul.core.errors import ConfigError
from longhaul.core.plugins import give, name_of

if TYPE_CHECKING:
    from longhaul.app.build.config import RunConfig
    from longhaul.app.evaluation.agent import Agent
    from longhaul.app.evaluation.evaluate import Evaluated
    from longhaul.app.evaluation.load import Run
    from longhaul.app.evaluation.suites import SuiteReport
    from longhaul.app.experiments.compare import Compared
    from longhaul.app.session.start import Start
    from longhaul.core.parts import RunListener
    from longhaul.engine.stop import Outcome
    from longhaul.runs.directory import RunDirectory

DEFAULT_SESSION = SessionOptions()
__all__ = [
    "SessionOptions",
    "compare",
    "evaluate",
    "load",
    "register_env",
    "resolve_config",
    "resume",
    "train",
]


def resolve_config(
    task: str,
    *,
    preset: str = "",
    config: Path | str | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    continue_from: Path | str | None = None,
    **values: Any,
) -> RunConfig:
    """Return the config made of preset, file or dict, values and `key=value` overrides, in order.

    Keys may be dotted, and classes and functions stand for their names. The config of a run to
    continue takes the place of the preset.
    """
    from longhaul.app.build.sources import ConfigSources, config_of, resolve

    file, flags = None, unflatten(_named(values))
    if isinstance(config, Mapping):
        flags = merge(unflatten(_named(config)), flags)
    elif config is not None:
        file = Path(config)
    base = None if continue_from is None else config_of(Path(continue_from))
    return resolve(ConfigSources(task, preset, file, flags, overrides, base=base))


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return config values with names for classes and functions, and lists for tuples."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return _named(value)
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return name_of(value) if callable(value) else value

    return {key: plain(value) for key, value in values.items()}


def task_name(task: object) -> str:
    """Return the name of a task that may be given as a class or function that makes an env."""
    if isinstance(task, str):
        return task
    if callable(task):
        return f"gym:{name_of(task)}"
    raise ConfigError(
        f"{task!r} is not a task: give a name such as 'gym:CartPole-v1', a class of environments, "
        "or a function that makes one, such as lambda: gymnasium.make('CartPole-v1')"
    )


def train(
    task: str | Callable[..., Any],
    *,
    preset: str = "",
    config: Path | str | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    wrappers: Sequence[str | Callable[..., Any] | Mapping[str, Any]] = (),
    listeners: Sequence[RunListener] = (),
    resume: str = "same",
    continue_from: Path | str | None = None,
    runs_root: Path | str = "runs",
    quiet: bool = False,
    session: SessionOptions = DEFAULT_SESSION,
    **values: Any,
) -> Run:
    """Train a task, or continue its run, and return the run.

    The task is a name, a class of Gymnasium environments or a function that makes one. `wrappers`
    are put around it, the innermost first. Every config key is a keyword; `config` takes a TOML
    file or a dict. The same call continues an unfinished run. A new run may `continue_from` another
    one or its checkpoint, with its config and all of its state. After Ctrl-C the run is saved and
    KeyboardInterrupt is raised, after SIGTERM SystemExit.
    """
    if wrappers:
        values = merge({"options": {"wrappers": list(wrappers)}}, unflatten(values))
    resolved = resolve_config(
        task_name(task),
        preset=preset,
        config=config,
        overrides=overrides,
        continue_from=continue_from,
        **values,
    )
    session = _session(session, quiet=quiet, listeners=listeners)
    # Imported after the config is checked: torch takes seconds to import.
    from longhaul.app.build.memory import choose_device
    from longhaul.app.session.continuation import Origin
    from longhaul.app.session.display import choose_display
    from longhaul.app.session.memory_ladder import check_choice, train_smaller
    from longhaul.app.session.start import start_or_resume
    from longhaul.cluster.config import launched_rank

    processes = launched_rank().size
    check_choice(session.on_memory, continues=continue_from is not None, processes=processes)
    _follow(resolved)
    choose_device(resolved.device, require_gpu=session.require_gpu)
    notify = choose_display(as_json=session.as_json, quiet=session.quiet).notice
    origin = None if continue_from is None else Origin.find(Path(continue_from))
    root = Path(runs_root)

    def train_once(config: RunConfig, choice: str) -> Run:
        start = start_or_resume(config, root, choice=choice, notify=notify, origin=origin)
        return _train_to_the_end(start, config, session, tuple(listeners))

    if session.on_memory == "shrink":
        return train_smaller(resolved, root, choice=resume, notify=notify, train=train_once)
    return train_once(resolved, resume)


def _train_to_the_end(
    start: Start, config: RunConfig, session: SessionOptions, listeners: tuple[RunListener, ...]
) -> Run:
    from longhaul.app.evaluation.load import Run
    from longhaul.app.session.run import run_session

    if start.is_over:
        return Run(start.directory)
    outcome = run_session(start.directory, config, session, task=start.task, listeners=listeners)
    return _ended(start.directory, outcome)


def resume(
    path: Path | str,
    *,
    env: Callable[..., Any] | None = None,
    total_timesteps: int | None = None,
    overrides: Sequence[str] = (),
    listeners: Sequence[RunListener] = (),
    quiet: bool = False,
    session: SessionOptions = DEFAULT_SESSION,
) -> Run:
    """Continue a run from its newest intact checkpoint, for longer if asked, and return it.

    `env` is the class or function that made its environments, if they have no name to import.
    """
    from longhaul.app.session.run import run_session
    from longhaul.app.session.start import find_run

    _give_env(path, env)
    session = _session(session, quiet=quiet, listeners=listeners)
    start = find_run(Path(path), total_timesteps=total_timesteps, overrides=overrides)
    _follow(start.config)
    outcome = run_session(start.directory, start.config, session, listeners=tuple(listeners))
    return _ended(start.directory, outcome)


def _session(
    session: SessionOptions, *, quiet: bool, listeners: Sequence[RunListener]
) -> SessionOptions:
    """Return the session's options, after a look at its listeners."""
    from longhaul.core.parts import RunListener

    for listener in listeners:
        if not isinstance(listener, RunListener):
            raise ConfigError(f"{listener!r} is not an instance of longhaul.RunListener")
    return replace(session, quiet=quiet or session.quiet)


def _follow(config: RunConfig) -> None:
    """In a process that torchrun started as a follower, help the leader and end with it."""
    from longhaul.cluster.config import launched_rank

    rank = launched_rank()
    if not rank.is_leader:
        from longhaul.app.build.distributed import follow_group

        follow_group(config, rank)
        sys.exit(0)


def _ended(directory: RunDirectory, outcome: Outcome) -> Run:
    """Return the run, unless a signal asked the whole program to stop."""
    from longhaul.app.evaluation.load import Run

    if outcome.exit_code == 128 + signal.SIGINT:
        again = f"the same call, or longhaul.resume({str(directory.path)!r}), continues the run"
        raise KeyboardInterrupt(f"{outcome.reason}; {again}")
    if outcome.exit_code:
        sys.exit(outcome.exit_code)
    return Run(directory, outcome=outcome)


def _give_env(path: Path | str, env: Callable[..., Any] | None) -> None:
    """Let the environment's name in a run's or folder's config stand for a class or function."""
    if env is None:
        return
    from longhaul.app.build.sources import Reference, config_of, read_toml

    give(Reference.parse(str(read_toml(config_of(Path(path)))["task"])).argument, env)


def load(
    place: Path | str | Run, checkpoint: str = "", *, env: Callable[..., Any] | None = None
) -> Agent:
    """Return the trained agent of a run, of one of its checkpoints or of an exported folder.

    For a run this is the best checkpoint that was evaluated, else the latest, unless `checkpoint`
    names one. `env` is as in `resume`.
    """
    from longhaul.app.evaluation.load import Run
    from longhaul.app.evaluation.load import load as load_agent

    path = place.path if isinstance(place, Run) else place
    _give_env(path, env)
    return load_agent(path, checkpoint)


def evaluate(
    trained: Run | Agent | Path | str,
    *,
    episodes: int = 50,
    seed: int | None = None,
    deterministic: bool | None = None,
    suites: Sequence[str] = (),
) -> Evaluated | SuiteReport:
    """Evaluate an agent, or what `load` takes, on fixed episodes; a run keeps the result."""
    from longhaul.app.evaluation.agent import Agent
    from longhaul.app.evaluation.evaluate import EvaluationRequest, evaluate_agent
    from longhaul.app.evaluation.load import Run
    from longhaul.app.evaluation.suites import SuiteRequest
    from longhaul.runs.directory import RunDirectory

    if not isinstance(trained, (Run, Agent)):
        is_run = RunDirectory(Path(trained)).record.is_file()
        trained = Run(trained) if is_run else load(trained)
    if isinstance(trained, Run):
        return trained.evaluate(
            episodes=episodes, seed=seed, deterministic=deterministic, suites=tuple(suites)
        )
    request = EvaluationRequest(
        episodes=episodes, seed=seed, greedy=deterministic, suites=SuiteRequest(tuple(suites))
    )
    return evaluate_agent(trained, request)


def compare(
    what: Sequence[Run | Path | str] | str | Callable[..., Any],
    *,
    arms: Mapping[str, str | Mapping[str, Any]] | None = None,
    seeds: int = 3,
    name: str = "compare",
    runs_root: Path | str = "runs",
    out: Path | str | None = None,
    anyway: bool = False,
    **values: Any,
) -> Compared:
    """Compare runs by their final evaluations, or train the arms of a task first.

    An arm is a preset or a dict of config keys, under its name; `values` are the keys all arms
    share. Runs must be evaluated alike, except with `anyway`.
    """
    from longhaul.app.evaluation.load import Run
    from longhaul.app.experiments.arms import Arm, Experiment
    from longhaul.app.experiments.compare import compare_arms, compare_runs
    from longhaul.app.session.display import choose_display

    page = None if out is None else Path(out)
    if isinstance(what, (list, tuple)):
        if arms or values:
            raise ConfigError("arms and config keys need a task; these runs are trained already")
        paths = [one.path if isinstance(one, Run) else Path(one) for one in what]
        return compare_runs(paths, anyway=anyway, out=page)
    made = tuple(
        Arm(arm, preset=keys) if isinstance(keys, str) else Arm(arm, overrides=_overrides(keys))
        for arm, keys in (arms or {}).items()
    )
    experiment = Experiment(
        task_name(what), made, seeds, Path(runs_root), overrides=_overrides(values), name=name
    )
    notify = choose_display(as_json=False, quiet=False).notice
    return compare_arms(experiment, notify, out=page)


def _overrides(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return config values as `key=value` texts."""
    from longhaul.core.config import flatten

    return tuple(f"{key}={value_words(value)}" for key, value in flatten(_named(values)).items())


def register_env(name: str, maker: Callable[..., Any]) -> None:
    """Let `gym:name` stand for a class or function that makes environments, in this process."""
    from longhaul.envs.gymnasium.make import register_env as register

    register(name, maker)

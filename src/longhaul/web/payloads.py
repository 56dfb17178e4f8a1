"""The JSON payloads of the page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from longhaul.core.config import flatten, parse_toml
from longhaul.runs.directory import RunDirectory
from longhaul.runs.films import film_caption, parse_film_notes
from longhaul.runs.reader import RunState, read_checkpoints
from longhaul.web.curves import Stretches, Window
from longhaul.web.events import LoggedEvent, hint_text
from longhaul.web.files import RunsFolder, read_small
from longhaul.web.run_index import OpenRun, RunIndex

FILMS = (".mp4", ".gif")
PICTURES = (".png",)
MOST_CHECKPOINTS = 200
DRAWN = ("lines", "overview", "area", "spans")
"""Kinds of panels that show metrics over the run."""


@dataclass(frozen=True, slots=True)
class DrawnPanel:
    """The fields of a `longhaul.core.metrics.Panel` that the page uses; others are ignored."""

    title: str
    metrics: tuple[str, ...]
    kind: str = "lines"
    right: tuple[str, ...] = ()
    note: str = ""


def run_payload(index: RunIndex, name: str) -> dict[str, Any] | None:
    """Return everything of one run except its curves; None if there is no such run."""
    run, entry, state = index.open(name), index.entry(name), index.state(name)
    if run is None or entry is None:
        return None
    found: dict[str, Any] = {"entry": entry, **_read_payload(run, entry)}
    directory = index.directory(name)
    if directory is None or state is None:
        return found
    return {
        **found,
        "record": _record_payload(state),
        "beat": None if state.beat is None else msgspec.to_builtins(state.beat),
        "films": _films_payload(index.folder, directory),
        "plots": list(index.folder.files(directory.plots, PICTURES)),
        "checkpoints": _checkpoints_payload(index.folder, directory),
        "panels": _panels_payload(directory),
    }


def _films_payload(folder: RunsFolder, directory: RunDirectory) -> list[dict[str, str]]:
    names = folder.files(directory.media, FILMS)
    if not names:
        return []  # none, or a folder outside the runs' folder
    notes = parse_film_notes(read_small(directory.film_notes) or b"")
    return [{"name": name, "caption": film_caption(name, notes)} for name in names]


def _resolved(hint: LoggedEvent, entry: Mapping[str, Any]) -> str:
    """Return why a hint no longer applies; empty if it still does."""
    if entry.get("solved"):
        return "the target was reached"
    silent = float(entry["iteration"]) - (hint.iteration or 0.0)
    if hint.iteration is not None and silent > hint.silence:
        return f"not seen again for {silent:,.0f} iterations"
    return ""


def _read_payload(run: OpenRun, entry: Mapping[str, Any]) -> dict[str, Any]:
    with run.lock:
        events, curves = run.events, run.curves
        hints = {**events.session_hints, **events.hints}
        return {
            "read": curves.share_read,
            "metrics": list(curves.names),
            "constants": curves.constants,
            "settings": [
                name for name in curves.settings.names if name not in ("iteration", "env_steps")
            ],
            "left_out": curves.metrics.buckets.left_out,
            "skipped": curves.metrics.skipped + curves.timings.skipped,
            "hints": [
                {**one.as_row(), "text": hint_text(one), "resolved": _resolved(one, entry)}
                for one in hints.values()
            ],
            "decisions": list(events.decisions),
            "decision_count": events.counts["schedule"],
            "events": [one.as_row() for one in (*events.others, *events.sessions)],
            "counts": dict(events.counts + events.session_counts),
            "workers": [
                {"name": name, "kinds": dict(one.kinds), "last": one.last, "time": one.time}
                for name, one in sorted(events.workers.items())
            ],
        }


def _record_payload(state: RunState) -> dict[str, Any]:
    record = state.record
    arguments = list(record.command)
    return {
        "task": record.task,
        "name": record.name,
        "seed": record.seed,
        "created": record.created,
        "reason": record.reason,
        "command": shlex.join(["longhaul", *arguments[1:]]) if arguments else "",
        "versions": record.versions,
        "host": record.host,
        "holder": None if state.holder is None else msgspec.to_builtins(state.holder),
    }


def _checkpoints_payload(folder: RunsFolder, directory: RunDirectory) -> list[dict[str, Any]]:
    if not folder.holds(directory.checkpoints):
        return []
    found: list[dict[str, Any]] = []
    for entry in read_checkpoints(directory)[:MOST_CHECKPOINTS]:
        manifest = entry.manifest
        if manifest is None:
            found.append({"name": entry.path.name, "problem": entry.problem})
            continue
        score = manifest.score
        found.append(
            {
                "name": entry.path.name,
                "iteration": manifest.progress.iteration,
                "steps": manifest.progress.env_steps,
                "created": manifest.created,
                "bytes": sum(part.length for part in manifest.parts.values()),
                "score": None if score is None else score.value,
                "metric": "" if score is None else score.metric,
            }
        )
    return found


def _panels_payload(directory: RunDirectory) -> list[dict[str, Any]]:
    """Return the charts the task asks for that show metrics over the run."""
    try:
        shown = msgspec.json.decode(read_small(directory.panels) or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return []
    listed = shown.get("panels", []) if isinstance(shown, dict) else []
    found = []
    for panel in listed if isinstance(listed, list) else []:
        try:
            asked = msgspec.convert(panel, DrawnPanel)
        except msgspec.ValidationError:
            continue  # written by another version; each metric also has its own chart
        if asked.kind in DRAWN:
            found.append(msgspec.to_builtins(asked))
    return found


def curves_payload(
    index: RunIndex, runs: Sequence[str], names: Sequence[str], window: Window
) -> dict[str, Any]:
    """Return curves of some metrics or settings of some runs."""
    found: dict[str, Any] = {}
    shares = []
    for name in runs:
        run = index.open(name)
        if run is None:
            continue
        with run.lock:
            shares.append(run.curves.share_read)
            curves = {one: run.curves.curve(one, window) for one in names}
            is_exact = run.curves.metrics.buckets.stride == 1
        found[name] = {
            one: _stretches_payload(curve) for one, curve in curves.items() if len(curve)
        } | {"": {"exact": is_exact}}
    return {"runs": found, "read": min(shares, default=1.0)}


def _stretches_payload(found: Stretches) -> dict[str, list[float]]:
    payload = {"x": found.x.tolist(), "mean": found.mean.tolist()}
    if (found.low != found.high).any():
        payload |= {"low": found.low.tolist(), "high": found.high.tolist()}
    return payload


def configs_payload(index: RunIndex, runs: Sequence[str]) -> dict[str, Any]:
    """Return the configs of some runs key by key, and the keys in which they differ."""
    configs = {}
    for name in runs:
        directory = index.directory(name)
        if directory is not None:
            configs[name] = read_config(directory)
    keys = dict.fromkeys(key for config in configs.values() for key in config)
    rows = []
    for key in keys:
        values = [config.get(key) for config in configs.values()]
        rows.append({"key": key, "values": values, "differs": len(set(values)) > 1})
    return {"runs": list(configs), "rows": rows}


def read_config(directory: RunDirectory) -> dict[str, str]:
    """Return a run's config with dotted keys, values as they are written in TOML."""
    try:
        values = flatten(parse_toml((read_small(directory.config) or b"").decode()))
    except ValueError:
        return {}
    return {
        key: value if isinstance(value, str) else _written(value) for key, value in values.items()
    }


def _written(value: object) -> str:
    """Return a value as a config file has it, a list of tables included."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 400 else text[:397] + "..."

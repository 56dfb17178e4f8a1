"""What the page is told about runs, as plain values."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from longhaul.runs.directory import RunDirectory
from longhaul.runs.films import film_caption, parse_film_notes
from longhaul.runs.reader import RunState, read_checkpoints
from longhaul.web.curves import Stretches, Window
from longhaul.web.events import Happening, hint_text
from longhaul.web.run_index import Library, OpenRun
from longhaul.web.tail import Shelf, read_small

FILMS = (".mp4", ".gif")
PICTURES = (".png",)
MOST_CHECKPOINTS = 200
DRAWN = ("lines", "overview", "area", "spans")
"""Kinds of panels that show metrics over the run."""


@dataclass(frozen=True, slots=True)
class DrawnPanel:
    """What the page takes of a `longhaul.core.metrics.Panel`, whatever else a version has in it."""

    title: str
    metrics: tuple[str, ...]
    kind: str = "lines"
    right: tuple[str, ...] = ()
    note: str = ""


def tell_run(library: Library, name: str) -> dict[str, Any] | None:
    """Return all of one run but its curves, None if there is no such run."""
    run, entry, state = library.open(name), library.entry(name), library.state(name)
    if run is None or entry is None:
        return None
    found: dict[str, Any] = {"entry": entry, **_tell_read(run, entry)}
    directory = library.directory(name)
    if directory is None or state is None:
        return found
    return {
        **found,
        "record": _tell_record(state),
        "beat": None if state.beat is None else msgspec.to_builtins(state.beat),
        "films": _tell_films(library.shelf, directory),
        "plots": list(library.shelf.files(directory.plots, PICTURES)),
        "checkpoints": _tell_checkpoints(library.shelf, directory),
        "panels": _tell_panels(directory),
    }


def _tell_films(shelf: Shelf, directory: RunDirectory) -> list[dict[str, str]]:
    names = shelf.files(directory.media, FILMS)
    if not names:
        return []  # none, or a folder that leads elsewhere
    notes = parse_film_notes(read_small(directory.film_notes) or b"")
    return [{"name": name, "caption": film_caption(name, notes)} for name in names]


def _resolved(hint: Happening, entry: Mapping[str, Any]) -> str:
    """Return why a hint has had its time; nothing if it still counts."""
    if entry.get("solved"):
        return "the target was reached"
    silent = float(entry["iteration"]) - (hint.iteration or 0.0)
    if hint.iteration is not None and silent > hint.silence:
        return f"not seen again for {silent:,.0f} iterations"
    return ""


def _tell_read(run: OpenRun, entry: Mapping[str, Any]) -> dict[str, Any]:
    with run.lock:
        story, curves = run.story, run.curves
        hints = {**story.session_hints, **story.hints}
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
            "decisions": list(story.decisions),
            "decision_count": story.counts["schedule"],
            "events": [one.as_row() for one in (*story.happenings, *story.sessions)],
            "counts": dict(story.counts + story.session_counts),
            "workers": [
                {"name": name, "kinds": dict(one.kinds), "last": one.last, "time": one.time}
                for name, one in sorted(story.workers.items())
            ],
        }


def _tell_record(state: RunState) -> dict[str, Any]:
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


def _tell_checkpoints(shelf: Shelf, directory: RunDirectory) -> list[dict[str, Any]]:
    if not shelf.holds(directory.checkpoints):
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


def _tell_panels(directory: RunDirectory) -> list[dict[str, Any]]:
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
            continue  # written by another version; every metric has its own chart all the same
        if asked.kind in DRAWN:
            found.append(msgspec.to_builtins(asked))
    return found


def tell_curves(
    library: Library, runs: Sequence[str], names: Sequence[str], window: Window
) -> dict[str, Any]:
    """Return curves of some metrics or settings of some runs."""
    found: dict[str, Any] = {}
    shares = []
    for name in runs:
        run = library.open(name)
        if run is None:
            continue
        with run.lock:
            shares.append(run.curves.share_read)
            curves = {one: run.curves.curve(one, window) for one in names}
            is_exact = run.curves.metrics.buckets.stride == 1
        found[name] = {
            one: _tell_stretches(curve) for one, curve in curves.items() if len(curve)
        } | {"": {"exact": is_exact}}
    return {"runs": found, "read": min(shares, default=1.0)}


def _tell_stretches(found: Stretches) -> dict[str, list[float]]:
    told = {"x": found.x.tolist(), "mean": found.mean.tolist()}
    if (found.low != found.high).any():
        told |= {"low": found.low.tolist(), "high": found.high.tolist()}
    return told


def tell_configs(library: Library, runs: Sequence[str]) -> dict[str, Any]:
    """Return the configs of some runs key by key, and the keys in which they differ."""
    configs = {}
    for name in runs:
        directory = library.directory(name)
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
        return flat(tomllib.loads((read_small(directory.config) or b"").decode()))
    except (ValueError, RecursionError):
        return {}


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested tables with dotted keys."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value if isinstance(value, str) else _written(value)
    return found


def _written(value: object) -> str:
    """Return a value as a config file has it, a list of tables included."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 400 else text[:397] + "..."

"""Films of a run: how their files are named, and what each of them shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longhaul.core.control import Progress
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors

DURING = "evaluation"
"""Part of the names of films of evaluations during training."""
_NAME = re.compile(r"step-(?P<steps>\d+)-(?P<shown>.+?)(-seed\d+)?\.(mp4|gif)")


@dataclass(frozen=True, slots=True)
class FilmNote:
    """What a film shows."""

    file: str
    caption: str


def film_name(steps: int, shown: str, seed: int, suffix: str = "mp4") -> str:
    """Return the name of a film: the steps of its checkpoint come first, so names sort by them."""
    return f"step-{steps:012d}-{shown}-seed{seed}.{suffix}"


def training_film(progress: Progress, rank: int, seed: int) -> str:
    """Return the name of the film of an evaluation during training, the worst episode first."""
    return film_name(progress.env_steps, f"{DURING}-worst-{rank}", seed)


def keep_film_note(run: RunDirectory, film: Path, caption: str) -> None:
    """Record what a film of the run shows; a film outside `media` is ignored."""
    if film.parent != run.media:
        return
    notes = read_film_notes(run)
    notes[film.name] = caption
    kept = [FilmNote(*pair) for pair in sorted(notes.items()) if (run.media / pair[0]).is_file()]
    with storage_errors(run.film_notes):
        content = msgspec.json.format(msgspec.json.encode(kept), indent=1)
        replace_file(run.film_notes, content + b"\n", durable=False)


def read_film_notes(run: RunDirectory) -> dict[str, str]:
    """Return what the films of a run show, by file name."""
    try:
        return parse_film_notes(run.film_notes.read_bytes())
    except OSError:
        return {}


def parse_film_notes(content: bytes) -> dict[str, str]:
    """Return what films show, by file name; empty if the content is damaged."""
    try:
        notes = msgspec.json.decode(content, type=list[FilmNote])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {note.file: note.caption for note in notes}


def film_caption(file: str, notes: Mapping[str, str]) -> str:
    """Return the recorded caption of a film, or one derived from its name."""
    if file in notes:
        return notes[file]
    found = _NAME.fullmatch(file)
    if found is None:
        return file.rpartition(".")[0].replace("_", " ").replace("-", " ").capitalize()
    shown = found["shown"].removeprefix(f"{DURING}-").replace("-", " ")
    during = "evaluation during training, " if found["shown"].startswith(DURING) else ""
    return f"{shown.capitalize()} episode ({during}after {int(found['steps']):,} steps)"

from pathlib import Path

import pytest

from longhaul.core.control import Progress
from longhaul.runs.directory import RunDirectory
from longhaul.runs.films import (
    film_caption,
    film_name,
    keep_film_note,
    parse_film_notes,
    read_film_notes,
    training_film,
)


def test_films_of_one_run_are_named_by_one_scheme() -> None:
    names = [training_film(Progress(3, 96, 2), 1, 7), film_name(96, "worst", 8)]
    assert names == [
        "step-000000000096-evaluation-worst-1-seed7.mp4",
        "step-000000000096-worst-seed8.mp4",
    ]


def test_notes_are_kept_for_the_films_that_are_there(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.media.mkdir()
    for name in ("a.mp4", "b.mp4"):
        (run.media / name).write_bytes(b"film")
        keep_film_note(run, run.media / name, f"shows {name}")
    keep_film_note(run, tmp_path / "elsewhere.mp4", "not in the run")
    assert read_film_notes(run) == {"a.mp4": "shows a.mp4", "b.mp4": "shows b.mp4"}
    (run.media / "a.mp4").unlink()
    keep_film_note(run, run.media / "b.mp4", "shows the worst")
    assert read_film_notes(run) == {"b.mp4": "shows the worst"}


@pytest.mark.parametrize("content", [b"", b"{}", b'[{"file": 3}]', b"[1]", b"\xff"])
def test_damaged_notes_are_none(content: bytes) -> None:
    assert parse_film_notes(content) == {}


@pytest.mark.parametrize(
    ("file", "caption"),
    [
        ("step-000000020480-worst-seed12.mp4", "Worst episode (after 20,480 steps)"),
        (
            "step-000000020480-evaluation-worst-2-seed12.mp4",
            "Worst 2 episode (evaluation during training, after 20,480 steps)",
        ),
        ("survival_curve.gif", "Survival curve"),
        ("noted.mp4", "worst of 50"),
    ],
)
def test_a_film_without_a_note_is_described_by_its_name(file: str, caption: str) -> None:
    assert film_caption(file, {"noted.mp4": "worst of 50"}) == caption

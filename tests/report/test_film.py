"""Films: written frame by frame, read back, and gone without a trace when something fails."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longhaul.report.film import Film, FilmError, Picture, count_frames, encode, even_sided

SIDE = 32


def moving_square(count: int, *, side: int = SIDE) -> Iterator[Picture]:
    for number in range(count):
        picture = np.zeros((side, side, 3), np.uint8)
        picture[:, number % side] = (255, 200, 0)
        yield picture


def broken_encoder(folder: Path, script: str) -> str:
    path = folder / "ffmpeg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def boxes(path: Path) -> list[str]:
    """Return the names of an MP4's outermost boxes, in order."""
    content, names, position = path.read_bytes(), [], 0
    while position < len(content):
        size = int.from_bytes(content[position : position + 4], "big")
        names.append(content[position + 4 : position + 8].decode())
        position += size
    return names


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Film:
    path = tmp_path_factory.mktemp("film") / "square.mp4"
    return encode(moving_square(12), path, frames_per_second=25)


def test_a_film_holds_every_frame_in_a_form_all_browsers_play(film: Film) -> None:
    assert (film.frames, film.width, film.height) == (12, SIDE, SIDE)
    assert film.seconds == pytest.approx(12 / 25)
    assert count_frames(film.path) == 12
    content = film.path.read_bytes()
    assert b"avc1" in content  # H.264
    names = boxes(film.path)
    assert names.index("moov") < names.index("mdat")  # plays while it loads
    assert [path.name for path in film.path.parent.iterdir()] == ["square.mp4"]


def test_a_damaged_film_is_noticed(film: Film, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.mp4"
    content = bytearray(film.path.read_bytes())
    half = content.index(b"mdat") + 8
    content[half:] = bytes(len(content) - half)
    damaged.write_bytes(content)
    with pytest.raises(FilmError, match=r"damaged\.mp4 does not decode"):
        count_frames(damaged)


def test_frames_with_odd_sides_are_padded() -> None:
    padded = even_sided(np.ones((3, 5, 3), np.uint8))
    assert padded.shape == (4, 6, 3)
    assert padded.min() == 1


def test_a_gif_moves_and_plays_for_ever(tmp_path: Path) -> None:
    film = encode(moving_square(6), tmp_path / "square.gif", frames_per_second=10)
    with Image.open(film.path) as found:
        frames = found.n_frames  # type: ignore[attr-defined]
        assert (frames, found.size, found.info["loop"]) == (6, (SIDE, SIDE), 0)
        assert found.info["duration"] == 100
        found.seek(3)
        assert found.convert("RGB").getpixel((3, 5)) == (255, 200, 0)
        assert found.convert("RGB").getpixel((5, 5)) == (0, 0, 0)


@pytest.mark.parametrize("name", ["empty.mp4", "empty.gif"])
def test_a_film_without_frames_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FilmError, match="at least one frame"):
        encode(iter(()), tmp_path / name, frames_per_second=25)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "failed: exit code 3"),
        ("cat > /dev/null; echo 'codec is missing' >&2; exit 1", "codec is missing"),
        ("cat > /dev/null", "does not decode|cannot|failed"),
    ],
)
def test_a_broken_encoder_is_told_in_one_line_and_leaves_nothing(
    tmp_path: Path, script: str, words: str
) -> None:
    media = tmp_path / "media"
    command = broken_encoder(tmp_path, script)
    with pytest.raises(FilmError) as told:
        encode(moving_square(400), media / "a.mp4", frames_per_second=25, command=command)
    assert "\n" not in str(told.value)
    assert command in str(told.value) or script == "cat > /dev/null"
    assert list(media.iterdir()) == []


def test_an_absent_encoder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "nowhere"))
    with pytest.raises(FilmError, match="nowhere"):
        encode(moving_square(2), tmp_path / "a.mp4", frames_per_second=25)


def test_a_frame_of_another_size_ends_the_film(tmp_path: Path) -> None:
    def pictures() -> Iterator[Picture]:
        yield np.zeros((SIDE, SIDE, 3), np.uint8)
        yield np.zeros((SIDE, SIDE * 2, 3), np.uint8)

    with pytest.raises(FilmError, match="the first one was"):
        encode(pictures(), tmp_path / "a.mp4", frames_per_second=25)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_while_frames_are_made_leaves_no_film(tmp_path: Path) -> None:
    def pictures() -> Iterator[Picture]:
        yield from moving_square(3)
        raise RuntimeError("the env fell over")

    with pytest.raises(RuntimeError, match="fell over"):
        encode(pictures(), tmp_path / "a.mp4", frames_per_second=25)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.measures
def test_a_long_film_takes_no_more_memory_than_a_short_one(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    encode(moving_square(50, side=400), tmp_path / "a.mp4", frames_per_second=25)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    encode(moving_square(2000, side=400), tmp_path / "b.mp4", frames_per_second=25)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    record_property("kilobytes more for 2,000 frames than for 50", grown)
    assert grown < 40_000, "kilobytes; all frames together are 960,000"

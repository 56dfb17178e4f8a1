"""Films: frames streamed to an encoder and decoded once before the file gets its name."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style

from longhaul.core.errors import ConfigError, ResourceError

Picture = NDArray[np.uint8]  # [height, width, 3]

MISSING = "films need the extra 'video': pip install 'longhaul-rl[video]'"
QUICK = "me=dia:subme=1:bframes=0:weightp=0:rc-lookahead=5"
"""Two thirds of the time for a quarter more bytes, measured on drawn pictures of 1100 x 800."""


class FilmError(ConfigError):
    """A film cannot be made or does not play."""


@dataclass(frozen=True, slots=True)
class Film:
    """A finished film."""

    path: Path
    frames: int
    width: int
    height: int
    frames_per_second: float

    @property
    def seconds(self) -> float:
        """Playing time."""
        return self.frames / self.frames_per_second


def encode(
    pictures: Iterable[Picture],
    path: Path,
    *,
    frames_per_second: float,
    command: str = "",
    colors: Picture | None = None,
) -> Film:
    """Write pictures as a film, MP4 or GIF by the file's name; `command` is the encoder to use.

    A GIF takes its palette from the picture `colors`, or from its first frame. The file gets its
    name only after all of it was decoded.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.part{path.suffix}")
    frames = map(even_sided, pictures)
    first = next(frames, None)
    if first is None:
        raise FilmError("a film needs at least one frame")
    checked = _of_one_shape(first, frames)
    try:
        if path.suffix.lower() == ".gif":
            film = _write_gif(
                checked, partial, frames_per_second, first if colors is None else colors
            )
        else:
            film = _write_mp4(checked, partial, frames_per_second, command or find_ffmpeg())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return replace(film, path=path)


def find_ffmpeg() -> str:
    """Return the encoder that comes with imageio-ffmpeg, or the one IMAGEIO_FFMPEG_EXE names."""
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        raise FilmError(MISSING) from None
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise FilmError(f"ffmpeg not found ({error}); set IMAGEIO_FFMPEG_EXE to its path") from None


def even_sided(picture: Picture) -> Picture:
    """Return the picture with an even width and height, which H.264 needs."""
    height, width = picture.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def _of_one_shape(first: Picture, rest: Iterable[Picture]) -> Iterator[Picture]:
    for picture in chain([first], rest):
        if picture.shape != first.shape:
            raise FilmError(f"a frame is {picture.shape[:2]}, the first one was {first.shape[:2]}")
        yield picture


def _write_mp4(frames: Iterator[Picture], path: Path, rate: float, command: str) -> Film:
    """Stream frames to ffmpeg as H.264, in a file that browsers can play while it loads."""
    # imageio_ffmpeg.write_frames prints ffmpeg's errors to the terminal and ignores its exit code.
    first = next(frames)
    height, width = first.shape[:2]
    arguments = [
        *("-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"),
        *("-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-", "-an"),
        *("-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p"),
        *("-x264-params", QUICK, "-threads", "2", "-movflags", "+faststart", str(path)),
    ]
    written = 0
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        except OSError as error:
            raise FilmError(f"cannot start the encoder {command}: {error.strerror}") from error
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                for picture in chain([first], frames):
                    pipe.write(np.ascontiguousarray(picture).data.cast("B"))
                    written += 1
        except BrokenPipeError:
            pass  # ffmpeg ended early: its exit code and its message say why
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.wait() != 0:
            errors.seek(0)
            raise _encoder_error(path, command, process.returncode, errors.read())
    decoded = count_frames(path, command)
    if decoded != written:
        raise FilmError(f"only {decoded} of {written} frames can be decoded; check the disk")
    return Film(path, written, width, height, rate)


def _encoder_error(path: Path, command: str, code: int, output: bytes) -> Exception:
    reason = _last_line(output) or f"exit code {code}"
    if "No space left" in reason:
        return ResourceError(f"the disk is full; {path.name} was not written")
    return FilmError(f"the encoder {command} failed: {reason}")


def _write_gif(frames: Iterator[Picture], path: Path, rate: float, colors: Picture) -> Film:
    """Write an endless GIF with one palette; Pillow keeps one byte per pixel of every frame."""
    try:
        from PIL import Image, ImageSequence
    except ModuleNotFoundError:
        raise FilmError(MISSING) from None
    plain = Image.Dither.NONE
    palette = Image.fromarray(colors).quantize(255, dither=plain)
    indexed = (Image.fromarray(frame).quantize(palette=palette, dither=plain) for frame in frames)
    # GIF counts in hundredths of a second, and viewers slow down anything below two.
    hundredths = max(round(100 / rate), 2)
    images = list(indexed)
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=10 * hundredths,
        loop=0,
        optimize=False,
    )
    with Image.open(path) as written:
        shown = 0  # equal frames in a row are stored as one that lasts longer
        for frame in ImageSequence.Iterator(written):
            frame.load()
            shown += frame.info["duration"]
    if shown != 10 * hundredths * len(images):
        raise FilmError(f"{path.name} plays {shown} ms of {10 * hundredths * len(images)}")
    return Film(path, len(images), *images[0].size, 100 / hundredths)


def count_frames(path: Path, command: str = "") -> int:
    """Return the number of frames that can be decoded; decodes all of them."""
    arguments = ["-v", "error", "-i", str(path), "-map", "0:v:0", "-f", "framecrc", "-"]
    done = _run([command or find_ffmpeg(), *arguments])
    if done.returncode != 0 or done.stderr.strip():
        raise FilmError(
            f"{path.name} does not decode: {_last_line(done.stderr) or 'no reason given'}"
        )
    return sum(not line.startswith(b"#") for line in done.stdout.splitlines())


def gif_of(path: Path, *, widest: int = 320, frames_per_second: int = 15) -> bytes:
    """Return a film as a small GIF, for viewers that cannot play MP4."""
    scale = f"fps={frames_per_second},scale='min({widest},iw)':-2"
    done = _run([find_ffmpeg(), "-v", "error", "-i", str(path), "-vf", scale, "-f", "gif", "-"])
    if done.returncode != 0:
        raise FilmError(f"cannot convert {path.name} to GIF: {_last_line(done.stderr)}")
    return done.stdout


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise FilmError(f"cannot start the encoder {command[0]}: {error.strerror}") from error


def _last_line(output: bytes) -> str:
    return (output.decode(errors="replace").strip().splitlines() or [""])[-1]


UPPER_HALF = "▀"


def fit(picture: Picture, *, columns: int, lines: int) -> Picture:
    """Return the picture made smaller by averaging, to at most this many columns and half lines."""
    height, width = picture.shape[:2]
    factor = max(width / columns, height / (2 * lines), 1.0)
    rows = _edges(height, max(round(height / factor) // 2 * 2, 2))
    across = _edges(width, max(round(width / factor), 1))
    sums = np.add.reduceat(
        np.add.reduceat(picture.astype(np.float32), rows[:-1], 0), across[:-1], 1
    )
    areas = np.diff(rows)[:, None, None] * np.diff(across)[None, :, None]
    small: Picture = (sums / areas + 0.5).astype(np.uint8)
    return small


def _edges(length: int, parts: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    edges: np.ndarray[tuple[int], np.dtype[np.int64]] = np.linspace(
        0, length, min(parts, length) + 1
    ).astype(np.int64)
    return edges


def half_blocks(picture: Picture) -> Segments:
    """Return an even number of pixel rows as lines of colored half blocks."""
    segments = []
    for upper, lower in zip(picture[::2], picture[1::2], strict=True):
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            style = Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below))
            segments.append(Segment(UPPER_HALF, style))
        segments.append(Segment.line())
    return Segments(segments)

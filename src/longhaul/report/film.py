"""Films: frames streamed to an encoder one at a time, and read back before they count."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style

from longhaul.core.errors import ConfigError, ResourceError

Picture = NDArray[np.uint8]  # [height, width, 3]

MISSING = "films need the extra 'video': pip install 'longhaul[video]'"


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
        """How long it plays."""
        return self.frames / self.frames_per_second


class FilmEncoder(Protocol):
    """Takes frames one at a time; holds no more than one of them."""

    def add(self, picture: Picture) -> None:
        """Take the next frame; all have one shape."""

    def finish(self) -> Film:
        """Close the file, read it back, and give it its name."""

    def abandon(self) -> None:
        """Stop and leave nothing behind."""


def encode(
    pictures: Iterable[Picture],
    path: Path,
    *,
    frames_per_second: float,
    command: str = "",
    colors: Picture | None = None,
) -> Film:
    """Write pictures as a film, MP4 or GIF by the name; `command` is the encoder to use.

    A GIF takes its colors from the picture `colors`, from its first frame if there is none.
    """
    is_gif = path.suffix.lower() == ".gif"
    path.parent.mkdir(parents=True, exist_ok=True)
    encoder: FilmEncoder = (
        GifEncoder(path, frames_per_second, colors)
        if is_gif
        else Mp4Encoder(path, frames_per_second, command or find_ffmpeg())
    )
    try:
        for picture in pictures:
            encoder.add(even_sided(picture))
        return encoder.finish()
    except BaseException:
        encoder.abandon()
        raise


def find_ffmpeg() -> str:
    """Return the encoder that comes with imageio-ffmpeg, or the one IMAGEIO_FFMPEG_EXE names."""
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        raise FilmError(MISSING) from None
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise FilmError(f"no ffmpeg was found ({error}); name one in IMAGEIO_FFMPEG_EXE") from None


def even_sided(picture: Picture) -> Picture:
    """Return the picture with an even width and height, which H.264 needs."""
    height, width = picture.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


class Mp4Encoder:
    """H.264 in a file that plays while it loads and in every browser."""

    def __init__(self, path: Path, frames_per_second: float, command: str) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.stem}.part.mp4")
        self._rate = frames_per_second
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._shape: tuple[int, int] = (0, 0)
        self._frames = 0

    def add(self, picture: Picture) -> None:
        """Hand one frame to the encoder."""
        if self._process is None:
            self._shape = (picture.shape[0], picture.shape[1])
            self._process = self._start()
        if picture.shape[:2] != self._shape:
            raise FilmError(f"a frame is {picture.shape[:2]}, the first one was {self._shape}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(picture).data.cast("B"))
        except (BrokenPipeError, OSError) as error:
            raise self._failure() from error
        self._frames += 1

    def finish(self) -> Film:
        """Close the file, decode all of it, and give it its name."""
        if self._process is None:
            raise FilmError("a film needs at least one frame")
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError as error:
            raise self._failure() from error
        if self._process.wait() != 0:
            raise self._failure()
        decoded = count_frames(self._beside, self._command)
        if decoded != self._frames:
            raise FilmError(
                f"{self._path.name} holds {decoded} readable frames of {self._frames}; "
                "the encoder or the disk is at fault"
            )
        self._beside.replace(self._path)
        self._complaints.close()
        height, width = self._shape
        return Film(self._path, self._frames, width, height, self._rate)

    def abandon(self) -> None:
        """End the encoder and remove what it wrote."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None and not self._process.stdin.closed:
                _close_quietly(self._process.stdin)
        self._complaints.close()
        self._beside.unlink(missing_ok=True)

    def _start(self) -> subprocess.Popen[bytes]:
        height, width = self._shape
        arguments = [
            *("-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"),
            *("-s", f"{width}x{height}", "-r", f"{self._rate:g}", "-i", "-", "-an"),
            *("-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p"),
            *("-x264-params", QUICK),
            *("-threads", "2", "-movflags", "+faststart", str(self._beside)),
        ]
        try:
            return subprocess.Popen(
                [self._command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
            )
        except OSError as error:
            raise FilmError(
                f"the encoder {self._command} cannot be started: {error.strerror}"
            ) from error

    def _failure(self) -> Exception:
        assert self._process is not None
        code = self._process.wait()
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip().splitlines()
        words = said[-1] if said else f"it ended with {code}"
        if "No space left" in words:
            return ResourceError(f"the disk is full, so that {self._path.name} was not written")
        return FilmError(f"the encoder {self._command} failed: {words}")


class GifEncoder:
    """A GIF with one palette for all frames, taken from one picture or from the first frame."""

    def __init__(self, path: Path, frames_per_second: float, colors: Picture | None = None) -> None:
        try:
            from PIL import Image
        except ModuleNotFoundError:
            raise FilmError(MISSING) from None
        self._image: Any = Image
        self._path = path
        self._beside = path.with_name(f".{path.stem}.part.gif")
        # The format counts in hundredths of a second, and viewers slow down what is below two.
        self._hundredths = max(round(100 / frames_per_second), 2)
        self._palette: Any = None
        if colors is not None:
            self._palette = self._few_colored(Image.fromarray(colors))
        self._file: Any = None
        self._frames = 0
        self._shown: Picture | None = None
        self._size = (0, 0)

    def add(self, picture: Picture) -> None:
        """Append one frame, of which only what differs from the last one is written."""
        from PIL import GifImagePlugin

        rows, columns = _changed(self._shown, picture)
        frame = self._image.fromarray(np.ascontiguousarray(picture[rows, columns]))
        if self._palette is None:
            self._palette = self._few_colored(frame)
        if self._file is None:
            self._file = self._beside.open("wb")
            self._size = frame.size
        indexed = frame.quantize(palette=self._palette, dither=self._image.Dither.NONE)
        if self._frames == 0:
            header, _ = GifImagePlugin.getheader(indexed, info={"loop": 0})
            loop = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
            self._file.write(b"".join(header) + loop)
        place = (columns.start, rows.start)
        data = GifImagePlugin.getdata(indexed, offset=place, duration=self._hundredths * 10)
        self._file.write(b"".join(data))
        self._shown = picture.copy()
        self._frames += 1

    def _few_colored(self, frame: Any) -> Any:
        return frame.quantize(255, dither=self._image.Dither.NONE)

    def finish(self) -> Film:
        """Close the file, read every frame of it, and give it its name."""
        if self._file is None:
            raise FilmError("a film needs at least one frame")
        self._file.write(b";")
        self._file.close()
        readable = 0
        with self._image.open(self._beside) as found:
            for frame in range(found.n_frames):
                found.seek(frame)
                found.load()
                readable += 1
        if readable != self._frames:
            raise FilmError(f"{self._path.name} holds {readable} frames of {self._frames}")
        self._beside.replace(self._path)
        return Film(self._path, self._frames, *self._size, 100 / self._hundredths)

    def abandon(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            self._file.close()
        self._beside.unlink(missing_ok=True)


def _changed(before: Picture | None, after: Picture) -> tuple[slice, slice]:
    """Return the rows and columns of the smallest box that holds every difference."""
    height, width = after.shape[:2]
    if before is None:
        return slice(0, height), slice(0, width)
    differs = (before != after).any(axis=-1)
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(rows):
        return slice(0, 1), slice(0, 1)  # a frame has at least one pixel
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def count_frames(path: Path, command: str = "") -> int:
    """Return how many frames of a film can be decoded; every one of them is."""
    arguments = ["-v", "error", "-i", str(path), "-map", "0:v:0", "-f", "framecrc", "-"]
    done = _run([command or find_ffmpeg(), *arguments])
    if done.returncode != 0 or done.stderr.strip():
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise FilmError(f"{path.name} does not decode: {words[-1] if words else 'no reason given'}")
    return sum(not line.startswith(b"#") for line in done.stdout.splitlines())


def gif_of(path: Path, *, widest: int = 320, frames_per_second: int = 15) -> bytes:
    """Return a film as a small GIF, for viewers that know no films."""
    scale = f"fps={frames_per_second},scale='min({widest},iw)':-2"
    done = _run([find_ffmpeg(), "-v", "error", "-i", str(path), "-vf", scale, "-f", "gif", "-"])
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise FilmError(f"{path.name} makes no GIF: {words[-1] if words else 'no reason given'}")
    return done.stdout


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise FilmError(f"the encoder {command[0]} cannot be started: {error.strerror}") from error


def _close_quietly(stream: Any) -> None:
    try:
        stream.close()
    except OSError:
        return


UPPER_HALF = "▀"


def fit(picture: Picture, *, columns: int, lines: int) -> Picture:
    """Return the picture made smaller by averaging, to at most so many columns and half lines."""
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

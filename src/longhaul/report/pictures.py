"""Pictures as PNG, on disk and in memory."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.report.film import Picture
from longhaul.report.style import MISSING, PlotError


def _image() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise PlotError(MISSING) from None
    return Image


def encode_png(picture: Picture) -> bytes:
    """Return a picture as the content of a PNG."""
    content = io.BytesIO()
    _image().fromarray(picture).save(content, "PNG")
    return content.getvalue()


def read_png(path: Path) -> Picture:
    """Return the picture in a file."""
    with _image().open(path) as found:
        return np.asarray(found.convert("RGB"))

"""The one look of all plots: light, readable when printed small, safe for colour-blind eyes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from longhaul.core.errors import ConfigError

INK, FAINT, GRID = "#1c2733", "#5d6b7a", "#dbe1e8"
CARD = "#f5f7fa"
"""What pictures stand on in a page; nearly white in print."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7684", "#8c5f2e")
"""Okabe and Ito's palette without its yellow, which is lost on white, and two more."""
LIGHT = 0.22
"""Opacity of bands."""
DOTS_PER_INCH = 150

RULES: Any = {
    "font.size": 9.5,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "longhaul",
    "path.simplify": True,
}

MISSING = "plots need the extra 'plots': pip install 'longhaul[plots]'"


class PlotError(ConfigError):
    """Plots cannot be made here."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture that can be drawn when it is wanted."""

    name: str
    """The name of its file."""
    title: str
    draw: Callable[[Any], None]
    """Draws into an empty matplotlib figure."""
    note: str = ""
    size: tuple[float, float] = (6.6, 3.3)
    """Inches."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart in both of its forms."""

    chart: Chart
    png: bytes
    svg: str


def draw(chart: Chart, *, vector: bool = True) -> Drawn:
    """Return the chart as a PNG to print and as an SVG to put into a page, without any display.

    The SVG is left empty if no `vector` form is wanted.
    """
    png, svg = io.BytesIO(), io.StringIO()
    with laid_out(chart) as figure:
        figure.savefig(png, format="png", metadata={"Software": None})
        if vector:
            figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    return Drawn(chart, png.getvalue(), themed(svg.getvalue()))


@contextmanager
def laid_out(chart: Chart) -> Iterator[Any]:
    """Lend the chart as a figure of matplotlib that is ready to be saved or painted."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise PlotError(MISSING) from None
    with mpl.rc_context(RULES):
        figure = Figure(figsize=chart.size, layout="constrained", dpi=DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        figure.suptitle(chart.title, x=0.012, ha="left", fontweight="bold", fontsize=10.5)
        chart.draw(figure)
        # Laid out once: each way of saving would do it anew, which costs more than drawing.
        engine = figure.get_layout_engine()
        assert engine is not None, "the figure was asked for one"
        engine.execute(figure)
        figure.set_layout_engine("none")
        yield figure


_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_THEME = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    CARD: "var(--card)",
}


def themed(svg: str) -> str:
    """Return an SVG as a part of a page: its size and its greys are the page's."""
    svg = _METADATA.sub("", _PROLOGUE.sub("", svg))
    head, closing, rest = svg.partition(">")
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    svg = head + closing + rest
    for colour, variable in _THEME.items():
        svg = svg.replace(colour, variable)
    return svg.strip()


def thousands(value: float, _: object = None) -> str:
    """Return a number of steps as people say it: 20k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"

"""How plots and pages look: colors, axes and the page's style sheet."""

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
"""Background of pictures in a page; nearly white in print."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7684", "#8c5f2e")
"""Okabe and Ito's palette without yellow, which is hard to see on white, and two more."""
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

MISSING = "plots need the extra 'plots': pip install 'longhaul-rl[plots]'"


class PlotError(ConfigError):
    """Plots cannot be made."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart that is drawn on demand."""

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
    """Yield the chart as a matplotlib figure that is ready to be saved or painted."""
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
        # Laid out once: each save would repeat it, which takes longer than drawing.
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
    """Return an SVG as a part of a page: its size and its grays are the page's."""
    svg = _METADATA.sub("", _PROLOGUE.sub("", svg))
    head, closing, rest = svg.partition(">")
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    svg = head + closing + rest
    for color, variable in _THEME.items():
        svg = svg.replace(color, variable)
    return svg.strip()


def thousands(value: float, _: object = None) -> str:
    """Return a number of steps as text: 20k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


STYLE = """
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1c2733;--faint:#5d6b7a;--grid:#dbe1e8;
--card:#f5f7fa;--line:#dbe1e8;--accent:#0072b2;--good:#1c7c3c;--good-card:#e2f3e6;--bad:#b3261e;
--bad-card:#fbe4e2}
@media(prefers-color-scheme:dark){:root{--paper:#12171e;--ink:#e6ebf1;--faint:#9aa7b5;
--grid:#2c3743;--card:#1a212a;--line:#2c3743;--accent:#56b4e9;--good:#7ad295;--good-card:#193222;
--bad:#ff8a80;--bad-card:#3b1d1c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
header,main{max-width:1080px;margin:0 auto;padding:0 24px}
header{padding-top:28px}
h1{font-size:1.7rem;margin:.1em 0;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.2em 0 .6em;border-bottom:1px solid var(--line);padding-bottom:.25em}
h3{font-size:1rem;margin:1.2em 0 .4em}
.kind{margin:0;color:var(--accent);font-weight:600;letter-spacing:.02em}
.path{margin:.2em 0 .8em;color:var(--faint);font-size:.9rem;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.3em 1.2em}
a{color:var(--accent)}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:0 0 1em}
.tile{background:var(--card);border-radius:8px;padding:12px 14px;flex:1 1 140px}
.tile b{display:block;font-size:1.25rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile span,.tile small{display:block;color:var(--faint);font-size:.85rem}
.tile.score{flex:2 1 300px;border-left:5px solid var(--faint)}.tile.score b{font-size:1.9rem}
.tile.good{background:var(--good-card);border-color:var(--good)}.tile.good b{color:var(--good)}
.tile.bad{background:var(--bad-card);border-color:var(--bad)}.tile.bad b{color:var(--bad)}
p{margin:.4em 0;max-width:75ch}
figure{margin:0}
.plots{display:flex;flex-wrap:wrap;gap:20px}
.column{flex:1 1 min(100%,440px);min-width:0;display:flex;flex-direction:column;gap:20px}
.column .plot{flex-grow:1;display:flex;flex-direction:column;justify-content:center}
.plot{background:var(--card);border-radius:8px;padding:14px 16px;break-inside:avoid}
.plot svg{width:100%;height:auto;display:block}
.plot.narrow svg{max-width:420px;margin:0 auto}
.plot.broad{margin-top:20px}
figcaption{color:var(--faint);font-size:.85rem;margin-top:.5em;overflow-wrap:anywhere}
.films{display:flex;flex-wrap:wrap;gap:20px}
.film{flex:1 1 min(100%,440px)}.by3 .film{flex-basis:min(100%,300px)}
.film:only-child{max-width:720px}
video,.film img{width:100%;border-radius:8px;background:#000;display:block}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;margin:.4em 0}
th,td{text-align:left;padding:.32em .9em .32em 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:break-word}
td:first-child{white-space:nowrap}
th{color:var(--faint);font-weight:600;white-space:nowrap}
tr.own td{background:var(--card);font-weight:700}tr.own+tr.own td{font-weight:400}
details{margin:.8em 0}summary{cursor:pointer;color:var(--accent)}
pre{background:var(--card);border-radius:6px;padding:.6em .9em;margin:.2em 0 .9em;
font-size:.88rem;white-space:pre-wrap;overflow-wrap:anywhere}
main{padding-bottom:60px}
@media print{.films,nav{display:none}.plot{break-inside:avoid}details>*{display:block}}
"""

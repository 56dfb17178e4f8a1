"""A run as a small piece of HTML, for notebooks: what happened so far, and its learning curve."""

from __future__ import annotations

from html import escape

from longhaul.report.run_data import RunData
from longhaul.report.statistics import Series, column
from longhaul.report.style import COLORS, FAINT, GRID
from longhaul.report.summary import figure, summary
from longhaul.runs.score import TRAINING_RETURN

WIDTH, HEIGHT, MARGIN = 420, 120, 16


def run_card(run: RunData) -> str:
    """Return the run in a few sentences over its learning curve, without scripts or files."""
    sentences = "".join(f"<br>{escape(sentence)}" for sentence in summary(run))
    curve = column(run.rows, TRAINING_RETURN)
    drawn = f"<br>{_drawn(curve.thinned())}" if len(curve) > 1 else ""
    return f"<div><b>{escape(str(run.directory.path))}</b>{sentences}{drawn}</div>"


def _drawn(curve: Series) -> str:
    """Return the training return over steps as a picture of one line."""
    low, high = float(curve.values.min()), float(curve.values.max())
    across = (curve.steps - curve.steps[0]) / max(float(curve.steps[-1] - curve.steps[0]), 1e-12)
    up = (curve.values - low) / max(high - low, 1e-12)
    points = " ".join(
        f"{MARGIN + x * (WIDTH - 2 * MARGIN):.1f},{HEIGHT - MARGIN - y * (HEIGHT - 2 * MARGIN):.1f}"
        for x, y in zip(across, up, strict=True)
    )
    text = f'font-size="10" fill="{FAINT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" fill="none" '
        f'stroke="{GRID}"/>'
        f'<polyline points="{points}" fill="none" stroke="{COLORS[0]}" stroke-width="1.5"/>'
        f'<text x="4" y="12" {text}>{TRAINING_RETURN} {figure(high)}</text>'
        f'<text x="4" y="{HEIGHT - 4}" {text}>{figure(low)}</text>'
        f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end" {text}>'
        f"{curve.steps[-1]:,.0f} steps</text></svg>"
    )

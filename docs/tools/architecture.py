"""The figure of the packages; `python -m docs.tools.architecture` draws it from the imports."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "longhaul"
FIGURE = ROOT / "docs" / "guide" / "images" / "architecture.svg"
LAYERS = (
    ("cli",),
    ("api",),
    ("app",),
    ("tasks", "cluster", "web", "report"),
    ("engine",),
    ("envs", "learn", "nets", "runs", "schedule", "hints"),
    ("core",),
)
"""From the top: imports point down. The same order is a contract of `lint-imports`."""
WIDTH, BOX, ROW, TOP = 760, 104, 84, 16
IMPORT = re.compile(r"longhaul\.(\w+)")


def package(path: Path) -> str:
    """Return the package of a file: the first folder, or the module at the top."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports() -> Counter[tuple[str, str]]:
    """Return how many import statements lead from one package to another."""
    found: Counter[tuple[str, str]] = Counter()
    for path in SOURCE.rglob("*.py"):
        if "commands" in path.parts:  # a task's commands are part of the command line
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
                if node.module == "longhaul":
                    names = [f"longhaul.{alias.name}" for alias in node.names]
                for name in names:
                    if (match := IMPORT.match(name)) and match[1] != package(path):
                        found[package(path), match[1]] += 1
    return found


def centers() -> dict[str, tuple[float, float]]:
    """Return where each package is drawn."""
    return {
        name: (WIDTH * (column + 0.5) / len(layer), TOP + ROW * row + 22)
        for row, layer in enumerate(LAYERS)
        for column, name in enumerate(layer)
    }


def draw() -> str:
    """Return the figure as SVG: boxes with their lines of code, arrows by number of imports."""
    where = centers()
    lines = Counter[str]()
    for path in SOURCE.rglob("*.py"):
        lines[package(path)] += path.read_bytes().count(b"\n")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + ROW * len(LAYERS)}" '
        'font-family="sans-serif" font-size="13" text-anchor="middle">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="#7a8aa0"/></marker></defs>',
    ]
    for (start, end), count in sorted(imports().items()):
        if start in where and end in where:
            (x1, y1), (x2, y2) = where[start], where[end]
            thick = 0.6 + min(count, 60) / 25
            parts.append(
                f'<path d="M{x1:.0f} {y1 + 18:.0f} L{x2:.0f} {y2 - 20:.0f}" stroke="#7a8aa0" '
                f'stroke-opacity="0.45" stroke-width="{thick:.1f}" marker-end="url(#head)">'
                f"<title>{escape(start)} imports {escape(end)}: {count}</title></path>"
            )
    for name, (x, y) in where.items():
        parts.append(
            f'<rect x="{x - BOX / 2:.0f}" y="{y - 19:.0f}" width="{BOX}" height="38" rx="6" '
            'fill="#eaf2fb" stroke="#3b6ea5"/>'
            f'<text x="{x:.0f}" y="{y - 2:.0f}" font-weight="bold" fill="#12304f">{name}</text>'
            f'<text x="{x:.0f}" y="{y + 13:.0f}" font-size="10.5" fill="#47617d">'
            f"{round(lines[name], -2):,} lines</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    FIGURE.write_text(draw(), encoding="utf-8")
    sys.stdout.write(f"{FIGURE.relative_to(ROOT)}\n")

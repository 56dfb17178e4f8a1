"""Lines and files of the source by package, now and at an earlier commit: `make size`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

SOURCE = "src/longhaul/"
TRAINER = ("core", "engine", "learn", "nets", "schedule")
"""The packages that train; the others surround them."""
Sizes = tuple[Counter[str], Counter[str]]
"""Lines and files by package."""


def git(*arguments: str) -> bytes:
    """Return what git prints."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True).stdout


def package_of(path: str) -> str:
    """Return the first folder below the source, with the task's name for tasks."""
    parts = PurePosixPath(path.removeprefix(SOURCE)).parts
    if len(parts) == 1:
        return "."
    return "/".join(parts[:2]) if parts[0] == "tasks" and len(parts) > 2 else parts[0]


def sizes(commit: str) -> Sizes:
    """Return the sizes at a commit; those of the working tree for an empty name."""
    listing = ("ls-tree", "-r", "--name-only", commit) if commit else ("ls-files",)
    lines, files = Counter[str](), Counter[str]()
    for path in git(*listing, "--", SOURCE).decode().splitlines():
        if path.endswith(".py") and (commit or Path(path).exists()):
            content = git("show", f"{commit}:{path}") if commit else Path(path).read_bytes()
            lines[package_of(path)] += content.count(b"\n")
            files[package_of(path)] += 1
    return lines, files


def table(now: Sizes, then: Sizes) -> str:
    """Return one line for each package, and sums."""
    names = sorted(now[0] | then[0])
    groups: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    groups |= {"the trainer": TRAINER, "everything": tuple(names)}
    rows = [f"{'package':16}{'lines':>8}{'change':>8}{'files':>7}{'change':>8}"]
    for title, members in groups.items():
        cells = [
            (sum(mine[one] for one in members), sum(old[one] for one in members))
            for mine, old in zip(now, then, strict=True)
        ]
        (lines, lines_before), (files, files_before) = cells
        rows.append(
            f"{title:16}{lines:8,}{lines - lines_before:+8,}{files:7,}{files - files_before:+8,}"
        )
    return "\n".join(rows)


def repeated_class_names() -> list[str]:
    """Return the class names that several modules define, with the modules."""
    modules: dict[str, list[str]] = {}
    for path in sorted(Path(SOURCE).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(str(path).removeprefix(SOURCE))
    return [f"  {name}: {', '.join(where)}" for name, where in modules.items() if len(where) > 1]


if __name__ == "__main__":
    since = sys.argv[1] if len(sys.argv) > 1 else "HEAD~"
    sys.stdout.write(f"{table(sizes(''), sizes(since))}\nsince {since}\n")
    repeated = repeated_class_names()
    sys.stdout.write("\n".join([f"class names with two meanings: {len(repeated)}", *repeated, ""]))

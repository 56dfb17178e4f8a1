"""Phrases that readers stumble over: `python -m docs.tools.phrases [PATH ...]` lists them.

`make lint` runs it over everything a person reads. The list is short on purpose: each entry was the
worst sentence of a review, and beside it is what to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
READ = ("src", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples", "benchmarks")
SUFFIXES = (".py", ".md", ".toml", ".js", ".html")
LEFT_OUT = ("docs/tools/phrases.py", "docs/reference/", "web/static/uPlot")
INSTEAD = {
    r"(?<!\.)\b(tell|tells|told|telling)\b": "report, warn, print, log, show",
    r"\bso that\b": "a full stop, or 'so'",
    r"\b(whoever|nobody|somebody)\b": "the component or person that is meant",
    r"\bof (its|their|your|his) own\b": "separate",
    r"\banew\b": "again, from the start",
    r"\bbef(alls?|ell)\b": "happened to",
    r"\bliars?\b": "what was declared wrongly",
    r"(?<!there )(?<!it )\bis no (?!longer|more|t\b|need)\w+": "is not a ...",
    r"\b(can|could|cannot|may) (not )?be had\b": "available, supported, possible",
    r"\b(stands?|stood) (there|in the way)\b": "is, exists",
    r"\bgo(es)? otherwise\b": "differ, diverge",
    r"\bis another one\b": "is different",
    r"\bwithout a word\b": "silently, by default",
    r"\bas if nothing had (been|happened)\b": "exactly the same result",
    r"\bheart beats\b": "heartbeat is recent",
    r"\bis wrong with it\b": "the fault",
}
PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), better) for pattern, better in INSTEAD.items()
)


def texts(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that people read, below these paths."""
    for path in paths:
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            name = str(file.resolve().relative_to(ROOT))
            if file.suffix in SUFFIXES and not any(part in name for part in LEFT_OUT):
                yield file


def findings(paths: Iterable[Path]) -> list[str]:
    """Return one line for every phrase found."""
    return [
        f"{file}:{number}: {found[0]!r}: write {better}"
        for file in texts(paths)
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
        for pattern, better in PATTERNS
        if (found := pattern.search(line))
    ]


if __name__ == "__main__":
    found = findings([Path(one) for one in sys.argv[1:]] or [ROOT / name for name in READ])
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))

"""A sample of what users read: `python -m docs.tools.sample [SEED]` prints 20 of each kind."""

from __future__ import annotations

import ast
import random
import re
import sys
from pathlib import Path

from docs.tools.commands import commands_page
from docs.tools.fields import field_docs

from longhaul.app.build.config import RunConfig
from longhaul.app.build.metrics import GENERAL, TIMINGS
from longhaul.core.config import field_types

ROOT = Path(__file__).parents[2]
EACH = 20


def errors() -> list[str]:
    """Return the texts of all errors raised, with `{...}` for what is filled in."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = node.exc.args[0]
                if isinstance(text, (ast.JoinedStr, ast.Constant)):
                    found.append(re.sub(r"^f?['\"]|['\"]$", "", ast.unparse(text)))
    return found


def helps() -> list[str]:
    """Return what the commands and their options say about themselves."""
    found = []
    for line in commands_page().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) > 1:
            found.append(f"{cells[0]}: {cells[-1]}")
        elif line and line[0].isalpha():
            found.append(line)
    return found


def keys(kind: type, where: str = "") -> list[str]:
    """Return the descriptions of all config keys."""
    found = []
    for name, hint in field_types(kind).items():
        if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
            found += keys(hint, f"{where}{name}.")
        else:
            found.append(f"{where}{name}: {' '.join(field_docs(kind).get(name, '').split())}")
    return found


def sentences() -> list[str]:
    """Return the sentences of the guide, without code and tables."""
    found = []
    for path in sorted((ROOT / "docs" / "guide").glob("*.md")):
        text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", text):
            if not re.match(r"\s*(#|\||-|!|===)", block):
                whole = " ".join(block.split())
                found += [f"{path.stem}: {one}" for one in re.split(r"(?<=[.?!]) ", whole)]
    return [one for one in found if len(one.split()) > 5]


if __name__ == "__main__":
    chosen = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    kinds = {
        "errors": errors(),
        "help texts": helps(),
        "config keys": keys(RunConfig),
        "metrics": [f"{one.name}: {one.meaning}" for one in (*GENERAL, *TIMINGS)],
        "sentences of the guide": sentences(),
    }
    for title, texts in kinds.items():
        sys.stdout.write(f"\n{title} ({len(texts)})\n")
        sys.stdout.writelines(f"- {one}\n" for one in chosen.sample(texts, EACH))

"""What came of a soak, from its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from longhaul.app.build.text import columns

SETTLED_SECONDS = 120.0
"""Age from which a trainer's use counts: it has imported and compiled everything by then."""


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return the faults, how trainers ended, the growth of what they hold, and the verdict."""
    of = {name: [row for row in rows if row["event"] == name] for name in EVENTS}
    faults = Counter(row["kind"] for row in of["fault"])
    endings = Counter(
        f"exit {row['code']}{'' if row['expected'] else ', NOT EXPECTED'}" for row in of["end"]
    )
    result = of["result"][-1]
    blocks = [
        columns([(kind, str(count)) for kind, count in faults.most_common()], header=("fault", "")),
        columns([(end, str(count)) for end, count in endings.most_common()], header=("end", "")),
        columns(growth(of["sample"]), header=("", "first", "last", "growth per hour")),
        f"{len(of['start'])} starts, {len(of['orphan'])} processes that outlived their trainer",
        in_memory(of["sample"]),
        "equal to the undisturbed run, byte for byte"
        if result["equal"]
        else f"NOT equal: {', '.join(result['problems'])}",
    ]
    return "\n\n".join(blocks) + "\n"


EVENTS = ("fault", "end", "sample", "start", "orphan", "result")


def in_memory(samples: Sequence[dict[str, Any]]) -> str:
    """Return what came into /dev/shm since the start, by anyone, and what was ours."""
    new = sorted({name for row in samples for name in row.get("shared_names", ())})
    ours = sorted({name for row in samples for name in row.get("mapped", ())})
    return (
        f"new names in /dev/shm, whoever made them: {', '.join(new) or 'none'}; "
        f"mapped by the trainer or a worker: {', '.join(ours) or 'none'}"
    )


def growth(samples: Sequence[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return first, last and slope of everything measured; of processes, the oldest trainer's."""
    lives: list[list[dict[str, Any]]] = [[]]
    for row in samples:
        if lives[-1] and (row["age"] or 0.0) < (lives[-1][-1]["age"] or 0.0):
            lives.append([])
        lives[-1].append(row)
    oldest = [row for row in max(lives, key=len) if (row["age"] or 0.0) > SETTLED_SECONDS]
    found = []
    for name, unit in (("rss", 1 << 20), ("descriptors", 1), ("threads", 1)):
        shown = f"trainer {name}" + (" MB" if unit > 1 else "")
        found.append(trend(shown, [(row["elapsed"], row[name] / unit) for row in oldest]))
        most = [
            (row["elapsed"], max(one[name] for one in row["workers"]) / unit)
            for row in oldest
            if row["workers"]
        ]
        found.append(trend(shown.replace("trainer", "largest worker"), most))
    for name in ("log_bytes", "crash_bytes"):
        sizes = [(row["elapsed"], row[name] / 1024) for row in samples if name in row]
        found.append(trend(name.replace("_bytes", " KB"), sizes))
    shared = [(row["elapsed"], float(row["shared"])) for row in samples]
    return [*found, trend("new names in /dev/shm", shared)]


def trend(name: str, points: Sequence[tuple[float, float]]) -> tuple[str, str, str, str]:
    """Return first, last and least-squares slope."""
    if len(points) < 3:
        return (name, "-", "-", "too few samples")
    hours, values = np.array(points).T
    slope = np.polyfit(hours / 3600.0, values, 1)[0]
    return (name, f"{values[0]:,.1f}", f"{values[-1]:,.1f}", f"{slope:+,.1f}")

"""Training a task beside the peers it can be compared with: `python -m benchmarks.peers TASK`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import command, mario_training, predecessor, training
from longhaul.app.build.sources import find_kind

ABOUT = "usage: python -m benchmarks.peers TASK [OPTION ...]; -h after the task shows the options"


def main(words: Sequence[str]) -> None:
    """Run the benchmark of the task: beside its predecessor, or beside other trainers."""
    if not words or words[0].startswith("-"):
        command.notify(ABOUT)
        return
    kind = find_kind(words[0])
    if kind.name == "mario":
        mario_training.main([*words, "--peer", "sb3"] if "--peer" not in words else words)
    elif kind.name in predecessor.PREDECESSORS:
        predecessor.main(words)
    else:
        training.main(words)


if __name__ == "__main__":
    command.run(main)

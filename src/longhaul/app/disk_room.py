"""Whether the disk has room for a run's checkpoints, before it trains for the first of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from longhaul.app.config import RunConfig
from longhaul.app.plan import MEGABYTE, memory_plan
from longhaul.core.errors import ResourceError
from longhaul.core.task import Task

LOG_MEGABYTES = 16
"""Room for the logs of a run's first hours."""


def free_bytes(folder: Path) -> int:
    """Return the room that is left on the disk of a folder."""
    return shutil.disk_usage(folder).free


def checkpoint_bytes(config: RunConfig, task: Task) -> int:
    """Return about how large a checkpoint becomes: what a run holds, apart from its rollouts.

    That counts gradients, which are not saved, and leaves out the states of the environments.
    """
    sizes = memory_plan(config, task).sizes
    is_saved = config.learn.replay.saved
    return sum(
        size
        for name, size in sizes.items()
        if name != "rollouts" and (is_saved or not name.startswith("replay"))
    )


def check_disk_room(folder: Path, config: RunConfig, task: Task) -> None:
    """Raise unless two checkpoints and logs fit beside the reserve that must stay free."""
    size = checkpoint_bytes(config, task)
    reserve = config.checkpoint.reserve_megabytes
    needed = 2 * size + (reserve + LOG_MEGABYTES) * MEGABYTE
    free = free_bytes(folder)
    if free < needed:
        raise ResourceError(
            f"{free / MEGABYTE:,.1f} MB are free for {folder}, and this run needs "
            f"{needed / MEGABYTE:,.1f} MB: two checkpoints of about {size / MEGABYTE:,.1f} MB, "
            f"{LOG_MEGABYTES} MB of logs and a reserve of {reserve} MB; free disk space or lower "
            "checkpoint.reserve_megabytes, then start the same command again"
        )

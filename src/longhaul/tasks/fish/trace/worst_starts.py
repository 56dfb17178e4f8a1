"""The starts of the last evaluation's worst episodes, as a tail file to train on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from longhaul.core.run_log import RunLog
from longhaul.tasks.fish.starts import FishStart
from longhaul.tasks.fish.tail.files import TailFile
from longhaul.tasks.fish.tail.items import TailItem
from longhaul.tasks.fish.tail.mix import clusters
from longhaul.tasks.fish.trace.history import PastEvaluation

MOST = 16


def worst_starts(
    log: RunLog, past: PastEvaluation | None, start_of: Callable[[str, int], FishStart | None]
) -> TailFile:
    """Return the episodes that lost most fish beyond the doomed, each weighted by that loss.

    The doomed teach nothing: no action saves them. A school that loses nobody else has no file.
    """
    if past is None:
        return TailFile((), generated_at=log.now, source=log.name)
    doomed = Counter(death.seed for death in past.deaths if not death.avoidable)
    losses = {
        episode["seed"]: len(episode["dead"]) - doomed[episode["seed"]] for episode in past.episodes
    }
    ranked = sorted((seed for seed in losses if losses[seed] > 0), key=lambda seed: -losses[seed])
    items = []
    for seed in ranked[:MOST]:
        start = start_of(past.suite, seed)
        if start is not None:
            provenance = {
                "seed": seed,
                "suite": past.suite,
                "iteration": past.moment.iteration,
                "lost": losses[seed] + doomed[seed],
                "unavoidable": doomed[seed],
            }
            items.append(TailItem(start, float(losses[seed]), provenance=dict(provenance)))
    return TailFile(
        tuple(items),
        generated_at=log.now,
        source=f"{log.name}, {past.suite} at iteration {past.moment.iteration}",
        note="weights are the fish lost that could have been saved",
        clusters=clusters(items),
    )

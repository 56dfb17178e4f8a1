"""A power cut takes at most what was not yet reported as saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.child import Children
from tests.durability.lost_writes import LOSSES, cut_power, moments, record, table
from tests.durability.workload import WORKLOADS

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_power_cut_takes_what_was_saved_or_changes_the_run(
    crew: Children, quick_folder: Path, workload: str
) -> None:
    recording = record(crew, quick_folder, workload)
    cuts = cut_power(crew, quick_folder, recording, moments(recording, 9, 1), 1)
    assert len(cuts) == 9
    assert not [cut for cut in cuts if cut.is_wrong], table(cuts)


@pytest.mark.parametrize("workload", ["simple", "explore", "search"])
def test_a_command_that_never_syncs_folders_is_found(
    crew: Children, quick_folder: Path, workload: str
) -> None:
    recording = record(crew, quick_folder, workload, bug=True)
    last = len(recording.changes) - 1
    cuts = cut_power(crew, quick_folder, recording, [last], 1)
    assert [cut.loss for cut in cuts if cut.is_wrong]
    assert not cuts[LOSSES.index("nothing")].is_wrong


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_three_hundred_power_cuts_lose_nothing_silently(
    crew: Children, quick_folder: Path, workload: str
) -> None:
    recording = record(crew, quick_folder, workload)
    cuts = cut_power(crew, quick_folder, recording, moments(recording, 51, 2), 2)
    assert len(cuts) == 51
    assert not [cut for cut in cuts if cut.is_wrong], table(cuts)

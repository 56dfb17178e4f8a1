"""A power cut takes at most what was not yet reported as saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.child import Children
from tests.durability.lost_writes import LOSSES, cut_power, moments, record, table

pytestmark = pytest.mark.thorough


def test_no_power_cut_takes_a_saved_checkpoint_or_changes_the_run(
    crew: Children, quick_folder: Path
) -> None:
    recording = record(crew, quick_folder)
    cuts = cut_power(crew, quick_folder, recording, moments(recording, 18, 1), 1)
    assert len(cuts) == 18
    assert not [cut for cut in cuts if cut.is_wrong], table(cuts)


def test_a_trainer_that_never_syncs_folders_is_found(crew: Children, quick_folder: Path) -> None:
    recording = record(crew, quick_folder, bug=True)
    last = len(recording.changes) - 1
    cuts = cut_power(crew, quick_folder, recording, [last], 1)
    assert [cut.loss for cut in cuts if cut.is_wrong]
    assert not cuts[LOSSES.index("nothing")].is_wrong


@pytest.mark.slow
def test_three_hundred_power_cuts_lose_nothing_silently(crew: Children, quick_folder: Path) -> None:
    recording = record(crew, quick_folder)
    cuts = cut_power(crew, quick_folder, recording, moments(recording, 300, 2), 2)
    assert len(cuts) == 300
    assert not [cut for cut in cuts if cut.is_wrong], table(cuts)

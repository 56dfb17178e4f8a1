"""Notebooks: filled in by the run, kept as a person wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.report.notebook import HEADINGS, NotebookText, section, write_notebook
from longhaul.report.run_data import RunData, gather
from tests.report.made import made_run

PARTS = (
    "longhaul train gym:CartPole-v1 --name first",  # the exact command
    "Status: finished",
    "| iteration | steps | eval/mean_reward |",
    "| gate | env.wind | 2 | 0.4 | survival was 0.5 |",
    "[plots/learning.png](plots/learning.png)",
    "evaluations/step-000000004000",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return gather(made_run(tmp_path_factory.mktemp("runs")).path)


BACKGROUND = NotebookText(goal="Fewer falls.", plots=("learning",))


def test_a_fresh_notebook_has_every_part_of_a_record(run: RunData) -> None:
    text = write_notebook(run, BACKGROUND)
    positions = [text.index(f"## {heading}\n") for heading in HEADINGS]
    assert positions == sorted(positions)
    for part in PARTS:
        assert part in text
    assert section(text, "Goal") == "Fewer falls."
    assert section(text, "Next steps") == ""


def test_writing_again_changes_nothing(run: RunData) -> None:
    text = write_notebook(run, BACKGROUND)
    assert write_notebook(run, BACKGROUND, text) == text


def test_what_the_run_wrote_is_renewed_and_the_rest_is_kept(run: RunData) -> None:
    text = write_notebook(run, BACKGROUND)
    written = text.replace("_What should be tried next?", "Try a longer pole. _What")
    written = written.replace("## Learning\n", "## Learning\n\nPoles fall.\n")
    again = write_notebook(run, NotebookText(plots=("learning", "speed")), written)
    assert "Try a longer pole." in again
    assert "Poles fall." in again
    assert "Fewer falls." in again
    assert "plots/speed.png" in again
    assert again.count("## Artifacts") == 1


def test_a_filled_in_part_that_a_person_changed_stays(run: RunData) -> None:
    text = write_notebook(run, BACKGROUND)
    line = "| gate | env.wind | 2 | 0.4 | survival was 0.5 |"
    changed = text.replace(line, f"{line}\n\nThe gate opened too early!")
    again = write_notebook(run, BACKGROUND, changed)
    assert "The gate opened too early!" in again
    assert again.count(line) == 2
    assert write_notebook(run, BACKGROUND, again) == again


@settings(max_examples=30)
@given(st.lists(st.text(max_size=40), min_size=4, max_size=4))
def test_whatever_a_person_writes_is_still_there(texts: list[str]) -> None:
    run = _RUN
    text = write_notebook(run, BACKGROUND)
    parts = text.split("\n## ")
    added = [f"{part}\n{words}" for part, words in zip(parts, [*texts, ""] * 5, strict=False)]
    written = "\n## ".join(added)
    again = write_notebook(run, NotebookText(plots=("speed",)), written)
    for words in texts:
        assert words in again


@pytest.fixture(scope="module", autouse=True)
def _keep_run(run: RunData) -> None:
    global _RUN
    _RUN = run


_RUN: RunData


def test_a_run_that_was_cut_off_is_marked_as_not_conclusive(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.record.write_text(run.record.read_text().replace('"finished"', '"stopped"'))
    assert "these results are preliminary" in write_notebook(gather(run.path), BACKGROUND)

"""What a search leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.experiments.search.report import Searched, write_findings
from tests.app.experiments.search.world import World


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """Return a search with a failure in it."""
    return write_findings(World(tmp_path_factory.mktemp("search"), {3: "4"}).search(trials=7))


def test_the_table_ranks_the_trials_and_tells_the_failure(searched: Searched) -> None:
    text = searched.as_text()
    lines = text.splitlines()
    assert searched.findings.best is not None
    assert lines[2].startswith(f"{searched.findings.best.number} *")
    assert "numbers: fate 4" in text
    assert "The best is trial" in text
    assert "longhaul train probe:chase --config" in text


def test_every_number_of_the_table_is_the_study_s(searched: Searched) -> None:
    shown = {trial.number: trial.value for trial in searched.data.trials}
    assert shown == {record.number: record.value for record in searched.findings.records}


def test_the_best_file_trains_with_the_best_values(searched: Searched) -> None:
    assert searched.best_file is not None
    assert searched.findings.best is not None
    config = resolve(ConfigSources("probe:chase", file=searched.best_file))
    assert config.learn.learning_rate == searched.findings.best.params["learn.learning_rate"]
    assert config.learn.n_epochs == searched.findings.best.params["learn.n_epochs"]
    assert config.evaluate.final_episodes > 0


def test_plots_and_page_are_there(searched: Searched) -> None:
    names = {path.stem for path in (searched.page.parent / "plots").glob("*.png")}
    assert names == {
        "search-history", "search-curves", "search-importance", "search-parallel", "search-slices"
    }  # fmt: skip
    page = searched.page.read_text()
    assert page.count("<svg") == len(names)
    assert "numbers: fate 4" in page
    assert "longhaul train probe:chase --config" in page


def test_programs_are_told_everything(searched: Searched) -> None:
    told = json.loads(searched.as_json())
    assert searched.findings.best is not None
    assert told["best"] == searched.findings.best.number
    assert [trial["number"] for trial in told["trials"]] == list(range(7))
    assert told["trials"][3]["failure"] == "numbers"


def test_a_search_without_any_complete_trial_has_no_best_values(tmp_path: Path) -> None:
    searched = write_findings(World(tmp_path, {0: "1"}).search(trials=1))
    assert searched.best_file is None
    assert "1 failed" in searched.as_text()

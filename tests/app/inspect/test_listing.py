"""One line per run, with the number the run is judged by."""

from __future__ import annotations

import json
from pathlib import Path

from longhaul.app.inspect.runs import list_runs
from longhaul.runs.score import Score, Source, write_final_score
from tests.report.made import made_run, metrics, write_lines

FINAL = Score(410.1, "eval/mean_reward", Source.FINAL, 4000, 380.5, 439.7, 50, 475.0)


def listed(root: Path) -> dict[str, object]:
    (line,) = json.loads(list_runs(root, task="", as_json=True))
    return dict(line)


def test_the_score_is_the_final_evaluation(tmp_path: Path) -> None:
    write_final_score(made_run(tmp_path), FINAL)
    line = listed(tmp_path)
    assert (line["score"], line["source"], line["solved"]) == (410.1, "final evaluation", False)
    assert line["interval"] == [380.5, 439.7]
    assert line["best_evaluation"] == 320.0
    assert "410.1 (final)" in list_runs(tmp_path, task="", as_json=False)


def test_a_run_trained_further_shows_its_last_evaluation(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    write_final_score(run, FINAL)
    later = [metrics(number) for number in range(1, 61)]
    write_lines(run.metrics, later)
    line = listed(tmp_path)
    assert (line["score"], line["source"]) == (480.0, "evaluation")
    assert "480 (evaluation)" in list_runs(tmp_path, task="", as_json=False)


def test_a_training_return_is_marked_as_such_and_is_no_evaluation(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    write_lines(run.metrics, [metrics(number) for number in range(1, 10)])
    line = listed(tmp_path)
    assert (line["score"], line["source"], line["solved"]) == (90.0, "training return", None)
    assert line["best_evaluation"] is None
    assert "90 (training)" in list_runs(tmp_path, task="", as_json=False)

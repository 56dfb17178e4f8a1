"""Training logs, ours and the predecessor's, beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.experiments.compare import compare_training
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import RunLog
from longhaul.tasks.nethack.logs import history_of, read_history, summarize_training
from longhaul.tasks.nethack.policy.history import training_log
from tests.app.small import finished_run

THEIRS: dict[str, Any] = {
    "episode_rewards": [1.5, -2.5, 4.0],
    "episode_lengths": [10, 20, 2000],
    "episode_scores": [0, 0, 40],
    "best_reward": 4.0,
    "best_score": 40,
    "config": {"max_steps": 2000, "episodes": 3},
    "monitor_metrics": {"alpha_entropy": [1.3, 1.2, 1.1], "gradient_norm": [1.0, 2.0, 3.0]},
}
"""In the layout of the predecessor's log."""


def ours() -> RunLog:
    def episode(iteration: int, score: float, reason: str) -> dict[str, Any]:
        metrics = {"score": score, "deepest_level": 1.0, "turns": 9.0, "step_cap": 500.0}
        return {
            "iteration": iteration,
            "episode_return": score - 1.0,
            "length": 50,
            "reason": reason,
            "metrics": metrics,
        }

    episodes = [episode(1, 30.0, "death"), episode(2, 12.0, "cap"), episode(2, 6.0, "abort")]
    metrics: list[dict[str, Any]] = [
        {"iteration": 1, "policy/alpha_entropy": 1.0},
        {"iteration": 2},
    ]
    return RunLog("made", metrics, (), {}, episodes=lambda: episodes)


def test_our_games_are_read_both_ways() -> None:
    found = history_of(ours())
    assert found.scores == (30.0, 12.0, 6.0)
    assert found.read_late == (0.0, 12.0, 0.0), "only a game that was cut keeps its score"
    assert found.caps == (500,)
    assert found.entropy == (1.0,)


def test_the_log_of_a_run_is_read_as_the_run_is() -> None:
    again = read_history(json.dumps(training_log(ours(), ())))
    assert again == history_of(ours())


@pytest.mark.parametrize(
    ("changed", "entropy"),
    [
        ({}, (1.3, 1.2, 1.1)),
        ({"monitor_metrics": {}, "alpha_entropies": [1.3]}, (1.3,)),
        ({"monitor_metrics": None}, ()),
    ],
    ids=["nested", "flat", "none"],
)
def test_logs_of_all_layouts_are_read(changed: dict[str, Any], entropy: tuple[float]) -> None:
    found = read_history(json.dumps({**THEIRS, **changed}))
    assert found.read_late == (0.0, 0.0, 40.0)
    assert (found.rewards, found.lengths) == ((1.5, -2.5, 4.0), (10, 20, 2000))
    assert found.scores == ()
    assert found.caps == (2000,)
    assert found.entropy == entropy


def test_a_row_says_what_the_log_does_not_hold() -> None:
    row = summarize_training("score")(json.dumps(THEIRS))
    assert row.cells["score"] == "not in the log"
    assert row.cells["score read late"].startswith("13.33 [")
    assert (row.cells["cap"], row.cells["games"], row.cells["best"]) == ("2000", "3", "40")
    assert any("0 for every game that ended by itself" in note for note in row.notes)
    assert any("no paired difference" in note for note in row.notes)
    assert any("different caps cannot be compared" in note for note in row.notes)
    own = summarize_training("shaped")(ours())
    assert own.cells["score"].startswith("16 [")
    assert own.cells["score read late"].startswith("4 [")
    assert any("shaped reward" in note for note in own.notes)
    assert (
        "not in the log"
        in summarize_training("score")(json.dumps({**THEIRS, "config": 3})).cells["cap"]
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no training log"),
        ("[1, 2]", "holds a list"),
        ("{}", "has no list 'episode_scores'"),
        (json.dumps({**THEIRS, "episode_lengths": [1]}), "have 3, 3 and 1 values"),
        (json.dumps({**THEIRS, "episode_scores": [1, None, 2]}), r"episode_scores\[1\] is None"),
        (json.dumps({**THEIRS, "episode_scores": [1, float("nan"), 2]}), "is nan, not a number"),
        (json.dumps({key: [] for key in THEIRS}), "not a single game"),
        ("[" * 100_000, "no training log"),
    ],
    ids=["json", "list", "empty", "uneven", "null", "nan", "no game", "deep"],
)
def test_a_foreign_file_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        summarize_training("score")(text)
    assert str(refused.value).startswith("no training log: ")
    assert "\n" not in str(refused.value)


@pytest.mark.nethack
def test_a_run_is_compared_with_the_predecessors_log(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path,
        "options.network=plain",
        "options.max_steps=16",
        "env.runtime=serial",
        task="nethack",
    )
    log = tmp_path / "training_log.json"
    log.write_text(json.dumps(THEIRS))
    found = compare_training([run.path], [log])
    text = found.as_text()
    assert [line.split()[0] for line in text.splitlines()[2:4]] == [run.path.name, str(log)]
    assert "no paired difference" in text
    assert json.loads(found.as_json())[str(log)]["cells"]["games"] == "3"
    with pytest.raises(ConfigError, match="name one to compare it with"):
        compare_training([], [log])
    log.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"training_log\.json cannot be read"):
        compare_training([run.path], [log])
    log.write_text("{}")
    with pytest.raises(ConfigError, match=r"training_log\.json is no training log: it has no list"):
        compare_training([run.path], [log])


def test_a_task_without_such_logs_refuses_them(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    log = tmp_path / "training_log.json"
    log.write_text(json.dumps(THEIRS))
    with pytest.raises(ConfigError, match="reads no logs of other programs"):
        compare_training([run.path], [log])

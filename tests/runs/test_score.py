from pathlib import Path

import pytest

from longhaul.runs.directory import RunDirectory
from longhaul.runs.score import (
    Measure,
    Score,
    Source,
    last_score,
    read_final_score,
    read_measure,
    write_final_score,
)

FINAL = Score(410.1, "eval/mean_reward", Source.FINAL, 20480, 380.5, 439.7, 50, 475.0)


def test_a_final_score_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert read_final_score(directory) is None
    write_final_score(directory, FINAL)
    assert read_final_score(directory) == FINAL


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"value": "high"}', b"\xff"])
def test_a_damaged_final_score_is_none(tmp_path: Path, content: bytes) -> None:
    directory = RunDirectory(tmp_path)
    directory.evaluations.mkdir()
    directory.final_score.write_bytes(content)
    assert read_final_score(directory) is None


def test_the_final_evaluation_comes_before_evaluations_and_these_before_training_returns() -> None:
    trained = {"env_steps": 10240, "rollout/ep_rew_mean": 100.0}
    evaluated = {"env_steps": 15360, "rollout/ep_rew_mean": 120.0, "eval/mean_reward": 300.0}
    last = {"env_steps": 20480, "rollout/ep_rew_mean": 136.2}

    def source(rows: list[dict[str, float]], final: Score | None) -> Source | None:
        found = last_score(rows, final, Measure())
        return found.source if found else None

    assert source([], None) is None
    assert source([trained], None) is Source.TRAINING
    assert source([trained, evaluated, last], None) is Source.EVALUATION
    assert source([trained, evaluated, last], FINAL) is Source.FINAL


def test_a_final_evaluation_is_out_of_date_once_the_run_was_trained_further() -> None:
    rows = [{"env_steps": 30720, "rollout/ep_rew_mean": 150.0}]
    found = last_score(rows, FINAL, Measure())
    assert found == Score(150.0, "rollout/ep_rew_mean", Source.TRAINING, 30720)
    assert found is not None
    assert found.is_solved is None
    assert FINAL.is_solved is False


def test_an_evaluation_during_training_has_its_target_and_its_interval() -> None:
    row = {
        "env_steps": 8,
        "eval/mean_reward": 400.0,
        "eval/std_reward": 50.0,
        "eval/episodes": 25.0,
    }
    found = last_score([row], None, Measure(target=475.0, suite="fresh"))
    assert found is not None
    assert (found.value, found.source, found.is_solved) == (400.0, Source.EVALUATION, False)
    assert [found.low, found.high] == pytest.approx([380.4, 419.6])
    assert found.suite == "fresh"
    assert found.interval == "95 % confidence interval of the mean, 25 episodes: 380.4 to 419.6"


def test_a_spread_of_returns_is_no_interval_of_another_metric() -> None:
    row = {"env_steps": 8, "eval/score": 0.5, "eval/std_reward": 50.0, "eval/episodes": 25.0}
    found = last_score([row], None, Measure("eval/score"))
    assert found is not None
    assert (found.value, found.low, found.interval) == (0.5, None, "")


@pytest.mark.parametrize(
    ("panels", "config", "measure"),
    [
        (
            b'{"score": "eval/score", "target": 0.9, "suite": "train"}',
            b"",
            ("eval/score", 0.9, "train"),
        ),
        (b'{"suite": "train"}', b'[evaluate]\nsuite = "v38"\n', ("eval/mean_reward", None, "v38")),
        (b"{", b"a = [", ("eval/mean_reward", None, "")),
        (b'{"score": 7}', b"evaluate = 3", ("eval/mean_reward", None, "")),
    ],
)
def test_a_run_says_what_it_is_measured_by(
    panels: bytes, config: bytes, measure: tuple[str, float | None, str]
) -> None:
    assert read_measure(panels, config) == Measure(*measure)

"""The commands over what a run left behind."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from longhaul.app.evaluation.agent import load_exported
from longhaul.app.evaluation.load import Run
from longhaul.app.session.run import run_session
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import QUIET, finished_run, flags, small_config, stopped_run
from tests.cli.conftest import Longhaul, everything_in


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(tmp_path_factory.mktemp("logs"))


@pytest.fixture
def run(trained: RunDirectory, tmp_path: Path) -> RunDirectory:
    return RunDirectory(shutil.copytree(trained.path, tmp_path / "run"))


def test_metrics_shows_a_digest(longhaul: Longhaul, run: RunDirectory) -> None:
    outcome = longhaul("metrics", run.path, "--select", "train/*,rollout/ep_rew_mean")
    assert outcome.code == 0
    assert "train/loss" in outcome.out
    assert "3 iterations" in outcome.out
    assert "time/fps" not in outcome.out


def test_metrics_as_csv_and_json_hold_every_iteration(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    logged = read_rows(run.metrics).rows
    table = longhaul("metrics", run.path, "--select", "train/loss", "--csv").out
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [float(row["train/loss"]) for row in rows] == [row["train/loss"] for row in logged]
    assert list(rows[0]) == ["iteration", "env_steps", "episodes", "train/loss"]
    found = json.loads(longhaul("metrics", run.path, "--last", "2", "--json").out)
    assert [row["iteration"] for row in found] == [2, 3]
    assert found[0]["train/loss"] == logged[1]["train/loss"]
    assert "time/fps" in found[0]


def test_metrics_names_the_nearest_of_an_unknown_one(longhaul: Longhaul, run: RunDirectory) -> None:
    outcome = longhaul("metrics", run.path, "--select", "train/los")
    assert outcome.code == 2
    assert "did you mean 'train/loss'" in outcome.problem


def test_tail_shows_the_end_of_a_log(longhaul: Longhaul, run: RunDirectory) -> None:
    lines = longhaul("tail", run.path, "-n", "2").out.splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("iteration 3  96 steps")
    last = json.loads(longhaul("tail", run.path, "--log", "sessions", "-n", "1", "--json").out)
    assert last["event"] == "finished"


def test_tail_follows_a_finished_run_to_its_end_and_returns(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    outcome = longhaul("tail", run.path, "--follow", "-n", "1")
    assert outcome.code == 0
    assert len(outcome.out.splitlines()) == 1


def test_tail_refuses_a_log_there_is_none_of(longhaul: Longhaul, run: RunDirectory) -> None:
    assert "did you mean 'metrics'" in longhaul("tail", run.path, "--log", "metric").problem


def test_a_sound_run_needs_no_repair(longhaul: Longhaul, run: RunDirectory) -> None:
    before = everything_in(run.path)
    found = json.loads(longhaul("repair", run.path, "--json").out)
    assert found["sound"]
    after = everything_in(run.path)
    assert {n: c for n, c in after.items() if n != "lock"} == {
        n: c for n, c in before.items() if n != "lock"
    }


def damage(run: RunDirectory) -> list[dict[str, Any]]:
    """Garble the metrics, and return the rows they should have again."""
    rows = read_rows(run.metrics).rows
    lines = run.metrics.read_bytes().split(b"\n")[:-1]
    second = {name: value for name, value in rows[1].items() if name != "env_steps"}
    content = b"\n".join(
        [lines[0], b"\x00\xffgarbage", json.dumps(second).encode(), lines[0], lines[2]]
    )
    run.metrics.write_bytes(content)  # the last line lost its end
    return rows


def test_repair_tells_first_and_changes_nothing(longhaul: Longhaul, run: RunDirectory) -> None:
    damage(run)
    before = run.metrics.read_bytes()
    found = json.loads(longhaul("repair", run.path, "--json").out)
    assert not found["sound"]
    assert not found["applied"]
    told = found["logs"]["metrics"]
    assert (told["garbage"], told["doubles"], told["torn"], told["backfilled"]) == (1, 1, True, 1)
    assert run.metrics.read_bytes() == before


def test_repair_mends_backs_up_and_notes_what_it_computed(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    rows = damage(run)
    before = run.metrics.read_bytes()
    found = json.loads(longhaul("repair", run.path, "--apply", "--json").out)
    mended = read_rows(run.metrics)
    assert mended.skipped == 0
    assert [row["iteration"] for row in mended.rows] == [1, 2, 3]
    audit = mended.rows[1].pop("backfilled")
    assert "num_envs (2)" in audit["env_steps"]
    assert mended.rows == rows
    (backup,) = found["backups"]
    assert Path(backup).read_bytes() == before
    assert json.loads(longhaul("repair", run.path, "--json").out)["sound"]


def test_a_repaired_run_goes_on(longhaul: Longhaul, tmp_path: Path) -> None:
    run = stopped_run(tmp_path, iterations=2)
    run.metrics.write_bytes(run.metrics.read_bytes() + b"{torn")
    assert longhaul("repair", run.path, "--apply").code == 0
    assert run_session(run, small_config(), QUIET).exit_code == 0
    assert [row["iteration"] for row in read_rows(run.metrics).rows] == [1, 2, 3]


def test_an_exported_policy_acts_as_the_checkpoint_does(
    longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    out = tmp_path / "policy"
    outcome = longhaul("export", run.path, "--out", out, "--no-onnx", "--json")
    assert outcome.code == 0
    exported = load_exported(out)
    original = Run(run).agent("latest")
    obs = {name: torch.randn(5, *part.shape) for name, part in _observation(exported).items()}
    ours = exported.policy.act(obs, {}, exported.settings)
    theirs = original.policy.act(obs, {}, original.settings)
    assert torch.equal(ours.action, theirs.action)
    assert torch.equal(ours.value, theirs.value)
    card = json.loads((out / "policy.json").read_text())
    assert card["source"]["checkpoint"] == list_checkpoints(run.checkpoints)[0].name


def _observation(exported: Any) -> Any:
    return exported.task.envs.spec.observation


def test_a_changed_export_is_refused(longhaul: Longhaul, run: RunDirectory, tmp_path: Path) -> None:
    out = tmp_path / "policy"
    longhaul("export", run.path, "--out", out, "--no-onnx")
    content = bytearray((out / "policy.safetensors").read_bytes())
    content[-1] ^= 1
    (out / "policy.safetensors").write_bytes(content)
    outcome = longhaul(
        "train",
        "gym:CartPole-v1",
        *flags(f"start_from={out}"),
        "--runs-root",
        tmp_path / "runs",
        "--quiet",
    )
    assert outcome.code == 5


@pytest.mark.thorough
@pytest.mark.parametrize("core", ["none", pytest.param("gru", marks=pytest.mark.slow)])
def test_the_onnx_graph_computes_the_same(core: str, longhaul: Longhaul, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run = finished_run(tmp_path, f"policy.core={core}")
    found = json.loads(longhaul("export", run.path, "--json").out)
    assert "equal on 20 random batches" in found["onnx"]
    assert (Path(found["folder"]) / "policy.onnx").stat().st_size > 0


def weights_of(run: RunDirectory) -> dict[str, torch.Tensor]:
    return Run(run).agent("latest").policy.state_dict()


@pytest.mark.parametrize("prefix", ["", "_orig_mod.", "module._orig_mod."])
def test_foreign_weights_find_their_places(
    prefix: str, longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    weights = weights_of(run)
    file, out = tmp_path / "their.pt", tmp_path / "policy"
    torch.save({"model": {prefix + n: w for n, w in weights.items()}, "global_step": 7}, file)
    arguments = ("import-torch", file, "--task", "gym:CartPole-v1", *flags(), "--out", out)
    found = json.loads(longhaul(*arguments, "--json").out)
    assert found["is_complete"]
    assert found["was_compiled"] == ("_orig_mod" in prefix)
    assert set(found["matched"]) == set(weights)
    loaded = load_exported(out).policy.state_dict()
    assert all(torch.equal(loaded[name], part) for name, part in weights.items())


def test_what_does_not_match_is_told_and_nothing_is_written(
    longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    weights = weights_of(run)
    first, *others = weights
    changed = {
        **{n: weights[n] for n in others},
        first: torch.zeros(3),
        "extra.bias": torch.ones(2),
    }
    file, out = tmp_path / "their.pt", tmp_path / "policy"
    torch.save(changed, file)
    arguments = ("import-torch", file, "--task", "gym:CartPole-v1", *flags())
    found = json.loads(longhaul(*arguments, "--json").out)
    assert found["unexpected"] == ["extra.bias"]
    assert found["reshaped"][0].startswith(first)
    refused = longhaul(*arguments, "--out", out)
    assert refused.code == 2
    assert not out.exists()
    assert longhaul(*arguments, "--out", out, "--partial").code == 0


def test_names_can_be_mapped(longhaul: Longhaul, run: RunDirectory, tmp_path: Path) -> None:
    weights = {f"actor_critic.{name}": part for name, part in weights_of(run).items()}
    file = tmp_path / "their.pt"
    torch.save(weights, file)
    arguments = ("import-torch", file, "--task", "gym:CartPole-v1", *flags(), "--json")
    assert json.loads(longhaul(*arguments).out)["matched"] == []
    assert json.loads(longhaul(*arguments, "--map", "actor_critic.=").out)["is_complete"]


def test_code_in_a_foreign_file_is_never_run(longhaul: Longhaul, tmp_path: Path) -> None:
    file = tmp_path / "their.pt"
    torch.save(nn.Linear(2, 2), file)  # a whole module, which unpickling would have to build
    outcome = longhaul("import-torch", file, "--task", "gym:CartPole-v1")
    assert outcome.code == 2
    assert "no code of it was run" in outcome.problem


def test_imported_weights_begin_a_run(
    longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    file, out = tmp_path / "their.pt", tmp_path / "policy"
    torch.save(weights_of(run), file)
    longhaul("import-torch", file, "--task", "gym:CartPole-v1", *flags(), "--out", out)
    begun = longhaul(
        "train",
        "gym:CartPole-v1",
        *flags(f"start_from={out}"),
        "--runs-root",
        tmp_path / "runs",
    )
    assert begun.code == 0
    assert "starting with the weights of" in begun.err


def test_inspecting_a_checkpoint_tells_hashes_and_parameters(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    path = list_checkpoints(run.checkpoints)[0]
    facts = json.loads(longhaul("inspect", path, "--json").out)
    assert set(facts["hashes"]) == set(facts["parts"])
    weights = weights_of(run)
    assert facts["parameters"]["count"] == sum(part.numel() for part in weights.values())
    assert set(facts["parameters"]["tensors"]) == set(weights)

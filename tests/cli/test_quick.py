"""Mistakes and lists are answered without waiting for torch, which takes seconds to import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CALLS = (
    ["trian"],
    ["train"],
    ["train", "--nope"],
    ["train", "gym:CartPole-v1", "--total-timesteps", "abc"],
    ["train", "gym:CartPole-v1", "--total-timesteps", "0"],
    ["train", "CartPole-v1"],
    ["train", "chess"],
    ["train", "gym"],
    ["train", "gym:Nope-v0"],
    ["train", "gym:CartPole-v1", "--preset", "fast"],
    ["train", "gym:CartPole-v1", "--config", "nowhere.toml"],
    ["train", "gym:CartPole-v1", "--set", "lern.epochs=3"],
    ["train", "gym:CartPole-v1", "--set", "learn.n_epochs=three"],
    ["train", "gym:CartPole-v1", "--set", "options.kwarg.a=3"],
    ["train", "fish", "--set", "learn.discount=0.9"],
    ["train", "mario", "--set", "options.reward.deth=1"],
    ["train", "nethack", "--preset", "fast"],
    ["train", "probe:recall", "--set", "options.delay=-1"],
    ["config", "fish", "--set", "lern.epochs=3"],
    ["config", "gym:CartPole-v1"],
    ["tasks"],
    ["runs", "--runs-root", "nowhere"],
    ["inspect", "nowhere"],
    ["resume", "nowhere"],
    ["evaluate", "nowhere"],
    ["report", "nowhere"],
    ["watch", "nowhere"],
    ["verify-resume", "gym:CartPole-v1", "--set", "lern.epochs=3"],
    ["compare", "nowhere", "elsewhere"],
    ["compare", "fish", "mario", "--arms", "a,b"],
    ["search", "chess"],
    ["search", "fish", "--preset", "nothing"],
)

PROGRAM = """
import contextlib, io, json, sys
from longhaul.cli.main import main

found = []
for call in json.loads(sys.argv[1]):
    sys.argv = ["longhaul", *call]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            main()
    found.append("torch" in sys.modules)
print(json.dumps(found))
"""


def test_mistakes_and_lists_are_answered_without_torch(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CALLS)],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = json.loads(done.stdout.splitlines()[-1])
    assert [call for call, took in zip(CALLS, imported, strict=True) if took] == []

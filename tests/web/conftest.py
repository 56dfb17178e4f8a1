"""A folder with two runs and a server for it, shared by the tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.runs.films import keep_film_note
from tests.web.made import Site, made_run, served


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "runs"
    run = made_run(folder)
    made_run(folder, name="second", seed=4, scale=2.0)
    run.media.mkdir()
    (run.media / "worst.mp4").write_bytes(bytes(range(256)) * 8)
    keep_film_note(run, run.media / "worst.mp4", "Worst of 3 episodes")
    run.plots.mkdir()
    (run.plots / "learning.png").write_bytes(b"\x89PNG")
    (folder.parent / "secret.txt").write_text("the secret")
    (folder.parent / "secret.mp4").write_text("the secret")
    return folder


@pytest.fixture(scope="module")
def site(root: Path) -> Iterator[Site]:
    with served(root) as found:
        yield found

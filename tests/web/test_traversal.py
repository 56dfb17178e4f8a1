"""Two hundred ways to ask for a file outside the runs, none of which reads anything."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from longhaul.web.files import RunsFolder
from tests.web.made import NOON, Site, made_run, served

RUN = f"gym-cartpole-v1/{NOON:%Y%m%d-%H%M%S}-first-s3"
UP = ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..\\", "..%5c", "%252e%252e%252f", "....//",
      "..;/", "..%c0%af", "..%00/", "%c0%ae%c0%ae/", ".%2e/", "..//", "..%ef%bc%8f")  # fmt: skip
TARGETS = ("secret.txt", "secret.mp4", "etc/passwd")
PREFIXES = ("/static/", f"/files/media/{RUN}/", "/files/media/", "/files/", "/")


def payloads() -> list[str]:
    found = [
        f"{prefix}{up * depth}{target}"
        for prefix, up, target, depth in itertools.product(PREFIXES, UP, TARGETS[1:], (3, 6))
    ]
    found += [f"/api/run?run={up * 2}{target}" for up in UP for target in TARGETS]
    found += [f"/api/configs?run={up * 2}" for up in UP]
    found += [f"/files/media/{up}x/{RUN}/worst.mp4" for up in UP]
    found += [f"/files/{kind}/{RUN}/worst.mp4" for kind in ("..", ".", "", "crash", "checkpoints")]
    found += [f"/files/media/{RUN}/{name}" for name in ("run.json", ".", "..", "worst.mp4%00", "*")]
    found += [
        "//etc/passwd",
        "/%2fetc/passwd",
        "/files/media//etc/passwd/x/y",
        "/static//etc/passwd",
    ]
    found += ["/static/../pages.py", "/static/%2e%2e/pages.py", "/static/__init__.py"]
    return found


def test_there_are_two_hundred_different_payloads() -> None:
    assert len(set(payloads())) >= 200


def test_no_payload_reads_a_file_outside_the_runs(site: Site) -> None:
    whole = site.ask(f"/files/media/{RUN}/worst.mp4").body
    for path in payloads():
        answer = site.ask(path)
        told = answer.body
        assert b"the secret" not in told, path
        assert b"root:" not in told, path
        assert b"import annotations" not in told, path
        assert told != whole, path
        is_empty_config = path.startswith("/api/configs") and answer.json["rows"] == []
        assert answer.status in (400, 404, 405) or is_empty_config, path


@pytest.mark.parametrize("what", ["run", "task", "media", "film", "log", "record", "config"])
def test_links_that_lead_out_of_the_runs_are_not_followed(tmp_path: Path, what: str) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    inner = made_run(root)
    other = made_run(outside, task="foreign", name="foreign")
    other.media.mkdir()
    (other.media / "foreign.mp4").write_bytes(b"the secret")
    links = {
        "run": (root / "gym-cartpole-v1" / "link", other.path),
        "task": (root / "foreign", outside / "foreign"),
        "media": (inner.media, other.media),
        "film": (inner.media / "foreign.mp4", other.media / "foreign.mp4"),
        "log": (inner.metrics, other.metrics),
        "record": (inner.record, other.record),
        "config": (inner.config, other.config),
    }
    place, target = links[what]
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    name = f"gym-cartpole-v1/{inner.path.name}"
    with served(root) as site:
        paths = [
            "/api/runs", f"/api/run?run={name}", f"/api/configs?run={name}",
            f"/api/curves?run={name}&name=train/loss", f"/files/media/{name}/foreign.mp4",
            "/files/media/gym-cartpole-v1/link/foreign.mp4",
            f"/files/media/foreign/{other.path.name}/foreign.mp4",
            f"/api/run?run=foreign/{other.path.name}",
        ]  # fmt: skip
        for path in paths:
            answer = site.ask(path)
            assert b"the secret" not in answer.body
            assert b"foreign" not in answer.body, path
    if what == "log":
        assert answer.status == 404


def test_links_within_the_runs_are_followed(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    (tmp_path / "alias").symlink_to(run.path.parent)
    found = RunsFolder(tmp_path.resolve()).runs()
    assert set(found) == {f"gym-cartpole-v1/{run.path.name}", f"alias/{run.path.name}"}


def test_a_link_to_itself_and_a_pipe_hold_nothing_up(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.media.symlink_to(run.media)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    run.heartbeat.unlink(missing_ok=True)
    os.mkfifo(run.heartbeat)
    os.mkfifo(run.panels)
    with served(tmp_path) as site:
        assert site.ask(f"/api/run?run=gym-cartpole-v1/{run.path.name}").status == 200

"""Rows of older versions are read under the present names."""

from __future__ import annotations

from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import SCHEMA, read_schema, upgraded, write_schema

RENAMED = {2: {"train/l": "train/loss"}, 3: {"train/loss": "train/total_loss"}}


def test_a_run_without_a_schema_is_of_the_first(run: RunDirectory) -> None:
    assert read_schema(run) == 1
    run.schema.write_text("{garbage")
    assert read_schema(run) == 1


def test_the_version_is_read_back(run: RunDirectory) -> None:
    write_schema(run, {"schema": SCHEMA, "metrics": {}})
    assert read_schema(run) == SCHEMA


def test_every_version_is_carried_on_to_the_present() -> None:
    row = {"iteration": 1, "train/l": 0.5, "other": 1.0}
    assert upgraded(row, 1, RENAMED) == {"iteration": 1, "train/total_loss": 0.5, "other": 1.0}


def test_present_rows_are_left_alone() -> None:
    row = {"train/l": 0.5}
    assert upgraded(row, SCHEMA, RENAMED) is row
    assert upgraded(row, SCHEMA + 1, RENAMED) is row

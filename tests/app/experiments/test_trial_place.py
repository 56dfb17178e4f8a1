"""Where runs are trained side by side."""

from __future__ import annotations

from typing import Any

import pytest

from longhaul.app.experiments.jobs import HERE, Child, TrialPlace
from longhaul.cluster.connect import ClusterError
from longhaul.core.errors import ConfigError


@pytest.mark.parametrize("changes", [{"jobs": 0}, {"cpus_per_job": 0.0}])
def test_a_place_without_room_is_a_mistake(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        TrialPlace(**changes)


def test_without_a_cluster_runs_are_processes_of_this_machine() -> None:
    HERE.check()
    with HERE.open() as launch:
        assert launch is Child


def test_a_cluster_that_does_not_answer_is_told_before_anything_begins() -> None:
    with pytest.raises(ClusterError, match="cannot be reached"):
        TrialPlace("127.0.0.1:1").check()

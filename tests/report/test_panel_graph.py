from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.core.metrics import Panel
from longhaul.report.panels import panel_chart
from longhaul.report.run_data import RunData, gather
from longhaul.report.style import draw
from tests.report.made import made_run

PANEL = Panel(
    "Rules", ("conditions", "operator", "effects", "expert"), "graph", records="rules.jsonl"
)
RULES = [
    {"conditions": ["hungry", "food"], "operator": "eat", "effects": ["fed"], "expert": "calm"},
    {"conditions": ["foe"], "operator": "attack", "effects": ["won", "hurt"], "expert": "brave"},
]


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    return gather(made_run(tmp_path).path)


def test_rules_are_drawn_with_all_their_names(run: RunData) -> None:
    chart = panel_chart(replace(run, records={"rules.jsonl": list(RULES)}), PANEL)
    assert chart is not None
    picture = draw(chart)
    for name in ("hungry", "food", "foe", "eat", "attack", "fed", "won", "hurt", "calm", "brave"):
        assert f"<!-- {name} -->" in picture.svg or f">{name}<" in picture.svg


def test_a_run_without_rules_has_no_picture_of_them(run: RunData) -> None:
    assert panel_chart(run, PANEL) is None

"""The table of speeds."""

from __future__ import annotations

import json

from longhaul.app.bench.table import Section, Speeds, SpeedTable, ratio


def test_speeds_ratios_sections_and_notes_follow_the_conditions() -> None:
    ours, theirs = (
        Speeds("ours", (300.0, 200.0, 400.0), (1000.0,) * 3),
        Speeds("theirs", (100,) * 3),
    )
    found = SpeedTable(
        "gym:X",
        "under these conditions",
        (ours, theirs),
        {"ours / theirs": ratio(ours.per_second, theirs.per_second)},
        (Section(("cost", "ms"), [("call", "0.5")]), Section(("nothing",), [])),
        ("a note",),
        {"more": 1},
    )
    lines = [line.split() for line in found.as_text().splitlines() if line]
    assert lines[0] == ["under", "these", "conditions"]
    assert ["ours", "300", "1,000", "300", "200", "400"] in lines
    assert ["ours", "/", "theirs", "3.00", "3.00", "2.00", "4.00"] in lines
    assert ["call", "0.5"] in lines
    assert ["nothing"] not in lines
    assert lines[-1] == ["a", "note"]
    told = json.loads(found.as_json())
    assert told["ratios"] == {"ours / theirs": [3.0, 2.0, 4.0]}
    assert told["steps_per_cpu_second"] == {"ours": [1000.0] * 3}
    assert told["more"] == 1
    assert found["theirs"] is theirs

"""How what a user writes is read."""

from __future__ import annotations

import pytest

from longhaul.cli.options import seconds_of
from longhaul.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400), ("0.5h", 1800)]
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2 hours", "1h30"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="invalid duration"):
        seconds_of(text)

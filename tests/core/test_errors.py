from __future__ import annotations

import pytest

from longhaul.core import errors
from longhaul.core.errors import EXIT_CODES, LonghaulError, suggestion


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.LonghaulError, 1),
        (errors.ConfigError, 2),
        (errors.EnvError, 3),
        (errors.NumericalError, 4),
        (errors.CheckpointError, 5),
        (errors.ResourceError, 6),
        (errors.LockedError, 7),
    ],
)
def test_every_error_has_its_documented_exit_code(kind: type[LonghaulError], code: int) -> None:
    assert issubclass(kind, LonghaulError)
    assert kind("words").exit_code == code


def test_every_exit_code_of_an_error_is_explained() -> None:
    assert {kind.exit_code for kind in LonghaulError.__subclasses__()} <= set(EXIT_CODES)


def test_a_near_name_is_suggested() -> None:
    assert suggestion("epoch", ["epochs", "seed"]) == "; did you mean 'epochs'?"


def test_a_far_name_is_not() -> None:
    assert suggestion("zzz", ["epochs", "seed"]) == ""
    assert suggestion("epoch", []) == ""

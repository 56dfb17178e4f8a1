from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from longhaul.tasks.mario.console import layout


def stamp_in(folder: Path) -> int:
    """Return the stamp of the modules of a folder, by a copy of the module that makes it."""
    spec = importlib.util.spec_from_file_location("copied_native", folder / "layout.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stamp: int = module.console_stamp()
    return stamp


def test_the_stamp_changes_with_any_module_of_the_folder(tmp_path: Path) -> None:
    shutil.copy(layout.__file__, tmp_path / "layout.py")
    (tmp_path / "kernels.py").write_text("ONE = 1\n")
    first = stamp_in(tmp_path)
    assert stamp_in(tmp_path) == first
    (tmp_path / "kernels.py").write_text("ONE = 2\n")
    assert stamp_in(tmp_path) != first


def test_the_stamp_fits_a_constant_of_native_code() -> None:
    assert 0 <= layout.console_stamp() < 2**63

"""Libraries in C that stand between a process and the system; gcc compiles them when needed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent


def compiler() -> str | None:
    """Return the C compiler of this machine, if it has one."""
    return shutil.which("gcc") or shutil.which("cc")


def library(name: str) -> Path:
    """Return the compiled library; it is kept under the digest of its source."""
    source = FOLDER / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"longhaul-test-{name}-{digest}.so"
    if not target.exists():
        found = compiler()
        if found is None:
            raise RuntimeError(f"{source.name} needs gcc: install it, or leave this test out")
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder) / target.name
            flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(built)]
            subprocess.run([found, *flags, str(source), "-ldl", "-lpthread"], check=True)
            shutil.copy(built, target.with_suffix(".new"))
        target.with_suffix(".new").rename(target)
    return target

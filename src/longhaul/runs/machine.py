"""Facts about the machine and the versions a run was made with."""

from __future__ import annotations

import os
import platform
import socket
from importlib import metadata
from pathlib import Path

import psutil

_PACKAGES = ("gymnasium", "longhaul", "numpy", "safetensors", "torch")


def installed_versions() -> dict[str, str]:
    """Return the versions that a bit-exact repetition depends on; an absent package is left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def host_facts() -> dict[str, str]:
    """Return what kind of machine this is."""
    return {
        "name": socket.gethostname(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": str(os.cpu_count() or 1),
        "memory_bytes": str(psutil.virtual_memory().total),
    }


def boot_id() -> str:
    """Return a name for the time since the last boot, so that an old pid is not taken for ours."""
    path = Path("/proc/sys/kernel/random/boot_id")
    if path.exists():
        return path.read_text().strip()
    return f"boot-{psutil.boot_time():.0f}"

"""The main path of one training: our frames from `main` to the loop, and the files it runs.

    python -m benchmarks.main_path [TASK] [options of longhaul train]

A file counts if one of its functions is called in the trainer's process, other than while modules
are imported.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import longhaul
from longhaul.cli.main import main

SOURCE = f"{Path(longhaul.__file__).parent}/"
LOOP = (f"{SOURCE}engine/loop.py", "train")


def own_frames(frame: FrameType | None) -> list[str]:
    """Return our functions on the stack, outermost first."""
    frames = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(SOURCE):
            frames.append(f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}")
        frame = frame.f_back
    return frames[::-1]


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported further out on the stack."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(SOURCE):
            return True
        frame = frame.f_back
    return False


def measure(arguments: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Train; return the frames from `main` to the loop, files up to its end, and after."""
    files: set[str] = set()
    trained: set[str] = set()
    to_loop: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "return" and (code.co_filename, code.co_name) == LOOP:
            trained.update(files)
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        if not to_loop and (code.co_filename, code.co_name) == LOOP:
            to_loop.extend(own_frames(frame))
        if code.co_filename not in files and not is_importing(frame):
            files.add(code.co_filename)

    sys.argv = ["longhaul", "train", *arguments]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return to_loop, shown(trained), shown(files - trained)


def shown(files: set[str]) -> list[str]:
    """Return the files relative to the source, sorted."""
    return sorted(name.removeprefix(SOURCE) for name in files)


if __name__ == "__main__":
    frames, trained, after = measure(sys.argv[1:] or ["fish"])
    lines = [f"frames from main to the loop: {len(frames)}", *(f"  {one}" for one in frames)]
    lines += [f"files up to the end of the loop: {len(trained)}", *(f"  {one}" for one in trained)]
    lines += [f"files for evaluation, films, report: {len(after)}", *(f"  {one}" for one in after)]
    sys.stdout.write("\n".join(lines) + "\n")

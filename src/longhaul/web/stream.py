"""News of the runs for pages that are open: one look a second, whoever watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool

from longhaul.web.library import Library

LOOK_SECONDS = 1.0
PING_LOOKS = 10
"""After so many looks without news a line goes out all the same, to notice who left."""
MOST_LISTENERS = 64

logger = logging.getLogger(__name__)


class News:
    """Tells all open pages which lines of the list changed; looks only while somebody listens."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._told: dict[str, bytes] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more pages can listen."""
        return len(self._listeners) >= MOST_LISTENERS

    async def listen(self, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield server-sent events until the page leaves or the server ends."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=32)
        self._listeners.add(queue)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            entries = await run_in_threadpool(self._library.entries)
            yield b"retry: 1000\n" + event("all", entries)
            silent = 0
            while not is_over():
                try:
                    yield await asyncio.wait_for(queue.get(), LOOK_SECONDS)
                    silent = 0
                except TimeoutError:
                    silent += 1
                    if silent % PING_LOOKS == 0:
                        yield b": still here\n\n"
        finally:
            self._listeners.discard(queue)

    async def _look(self) -> None:
        """Look for changes while there are listeners; one that does not read is told to go."""
        while self._listeners:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                changed, gone = await run_in_threadpool(self._changes)
            except OSError:
                logger.warning("the runs cannot be read at the moment", exc_info=True)
                continue
            if not (changed or gone):
                continue
            message = event("changed", {"runs": changed, "gone": gone})
            for queue in tuple(self._listeners):
                if queue.full():
                    self._listeners.discard(queue)
                else:
                    queue.put_nowait(message)

    def _changes(self) -> tuple[list[dict[str, Any]], list[str]]:
        entries = self._library.entries()
        found = {str(entry["id"]): msgspec.json.encode(entry) for entry in entries}
        changed = [entry for entry in entries if self._told.get(entry["id"]) != found[entry["id"]]]
        gone = [name for name in self._told if name not in found]
        self._told = found
        return changed, gone


def event(kind: str, content: object) -> bytes:
    """Return one server-sent event; JSON has no line breaks, so its data is one line."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"

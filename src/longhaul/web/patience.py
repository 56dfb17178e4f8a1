"""Deadlines for the page's clients: one that asks or reads too slowly loses its connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may take."""

    request_seconds: float = 20.0
    """For a whole request, however its bytes are spread."""
    read_seconds: float = 30.0
    """Without reading any of an answer that waits for it."""
    most_connections: int = 400
    """Open at once; further ones are answered with 503. Most systems allow 1,024 descriptors."""


USUAL = Patience()


class DeadlineProtocol(H11Protocol):
    """A connection with one deadline at a time: for the rest of a request, or to read on.

    A connection without a request under way ends by uvicorn's limit for those kept alive.
    """

    def __init__(self, patience: Patience, **given: Any) -> None:
        super().__init__(**given)
        self._patience = patience
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect(self._patience.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; more parts do not extend its deadline."""
        super().data_received(data)
        if self.transport.is_closing():
            self._expect(self._patience.read_seconds)
        elif not self._is_answering:
            self._expect(self._patience.request_seconds)
        elif not self.flow.write_paused:
            self._relax()

    def on_response_complete(self) -> None:
        """Let the client read the rest of its answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect(self._patience.read_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without requests; what is left to read must be read in time."""
        super().timeout_keep_alive_handler()
        self._expect(self._patience.read_seconds)

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._relax()
        self._expect(self._patience.read_seconds)

    def resume_writing(self) -> None:
        """Go on with an answer that is being read."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._relax()

    @property
    def _is_answering(self) -> bool:
        # uvicorn declares the cycle as always present; it is None until the first request.
        cycle = cast("Any", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _expect(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def with_deadlines(patience: Patience) -> type[asyncio.Protocol]:
    """Return what makes a connection, as uvicorn takes it."""
    return cast("type[asyncio.Protocol]", partial(DeadlineProtocol, patience))

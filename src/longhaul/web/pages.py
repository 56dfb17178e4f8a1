"""The web application: pages, their files, runs as JSON, films, live changes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import mimetypes
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from longhaul.web.curves import Axis, Window
from longhaul.web.guard import AccessRules, RequestGuard
from longhaul.web.payloads import FILMS, PICTURES, configs_payload, curves_payload, run_payload
from longhaul.web.run_index import RunIndex

LOOK_SECONDS = 1.0
PING_LOOKS = 10
"""After this many looks without changes a comment is sent, to notice pages that left."""
MOST_LISTENERS = 64

logger = logging.getLogger(__name__)


class News:
    """Sends all open pages the changed entries of the list; runs only while a page listens."""

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._sent: dict[str, bytes] = {}
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
            entries = await run_in_threadpool(self._index.entries)
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
        """Look for changes while there are listeners; one that does not read is dropped."""
        while self._listeners:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                changed, gone = await run_in_threadpool(self._changes)
            except OSError:
                logger.warning("cannot read the runs at the moment", exc_info=True)
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
        entries = self._index.entries()
        found = {str(entry["id"]): msgspec.json.encode(entry) for entry in entries}
        changed = [entry for entry in entries if self._sent.get(entry["id"]) != found[entry["id"]]]
        gone = [name for name in self._sent if name not in found]
        self._sent = found
        return changed, gone


def event(kind: str, content: object) -> bytes:
    """Return one server-sent event; JSON has no line breaks, so its data is one line."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"


MOST_RUNS = 12
MOST_NAMES = 60
POINTS = (16, 2000)
AXES = ("steps", "iteration", "seconds")
PAGES = {"/": "index.html", "/run": "run.html"}


class Assets:
    """The files of the page itself, read once; a name that is not among them is not found."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[bytes, str, str]] = {}
        for entry in files("longhaul.web").joinpath("static").iterdir():
            if entry.is_file():
                content = entry.read_bytes()
                kind = mimetypes.guess_type(entry.name)[0] or "text/plain"
                kind = "text/javascript" if entry.name.endswith(".js") else kind
                self._held[entry.name] = (content, kind, hashlib.sha256(content).hexdigest()[:20])

    def answer(self, request: Request, name: str) -> Response:
        """Return a file, or 304 if the browser has it."""
        if name not in self._held:
            return not_found()
        content, kind, digest = self._held[name]
        headers = {"ETag": f'"{digest}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)


class Pages:
    """Answers requests from the run index."""

    def __init__(
        self, index: RunIndex, zoo: Sequence[Mapping[str, Any]], is_over: Callable[[], bool]
    ) -> None:
        self._index = index
        self._zoo = list(zoo)
        self._news = News(index)
        self._assets = Assets()
        self._is_over = is_over

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            *(Route(path, self.page) for path in PAGES),
            Route("/static/{name}", self.asset),
            Route("/api/runs", self.runs),
            Route("/api/run", self.run),
            Route("/api/curves", self.curves),
            Route("/api/configs", self.configs),
            Route("/api/zoo", self.zoo),
            Route("/api/news", self.news),
            Route("/files/{kind}/{task}/{run}/{name}", self.file),
        ]

    async def page(self, request: Request) -> Response:
        """Return an HTML page."""
        return self._assets.answer(request, PAGES[request.url.path])

    async def asset(self, request: Request) -> Response:
        """Return a style sheet or a script."""
        return self._assets.answer(request, request.path_params["name"])

    async def runs(self, request: Request) -> Response:
        """Return the list of runs."""
        entries = await run_in_threadpool(self._index.entries)
        return as_json({"root": self._index.folder.root.name, "runs": entries})

    async def run(self, request: Request) -> Response:
        """Return one run."""
        name = request.query_params.get("run", "")
        found = await run_in_threadpool(run_payload, self._index, name)
        return not_found() if found is None else as_json(found)

    async def curves(self, request: Request) -> Response:
        """Return curves of runs."""
        query = request.query_params
        window = read_window(query)
        runs, names = query.getlist("run")[:MOST_RUNS], query.getlist("name")[:MOST_NAMES]
        if window is None:
            return PlainTextResponse("invalid over, from, to or points\n", 400)
        return as_json(await run_in_threadpool(curves_payload, self._index, runs, names, window))

    async def configs(self, request: Request) -> Response:
        """Return configs side by side."""
        runs = request.query_params.getlist("run")[:MOST_RUNS]
        return as_json(await run_in_threadpool(configs_payload, self._index, runs))

    async def zoo(self, request: Request) -> Response:
        """Return the cards of the zoo."""
        return as_json(self._zoo)

    async def news(self, request: Request) -> Response:
        """Return a stream of changes."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._news.is_full:
            return PlainTextResponse("too many pages are open\n", 503)
        return StreamingResponse(self._news.listen(self._is_over), media_type="text/event-stream")

    async def file(self, request: Request) -> Response:
        """Return a film or a plot, any range of it."""
        parts = cast("dict[str, str]", request.path_params)
        path = await run_in_threadpool(self._find_file, parts)
        if path is None:
            return not_found()
        return FileResponse(path, headers={"Cache-Control": "no-cache"})

    def _find_file(self, parts: dict[str, str]) -> str | None:
        directory = self._index.directory(f"{parts['task']}/{parts['run']}")
        if directory is None:
            return None
        folders = {"media": (directory.media, FILMS), "plots": (directory.plots, PICTURES)}
        if parts["kind"] not in folders:
            return None
        found = self._index.folder.files(*folders[parts["kind"]]).get(parts["name"])
        return None if found is None else str(found)


def make_app(
    index: RunIndex,
    rules: AccessRules,
    zoo: Sequence[Mapping[str, Any]] = (),
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> Starlette:
    """Return the application; streams end when `is_over` returns True."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        index.start()
        try:
            yield
        finally:
            await run_in_threadpool(index.close)

    return Starlette(
        routes=Pages(index, zoo, is_over).routes(),
        middleware=[Middleware(RequestGuard, rules)],
        lifespan=lifespan,
    )


def read_window(query: QueryParams) -> Window | None:
    """Return the part of a run a request asks for, None if it is invalid."""
    over = query.get("over", "steps")
    try:
        begin, end = (float(query[name]) if name in query else None for name in ("from", "to"))
        points = int(query.get("points", "400"))
    except ValueError:
        return None
    if over not in AXES or not all(place is None or math.isfinite(place) for place in (begin, end)):
        return None
    return Window(cast("Axis", over), begin, end, min(max(points, POINTS[0]), POINTS[1]))


def as_json(content: Any) -> Response:
    """Return JSON; a number that is not finite is null."""
    return Response(msgspec.json.encode(content), media_type="application/json")


def not_found() -> Response:
    """Return status 404."""
    return PlainTextResponse("not found\n", 404)

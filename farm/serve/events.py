"""Server-sent events: each client is told which units have changed since it was last told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from farm.serve.rendering import unit_row
from farm.serve.service import service_of
from farm.serve.watcher import Snapshot, UnitWatcher, WatchedUnit

POLL_S = 0.5
ALIVE_S = 15.0  # a comment each, so that nothing between takes the connection for dead
RETRY_MS = 2000


def events(request: Request) -> StreamingResponse:
    """Changed units as members, for programs."""
    return _stream(request, lambda unit: unit.members)


def page_events(request: Request) -> StreamingResponse:
    """Changed units as rows of the page's table."""
    return _stream(request, unit_row)


def _stream(request: Request, shown: Callable[[WatchedUnit], Any]) -> StreamingResponse:
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    watcher = service_of(request).watcher
    # The number of a look means nothing to another process: a client that saw a later one is told all.
    version = int(after) if after.isdecimal() and int(after[:18]) <= watcher.snapshot.version else 0
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_changes(watcher, version, shown), media_type="text/event-stream", headers=headers)


async def _changes(watcher: UnitWatcher, version: int, shown: Callable[[WatchedUnit], Any]) -> AsyncIterator[str]:
    """Events after a look, for as long as the client listens; what would say the same again is left out."""
    yield f"retry: {RETRY_MS}\n\n"
    told: dict[str, Any] = {}
    before: tuple[object, ...] = ()
    silent_s = 0.0
    while True:
        snapshot = watcher.snapshot
        if snapshot.version > version:
            fresh = {unit.report.unit.name: shown(unit) for unit in snapshot.changed_since(version)}
            changed = {name: value for name, value in fresh.items() if told.get(name) != value}
            told |= changed
            version, others = snapshot.version, (list(snapshot.units), snapshot.error)
            if changed or others != before:
                yield _event(snapshot, changed)
                before, silent_s = others, 0.0
        if silent_s >= ALIVE_S:
            yield ": alive\n\n"
            silent_s = 0.0
        await asyncio.sleep(POLL_S)
        silent_s += POLL_S


def _event(snapshot: Snapshot, units: dict[str, Any]) -> str:
    data = {"version": snapshot.version, "names": list(snapshot.units), "units": units, "error": snapshot.error}
    return f"id: {snapshot.version}\nevent: units\ndata: {json.dumps(data, allow_nan=False)}\n\n"

"""Server-sent events: each client is told which units and jobs have changed since it was last told."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from farm.cluster.queue import JobReport
from farm.serve.json_answers import job_members
from farm.serve.page_answers import person_of
from farm.serve.rendering import job_row, unit_row
from farm.serve.service import FarmService, service_of
from farm.serve.watcher import QueueSnapshot, Snapshot, WatchedUnit

POLL_S = 0.5
ALIVE_S = 15.0  # a comment each, so that nothing between takes the connection for dead
RETRY_MS = 2000


@dataclasses.dataclass(frozen=True)
class Shown:
    """How units and jobs are told of."""

    unit: Callable[[WatchedUnit], Any]
    job: Callable[[JobReport], Any]


def events(request: Request) -> StreamingResponse:
    """Changed units and jobs as members, for programs."""
    return _stream(request, Shown(lambda unit: unit.members, job_members))


def page_events(request: Request) -> StreamingResponse:
    """Changed units and jobs as rows of the page's tables."""
    service = service_of(request)
    can_cancel = bool(person_of(service, service.sessions.of(request.cookies)))
    return _stream(request, Shown(lambda unit: unit_row(unit, service.base), lambda job: job_row(job, can_cancel)))


def _stream(request: Request, shown: Shown) -> StreamingResponse:
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    service = service_of(request)
    # The number of a look means nothing to another process: a client that saw a later one is told all.
    is_known = after.isdecimal() and int(after[:18]) <= service.watcher.snapshot.version
    headers = {"X-Accel-Buffering": "no"}
    changes = _changes(service, int(after) if is_known else 0, shown)
    return StreamingResponse(changes, media_type="text/event-stream", headers=headers)


async def _changes(service: FarmService, version: int, shown: Shown) -> AsyncIterator[str]:
    """Events after a look, for as long as the client listens; what would say the same again is left out."""
    yield f"retry: {RETRY_MS}\n\n"
    units, jobs = _UnitEvents(shown, version), _JobEvents(shown)
    silent_s = 0.0
    while True:
        for event in (units.after(service.watcher.snapshot), jobs.after(service.queue.snapshot)):
            if event:
                yield event
                silent_s = 0.0
        if silent_s >= ALIVE_S:
            yield ": alive\n\n"
            silent_s = 0.0
        await asyncio.sleep(POLL_S)
        silent_s += POLL_S


class _Told:
    """What a client was told; only what differs is told again."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._others: tuple[object, ...] = ()

    def event(self, kind: str, version: int, values: dict[str, Any], names: Collection[str], error: str) -> str:
        """An event of values that changed, the names of all that are there, and what is wrong; empty: nothing new."""
        changed = {name: value for name, value in values.items() if self._values.get(name) != value}
        others = (list(names), error)
        if not changed and others == self._others:
            return ""
        self._values |= changed
        self._others = others
        data = {"version": version, "names": list(names), kind: changed, "error": error}
        number = f"id: {version}\n" if kind == "units" else ""
        return f"{number}event: {kind}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


class _UnitEvents:
    def __init__(self, shown: Shown, version: int) -> None:
        self._shown, self._version, self._told = shown, version, _Told()

    def after(self, snapshot: Snapshot) -> str:
        if snapshot.version <= self._version:
            return ""
        fresh = {unit.report.unit.name: self._shown.unit(unit) for unit in snapshot.changed_since(self._version)}
        self._version = snapshot.version
        return self._told.event("units", snapshot.version, fresh, snapshot.units, snapshot.trouble)


class _JobEvents:
    def __init__(self, shown: Shown) -> None:
        self._shown, self._version, self._told = shown, 0, _Told()

    def after(self, snapshot: QueueSnapshot) -> str:
        if snapshot.version == self._version:
            return ""
        self._version = snapshot.version
        rows = {job.name.id: self._shown.job(job) for job in snapshot.jobs}
        return self._told.event("jobs", snapshot.version, rows, rows, snapshot.error)

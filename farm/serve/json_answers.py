"""The API: what the page shows, as JSON. openapi.py describes it."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from farm.cluster.queue import JobReport
from farm.nightly.night import SeriesReport
from farm.nightly.notification import verdict_members
from farm.report import charts
from farm.safe_text import one_line
from farm.serve.all_results import ShownArtifact, all_artifacts, all_reports
from farm.serve.openapi import description
from farm.serve.run_view import run_view
from farm.serve.service import FarmService, http_status, service_of
from farm.store.recent import RunProgress
from runtime.errors import ConfigError, FarmError

Answer = Callable[[FarmService, Request], Any]
MAX_SERIES = 50


def answered(answer: Answer) -> Callable[[Request], Response]:
    """An endpoint that answers with JSON, errors included."""

    def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(answer(service_of(request), request))
        except FarmError as error:
            return problem(str(error), http_status(error))

    return endpoint


def problem(text: str, status: int) -> JSONResponse:
    """An error as JSON."""
    return JSONResponse({"error": {"message": one_line(text)}}, status)


def units(service: FarmService, _request: Request) -> Any:
    """All units."""
    snapshot = service.watcher.snapshot
    return {
        "time": snapshot.time,
        "error": snapshot.error,
        "hosts": dict(snapshot.hosts),
        "units": [unit.members for unit in snapshot.units.values()],
    }


def one_unit(service: FarmService, request: Request) -> Any:
    """A unit with its health, temperatures and newest rows."""
    unit = service.unit(request.path_params["name"])
    health = service.source.health(unit.report.unit)
    return {
        **unit.members,
        "health": health.model_dump(mode="json"),
        "temperatures": service.watcher.temperatures(unit.report.unit.name),
        "rows": service.results.unit_rows(unit.report.unit.name),
    }


def jobs(service: FarmService, _request: Request) -> Any:
    """The queue of the cluster."""
    snapshot = service.queue.snapshot
    return {"error": snapshot.error, "jobs": [job_members(job) for job in snapshot.jobs]}


def job_members(job: JobReport) -> dict[str, Any]:
    """A job as JSON members, as `farm jobs list --json` has them."""
    return {**dataclasses.asdict(job.name), "tasks": [dataclasses.asdict(task) for task in job.tasks]}


def runs(service: FarmService, _request: Request) -> Any:
    """The runs that go on, and the newest ones."""
    recent = [dataclasses.asdict(run) for run in service.results.runs()]
    return {"running": [_progress(each) for each in service.results.running()], "runs": recent}


def one_run(service: FarmService, request: Request) -> Any:
    """A run with its results in words and the paths of its files."""
    run = service.results.run(request.path_params["run"])
    view = run_view(service.results.run_rows(run.id))
    results = [dataclasses.asdict(line) for line in view.lines]
    return {**dataclasses.asdict(run), "results": results, "files": list(view.files)}


def _progress(progress: RunProgress) -> dict[str, Any]:
    return {**dataclasses.asdict(progress.run), "rows": progress.rows, "last_row": _last_row(progress)}


def _last_row(progress: RunProgress) -> dict[str, str] | None:
    names = ("unit", "model", "status", "time")
    return {name: getattr(progress, name) for name in names} if progress.rows else None


def night(service: FarmService, request: Request) -> Any:
    """The verdict of the latest night, or of the latest of a name; and which names there are."""
    judged = service.results.night(request.query_params.get("name", ""))
    if judged is None:
        return {"night": None}
    report = f"/reports/{judged.report}/" if judged.report else ""
    latest = [{"name": run.name, "run": run.id, "host": run.host} for run in service.results.nights()]
    return {"night": verdict_members(judged.night, report), "latest": latest}


def history(service: FarmService, request: Request) -> Any:
    """The series of the latest night that fit the query, with the points of their charts."""
    return {"series": [_series(report) for report in matching_series(service, request)[:MAX_SERIES]]}


def _series(report: SeriesReport) -> dict[str, Any]:
    case = report.key.case
    names = {name: getattr(case, name) for name in ("unit", "library", "model", "runtime", "engine", "setting")}
    return {**names, "metric": str(report.key.metric), "chart": charts.history(report)}


def matching_series(service: FarmService, request: Request) -> list[SeriesReport]:
    """The series of the latest night whose unit, model and metric are those of the query, where it names them."""
    wanted = request.query_params
    judged = service.results.night(wanted.get("night", ""))
    return [
        report
        for report in (judged.night.series if judged else ())
        if wanted.get("unit") in (None, "", report.key.case.unit)
        and wanted.get("model") in (None, "", report.key.case.model)
        and wanted.get("metric") in (None, "", str(report.key.metric))
    ]


def reports(service: FarmService, _request: Request) -> Any:
    """The reports that are written, on all hosts."""
    found = [
        {**dataclasses.asdict(each.report), "host": each.host, "address": each.address} for each in all_reports(service)
    ]
    return {"reports": found, "notes": service.others.snapshot.notes}


def artifacts(service: FarmService, _request: Request) -> Any:
    """The artifacts of tuning on all hosts, each with the fingerprints that it is for."""
    found = [_artifact(each) for each in all_artifacts(service)]
    return {"artifacts": found, "notes": service.others.snapshot.notes}


def _artifact(shown: ShownArtifact) -> dict[str, Any]:
    members = dataclasses.asdict(shown.artifact)
    return {"file": members.pop("path"), **members, "host": shown.host, "address": shown.address}


def openapi(service: FarmService, _request: Request) -> Any:
    """The OpenAPI description."""
    return description(service.base)


async def change_unit(request: Request) -> Response:
    """POST: reserves, releases or checks a unit."""
    action, name = request.path_params["action"], request.path_params["name"]
    return await _changed(request, lambda service, person, asked: service.change_unit(action, name, person, asked))


async def cancel_job(request: Request) -> Response:
    """POST: ends a job of the cluster's queue."""
    job = request.path_params["job"]
    return await _changed(request, lambda service, person, asked: service.cancel_job(job, person))


async def cancel_run(request: Request) -> Response:
    """POST: ends a run."""
    run = request.path_params["run"]
    return await _changed(request, lambda service, person, asked: service.cancel_run(run, person))


async def _changed(request: Request, change: Callable[[FarmService, str, dict[str, object]], str]) -> Response:
    """Makes a change for whoever sends a token; a cookie is none, so no other site can make a browser do this."""
    service = service_of(request)
    try:
        person = service.sessions.bearer(request.headers)
        if not person:
            return problem("send `Authorization: Bearer TOKEN`; `farm serve token add NAME` makes one", 401)
        asked = _members(await request.body())
        return JSONResponse({"text": one_line(await run_in_threadpool(change, service, person, asked))})
    except FarmError as error:
        return problem(str(error), http_status(error))


def _members(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError("the body is no JSON object")
    return found

"""The pages that people see, and their forms."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse

from farm.cluster.result_tasks import ResultKind, artifact_file
from farm.nightly import words
from farm.nightly.headline import headline
from farm.nightly.night import SeriesReport
from farm.report import charts
from farm.report.lines import sparkline
from farm.report.matrix import matrix
from farm.safe_text import one_line
from farm.serve.access import COOKIE, SESSION_S, BrowserSession, is_from_here, is_own_form
from farm.serve.all_results import all_artifacts, all_reports
from farm.serve.kept_results import JudgedNight
from farm.serve.rendering import asset_answer, job_row, render, unit_row
from farm.serve.run_view import run_view, runner_of
from farm.serve.service import FarmService, http_status, service_of
from farm.serve.watcher import Snapshot
from farm.store.process import own_host
from farm.tables.devices import gpu_text
from runtime.errors import FarmError

MAX_CHARTS = 24
REPORT_TYPES = {
    ".html": "text/html",
    ".json": "application/json",
    ".xml": "application/xml",
    ".md": "text/markdown",
}
Show = Callable[[FarmService, Request], tuple[str, Mapping[str, Any]]]


def page_endpoint(show: Show) -> Callable[[Request], Response]:
    """An endpoint that answers with a page, errors included."""

    def endpoint(request: Request) -> Response:
        service = service_of(request)
        try:
            template, values = show(service, request)
        except FarmError as error:
            return problem_page(request, str(error), http_status(error))
        return _page(request, template, values)

    return endpoint


def problem_page(request: Request, text: str, status: int) -> Response:
    """An error as a page."""
    return _page(request, "problem.html", {"text": one_line(text)}, status)


def _page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    service = service_of(request)
    session = service.sessions.of(request.cookies)
    person = person_of(service, session)
    said = session.said if session else ""
    if session:
        session.said = ""
    common: dict[str, Any] = {"person": person, "csrf": session.csrf if session else "", "said": said}
    common |= {"path": request.url.path, "base": service.base, "has_queue": service.source.has_queue}
    return HTMLResponse(render(template, {**common, **values}), status)


def person_of(service: FarmService, session: BrowserSession | None) -> str:
    """Who signed in; empty where nobody did."""
    try:
        return service.sessions.person(session)
    except FarmError:  # the file of tokens is damaged: reading goes on, changes say why they do not
        return ""


def units(service: FarmService, _request: Request) -> tuple[str, Mapping[str, Any]]:
    """All units, and what runs now."""
    snapshot = service.watcher.snapshot
    return "units.html", {
        "snapshot": snapshot,
        "rows": [unit_row(unit, service.base) for unit in snapshot.units.values()],
        "states": _states(snapshot),
        "running": service.results.running(),
        "has_hosts": service.source.has_queue,
    }


def _states(snapshot: Snapshot) -> list[tuple[str, int]]:
    return Counter(str(unit.report.state) for unit in snapshot.units.values()).most_common()


def queue(service: FarmService, request: Request) -> tuple[str, Mapping[str, Any]]:
    """The jobs that run and wait in the cluster."""
    snapshot = service.queue.snapshot
    can_cancel = bool(person_of(service, service.sessions.of(request.cookies)))
    rows = [job_row(job, can_cancel) for job in snapshot.jobs]
    return "queue.html", {"queue": snapshot, "rows": rows}


def one_unit(service: FarmService, request: Request) -> tuple[str, Mapping[str, Any]]:
    """A unit's facts, health, temperature, history and jobs."""
    unit = service.unit(request.path_params["name"])
    report = unit.report
    temperatures = service.watcher.temperatures(report.unit.name)
    judged = service.results.night_of_unit(report.unit.name)
    series = [each for each in (judged.night.series if judged else ()) if each.key.case.unit == report.unit.name]
    return "unit.html", {
        "unit": unit.members,
        "gpu": gpu_text(report),
        "held": report.holder,
        "health": service.source.health(report.unit),
        "temperatures": temperatures,
        "spark": sparkline([value for _, value in temperatures]),
        "rows": [(row, runner_of(row)) for row in service.results.unit_rows(report.unit.name)],
        "lines": [(words.title(each.key), words.WORDS[each.judgement.verdict]) for each in words.worst_first(series)],
    }


def _series_root(judged: JudgedNight) -> str:
    """What the links of a matrix begin with: its report, or else the charts."""
    return f"/reports/{judged.report}/" if judged.report else f"/history?night={quote(judged.night.run.name)}&"


def night(service: FarmService, request: Request) -> tuple[str, Mapping[str, Any]]:
    """The latest night's matrix, or that of a name."""
    judged = service.results.night(request.query_params.get("name", ""))
    if judged is None:
        return "night.html", {"judged": None, "why": service.results.why_no_store()}
    found = matrix(judged.night, judged.links)
    return "night.html", {
        "judged": judged,
        "run": judged.night.run,
        "headline": headline(judged.night),
        "is_worse": any(map(words.has_worsened, judged.night.series)),
        "counts": words.tally(judged.night.series),
        "matrix": found,
        "root": f"{service.base}{_series_root(judged)}",
        "others": [run for run in service.results.nights() if run.name != judged.night.run.name],
    }


def history(service: FarmService, request: Request) -> tuple[str, Mapping[str, Any]]:
    """Charts of the series that fit the form."""
    nights = service.results.nights()
    judged = service.results.night(request.query_params.get("night", ""))
    series = judged.night.series if judged else []
    wanted = {name: request.query_params.get(name, "") for name in ("unit", "model", "metric")}
    if judged and not any(wanted.values()):
        wanted["metric"] = "latency_ms"
    found = words.worst_first(
        [each for each in series if all(value in ("", _names(each)[name]) for name, value in wanted.items())]
    )
    choices = {name: sorted({_names(each)[name] for each in series}) for name in wanted}
    if judged and len(nights) > 1:
        wanted["night"], choices["night"] = judged.night.run.name, sorted(run.name for run in nights)
    return "history.html", {
        "wanted": wanted,
        "choices": choices,
        "count": len(found),
        "charts": [_chart(each) for each in found[:MAX_CHARTS]],
        "charts_needed": bool(found),
    }


def _names(report: SeriesReport) -> dict[str, str]:
    case = report.key.case
    return {"unit": case.unit, "model": case.model, "metric": str(report.key.metric)}


def _chart(report: SeriesReport) -> dict[str, Any]:
    word = words.word_of(report)
    return {"title": words.title(report.key), "word": word, "chart": charts.history(report)}


def runs(service: FarmService, _request: Request) -> tuple[str, Mapping[str, Any]]:
    """The runs that go on, and the last ones."""
    results = service.results
    running, recent = results.running(), results.runs()
    hosts = {run.host for run in (*recent, *(each.run for each in running))}
    why = results.why_no_store()
    own = [each.run.id for each in running if each.run.host == own_host()]  # others are cancelled where they run
    return "runs.html", {"running": running, "runs": recent, "own": own, "why": why, "has_hosts": len(hosts) > 1}


def one_run(service: FarmService, request: Request) -> tuple[str, Mapping[str, Any]]:
    """A run's results, slowest operators, files and log."""
    run = service.results.run(request.path_params["run"])
    view = run_view(service.results.run_rows(run.id))
    report = service.results.report_of(run)
    return "run.html", {
        "run": run,
        "view": view,
        "files": [(path, artifact_file(path) is not None) for path in view.files],
        "reports": [(f"/reports/{report}/", report)] if report else [],
    }


def reports(service: FarmService, _request: Request) -> tuple[str, Mapping[str, Any]]:
    """All written reports."""
    return "reports.html", {"reports": all_reports(service), **_others(service)}


def artifacts(service: FarmService, _request: Request) -> tuple[str, Mapping[str, Any]]:
    """The files of tuning, by SoC and fingerprint."""
    lines = [(each, shown) for shown in all_artifacts(service) for each in shown.artifact.sets]
    lines.sort(key=lambda line: (dataclasses.astuple(line[0].fingerprint), line[0].device_model, line[1].address))
    return "artifacts.html", {"lines": lines, **_others(service)}


def _others(service: FarmService) -> dict[str, Any]:
    """Whether there are other hosts, and what of them is left out."""
    return {"has_others": service.others.has_others, "notes": service.others.snapshot.notes}


def report_file(request: Request) -> Response:
    """A file of a report."""
    path = request.path_params.get("path", "")
    found = service_of(request).results.report_file(request.path_params["name"], path)
    return FileResponse(found) if found else problem_page(request, "no such report", 404)


def download(request: Request) -> Response:
    """An artifact as a file to keep."""
    found = artifact_file(request.path_params["path"])
    if found is None:
        return problem_page(request, "no such artifact", 404)
    return FileResponse(found, filename=found.name, media_type="application/octet-stream")


def host_report_file(request: Request) -> Response:
    """A file of another host's report; style sheets and scripts are ours, whatever the host has in their place."""
    name, path = request.path_params["name"], request.path_params.get("path", "")
    asset = path.removeprefix("assets/")
    if asset != path:
        return asset_answer(asset) or problem_page(request, "no such report", 404)
    kind = REPORT_TYPES.get(PurePosixPath(path or "index.html").suffix, "")
    if not kind:
        return problem_page(request, "no such report", 404)
    return _of_host(request, "reports", f"{name}/{path}", "no such report", {}, kind)


def host_download(request: Request) -> Response:
    """Another host's artifact as a file to keep."""
    path = request.path_params["path"]
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(PurePosixPath(path).name)}"}
    return _of_host(request, "artifacts", path, "no such artifact", headers, "application/octet-stream")


def _of_host(
    request: Request, kind: ResultKind, path: str, missing: str, headers: Mapping[str, str], media_type: str
) -> Response:
    host = request.path_params["host"]
    try:
        content = service_of(request).others.content(host, kind, path)
    except FarmError as error:
        return problem_page(request, str(error), http_status(error))
    if content is None:
        return problem_page(request, missing, 404)
    return StreamingResponse(content, headers=headers, media_type=media_type)


async def sign_in(request: Request) -> Response:
    """POST: begins a session for a token."""
    service = service_of(request)
    if not is_from_here(request.headers):
        return problem_page(request, "this form was sent from another site", 403)
    token = (await _form(request)).get("token", "").strip()
    try:
        name = service.sessions.begin(token)
    except FarmError as error:
        return problem_page(request, str(error), http_status(error))
    if not name:
        return problem_page(request, "this token is nobody's; `farm serve token add NAME` makes one", 403)
    answer, path = RedirectResponse(f"{service.base}/", 303), f"{service.base}/"
    answer.set_cookie(
        COOKIE, name, max_age=int(SESSION_S), httponly=True, samesite="strict", secure=service.is_encrypted, path=path
    )
    return answer


async def sign_out(request: Request) -> Response:
    """POST: ends the session."""

    def end(service: FarmService, _person: str, _form: dict[str, str]) -> str:
        service.sessions.end(request.cookies.get(COOKIE, ""))
        return ""

    return await _acted(request, end, "/")


async def change_unit(request: Request) -> Response:
    """POST: reserves, releases or checks a unit."""
    action, name = request.path_params["action"], request.path_params["name"]
    return await _acted(
        request,
        lambda service, person, form: service.change_unit(action, name, person, dict(form)),
        request.url.path.rpartition("/")[0],
    )


async def cancel_run(request: Request) -> Response:
    """POST: ends a run."""
    run = request.path_params["run"]
    return await _acted(request, lambda service, person, form: service.cancel_run(run, person), "/runs")


async def cancel_job(request: Request) -> Response:
    """POST: ends the job of the queue that the form names."""
    return await _acted(
        request, lambda service, person, form: service.cancel_job(form.get("job", ""), person), "/queue"
    )


async def _acted(request: Request, act: Callable[[FarmService, str, dict[str, str]], str], back: str) -> Response:
    """Does what a form of a signed-in person asks for, and shows what came of it on the page that it leads back to."""
    service = service_of(request)
    form = await _form(request)
    session = service.sessions.of(request.cookies)
    person = person_of(service, session)
    if session is None or not person:
        return problem_page(request, "sign in with your token first", 403)
    if not is_from_here(request.headers) or not is_own_form(session, form.get("csrf", "")):
        return problem_page(request, "this form is not of your session; load the page again", 403)
    try:
        session.said = one_line(await run_in_threadpool(act, service, person, form))
    except FarmError as error:
        session.said = one_line(f"Not done: {error}")
    return RedirectResponse(f"{service.base}{back}", 303)


async def _form(request: Request) -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode(errors="replace"), max_num_fields=20))

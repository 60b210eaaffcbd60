"""The web application: which path is answered by what."""

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from farm.serve import events, json_answers, page_answers
from farm.serve.json_answers import answered
from farm.serve.metrics import FarmCollector, exposition
from farm.serve.page_answers import page_endpoint, problem_page
from farm.serve.rendering import asset_answer
from farm.serve.security import BaseMiddleware, SecurityMiddleware
from farm.serve.service import FarmService

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PAGES: Sequence[BaseRoute] = (
    Route("/", page_endpoint(page_answers.units)),
    Route("/units/{name}", page_endpoint(page_answers.one_unit)),
    Route("/queue", page_endpoint(page_answers.queue)),
    Route("/runs", page_endpoint(page_answers.runs)),
    Route("/runs/{run:int}", page_endpoint(page_answers.one_run)),
    Route("/night", page_endpoint(page_answers.night)),
    Route("/history", page_endpoint(page_answers.history)),
    Route("/reports", page_endpoint(page_answers.reports)),
    Route("/artifacts", page_endpoint(page_answers.artifacts)),
    Route("/units/{name}/{action}", page_answers.change_unit, methods=["POST"]),
    Route("/sign-in", page_answers.sign_in, methods=["POST"]),
    Route("/sign-out", page_answers.sign_out, methods=["POST"]),
    Route("/runs/{run:int}/cancel", page_answers.cancel_run, methods=["POST"]),
    Route("/queue/cancel", page_answers.cancel_job, methods=["POST"]),
    Route("/reports/{name}/", page_answers.report_file),
    Route("/reports/{name}/{path:path}", page_answers.report_file),
    Route("/artifacts/{path:path}", page_answers.download),
    Route("/hosts/{host}/reports/{name}/", page_answers.host_report_file),
    Route("/hosts/{host}/reports/{name}/{path:path}", page_answers.host_report_file),
    Route("/hosts/{host}/artifacts/{path:path}", page_answers.host_download),
    Route("/events", events.page_events),
)
API: Sequence[BaseRoute] = (
    Route("/api/units", answered(json_answers.units)),
    Route("/api/units/{name}", answered(json_answers.one_unit)),
    Route("/api/units/{name}/{action}", json_answers.change_unit, methods=["POST"]),
    Route("/api/jobs", answered(json_answers.jobs)),
    Route("/api/jobs/{job}/cancel", json_answers.cancel_job, methods=["POST"]),
    Route("/api/runs", answered(json_answers.runs)),
    Route("/api/runs/{run:int}", answered(json_answers.one_run)),
    Route("/api/runs/{run:int}/cancel", json_answers.cancel_run, methods=["POST"]),
    Route("/api/night", answered(json_answers.night)),
    Route("/api/history", answered(json_answers.history)),
    Route("/api/reports", answered(json_answers.reports)),
    Route("/api/artifacts", answered(json_answers.artifacts)),
    Route("/api/events", events.events),
    Route("/api/openapi.json", answered(json_answers.openapi)),
)


def create_app(service: FarmService, hosts: Collection[str] = ()) -> Starlette:
    """The application; `hosts` are the names by which it may be asked, all where there are none."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        service.watcher.start()
        service.queue.start()
        service.others.start()
        yield
        service.watcher.stop()
        service.queue.stop()
        service.others.stop()
        service.results.close()

    middleware = [
        Middleware(BaseMiddleware, base=service.base),
        Middleware(SecurityMiddleware, hosts=hosts, is_encrypted=service.is_encrypted),
    ]
    app = Starlette(
        routes=[*PAGES, *API, Route("/metrics", metrics), Route("/assets/{name}", asset)],
        middleware=middleware,
        exception_handlers={HTTPException: _refused, ClientDisconnect: _left},
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.collector = FarmCollector(service)
    return app


def metrics(request: Request) -> Response:
    """What Prometheus reads."""
    return Response(exposition(request.app.state.collector), media_type=METRICS_TYPE)


def asset(request: Request) -> Response:
    """A style sheet or a script."""
    found = asset_answer(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return found


def _refused(request: Request, error: Exception) -> Response:
    """What no route answers, as a page or as JSON."""
    assert isinstance(error, HTTPException)
    text = error.detail.lower()
    if request.url.path.startswith("/api/"):
        return json_answers.problem(text, error.status_code)
    return problem_page(request, text, error.status_code)


def _left(request: Request, error: Exception) -> Response:
    """What nobody reads: the client left in the middle of its own request."""
    return Response(status_code=400)

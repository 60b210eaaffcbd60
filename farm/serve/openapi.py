"""The OpenAPI description of the API."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from farm import __version__

RESERVE_BODY = {
    "for": {"type": "string", "description": "How long: 45m, 2h, 1h30m, 3d.", "example": "2h"},
    "reason": {"type": "string", "description": "What for, shown to those who wait."},
    "force": {"type": "boolean", "description": "Also when a job or another person has the unit."},
}
RELEASE_BODY = {"force": {"type": "boolean", "description": "Also a job's lease, or another person's reservation."}}
NAME = {"name": ("path", "string", "A unit's name.")}
NIGHT = ("query", "string", "The latest night of this name; default: of all.")
SERIES = {name: ("query", "string", f"Only series of this {name}.") for name in ("unit", "model", "metric")}


@dataclasses.dataclass(frozen=True)
class Operation:
    """A method of a path: what it does, its parameters (place, type, meaning), and what its body may hold."""

    path: str
    summary: str
    parameters: Mapping[str, tuple[str, str, str]] = dataclasses.field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    required: tuple[str, ...] = ()
    media_type: str = "application/json"

    @property
    def method(self) -> str:
        """What has a body is a change."""
        return "get" if self.body is None else "post"


OPERATIONS = (
    Operation("/api/units", "All units: host, state, SoC, temperature, battery, who holds each and until when."),
    Operation("/api/units/{name}", "A unit with its health, temperatures and newest rows.", NAME),
    Operation("/api/units/{name}/reserve", "Takes a unit off for a time.", NAME, RESERVE_BODY, ("for", "reason")),
    Operation("/api/units/{name}/release", "Gives a unit back, or ends what a job left behind.", NAME, RELEASE_BODY),
    Operation("/api/units/{name}/check", "Checks a unit, which begins or ends its quarantine.", NAME, {}),
    Operation(
        "/api/jobs", "The jobs of the cluster's queue, the oldest first: whose, its priority, what runs and waits."
    ),
    Operation("/api/jobs/{job}/cancel", "Ends a job.", {"job": ("path", "string", "A job's name.")}, {}),
    Operation("/api/runs", "The runs that go on, each with its newest row, and the last ones."),
    Operation("/api/runs/{run}", "A run with its results and files.", {"run": ("path", "integer", "A run's number.")}),
    Operation(
        "/api/runs/{run}/cancel", "Ends a run as Ctrl-C would.", {"run": ("path", "integer", "A run's number.")}, {}
    ),
    Operation("/api/night", "The verdict of the latest night, and the latest of each name.", {"name": NIGHT}),
    Operation(
        "/api/history", "The series of the latest night, with the points of their charts.", {**SERIES, "night": NIGHT}
    ),
    Operation("/api/reports", "The reports that are written, on all hosts; `notes`: what is left out, and why."),
    Operation("/api/artifacts", "The files of tuning on all hosts, each with the fingerprints that it is for."),
    Operation("/api/events", "Server-sent events `units` and `jobs`: what changed.", media_type="text/event-stream"),
    Operation("/api/openapi.json", "This description."),
)
ERROR = {
    "type": "object",
    "properties": {"error": {"type": "object", "properties": {"message": {"type": "string"}}}},
}
CHANGE_ERRORS = {"400": "What is asked for is wrong.", "401": "No valid token.", "409": "Somebody else holds the unit."}


def description(base: str = "") -> dict[str, Any]:
    """The whole description; `base`: the path that stands before all of these."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "farm serve", "version": __version__},
        "servers": [{"url": f"{base}/"}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": ERROR},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [_parameter(name, *said) for name, said in operation.parameters.items()],
        "responses": {"200": {"description": "Done.", "content": {operation.media_type: {}}}},
    }
    if "name" in operation.parameters:
        made["responses"]["404"] = _error("No such unit.")
    if operation.body is not None:
        made["responses"] |= {status: _error(text) for status, text in CHANGE_ERRORS.items()}
        schema = {"type": "object", "properties": dict(operation.body), "required": list(operation.required)}
        made["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        made["security"] = [{"token": []}]
    return made


def _parameter(name: str, place: str, kind: str, meaning: str) -> dict[str, Any]:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, "schema": {"type": kind}, "description": meaning, **required}


def _error(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}

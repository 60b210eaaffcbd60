"""`farm convert`: the graph as ONNX, and for each unit a plan with its weights, as files and, where the deployment file
says so, as code; all below the build folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm import atomic_file
from farm.config.deployment import Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Members, rows_of_each
from farm.jobs.fleet.unit import OpenUnit, write_plan
from farm.jobs.models.prepare import Prepared, prepare
from farm.model.fetch import Fetcher
from farm.rows.row import Record, Row, Status, row_fingerprint
from farm.workspace import Workspace, data_file
from runtime.exporters.onnx_exporter import export_onnx
from runtime.native.model_code import write_model_code


class PassChanges(Record):
    """What one pass changed, a line each."""

    name: str
    changes: tuple[str, ...]


class ConvertRow(Row):
    """Files of one model for one unit and runtime, and the sizes that matter."""

    job: str = "convert"
    operators_before: int | None = None
    operators_after: int | None = None
    passes: tuple[PassChanges, ...] = ()
    graph_file: str = ""
    plan_file: str = ""
    data_file: str = ""
    code_files: tuple[str, ...] = ()
    steps: int | None = None
    macs: int | None = None
    weights_bytes: int | None = None


def convert_job(deployment: Deployment, units: Sequence[Unit], fleet: FleetOptions = FLEET) -> Iterator[ConvertRow]:
    """Writes every graph, then a row for each unit, model and runtime. A model that is wrong raises its error."""
    fetcher = Fetcher(deployment)
    models = [prepare(deployment, name, fetcher) for name in deployment.models]
    for prepared in models:
        write_graph(prepared)
    if not units:
        yield from map(_row_of_graph, models)
    yield from rows_of_each(ConvertRow, models, units, _measure, _asked, fleet)


def write_graph(prepared: Prepared) -> Path:
    """Saves the converted graph; returns its file."""
    path = Workspace(prepared.deployment.library_name).graph_file(prepared.name)
    atomic_file.write(path, export_onnx(prepared.graph).SerializeToString(deterministic=True))
    return path


def _measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> Members:
    plan, plan_file = opened.plan(prepared, runtime, opened.target(prepared, runtime))
    write_plan(plan, plan_file)
    return _graph_members(prepared) | {
        "plan_file": str(plan_file),
        "data_file": str(data_file(plan_file)),
        "code_files": tuple(map(str, _write_code(prepared.deployment, opened.unit.abi, plan_file))),
        "steps": len(plan.steps),
        "macs": plan.macs,
        "weights_bytes": plan.weights_bytes,
        "fingerprint": row_fingerprint(plan.target),
    }


def _write_code(deployment: Deployment, abi: str, plan_file: Path) -> list[Path]:
    """Header and library of a plan that was written, where the deployment file asks for code."""
    if deployment.model_graph_format != "code":
        return []
    weights = data_file(plan_file).read_bytes() if deployment.model_data_format == "code" else None
    folder = Workspace(deployment.library_name).code_folder(abi)
    made = write_model_code(folder, plan_file.stem, plan_file.read_bytes(), weights, abi)
    return [made.header, made.source, made.library]


def _row_of_graph(prepared: Prepared) -> ConvertRow:
    """The row of a model without a unit to lower it for."""
    identity = {"unit": "", "soc": "", "device_model": "", "runtime": prepared.settings.runtime}
    names = {"library": prepared.deployment.library_name, "model": prepared.name, "status": Status.OK}
    return ConvertRow.model_validate(identity | names | _graph_members(prepared))


def _graph_members(prepared: Prepared) -> Members:
    return {
        "operators_before": len(prepared.source.graph.node),
        "operators_after": len(prepared.graph.nodes),
        "passes": tuple(PassChanges(name=report.name, changes=tuple(report.changes)) for report in prepared.reports),
        "graph_file": str(Workspace(prepared.deployment.library_name).graph_file(prepared.name)),
    }


def _asked(settings: Model, runtime: Runtime) -> Members:
    return {"data_type": settings.data_type_on(runtime), "winograd": settings.winograd}

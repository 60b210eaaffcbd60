"""`farm convert`: the graph as ONNX, and for each unit a plan with its weights, as files and, where the deployment file
says so, as code; all below the build folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm import atomic_file
from farm.config.deployment import Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Settings, rows_of_each
from farm.jobs.fleet.unit import OpenUnit, write_plan
from farm.jobs.models.prepare import Prepared, prepare
from farm.model.fetch import Fetcher
from farm.rows.convert import ConvertResult, ConvertRow, GraphFigures, PassChanges, PlanFigures
from farm.rows.result import Conditions, make_row
from farm.rows.row import Identity, Provenance, row_fingerprint
from farm.workspace import Workspace, data_file
from runtime.exporters.onnx_exporter import export_onnx
from runtime.native.model_code import write_model_code


def convert_job(deployment: Deployment, units: Sequence[Unit], fleet: FleetOptions = FLEET) -> Iterator[ConvertRow]:
    """Writes every graph, then a row for each unit, model and runtime. A model that is wrong raises its error."""
    fetcher = Fetcher(deployment)
    models = [prepare(deployment, name, fetcher) for name in deployment.models]
    for prepared in models:
        write_graph(prepared)
    if not units:
        yield from map(_row_of_graph, models)
    yield from rows_of_each(ConvertRow, models, units, _measure, _settings, fleet)


def write_graph(prepared: Prepared) -> Path:
    """Saves the converted graph; returns its file."""
    path = Workspace(prepared.deployment.library_name).graph_file(prepared.name)
    atomic_file.write(path, export_onnx(prepared.graph).SerializeToString(deterministic=True))
    return path


def _measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> ConvertResult:
    plan, plan_file = opened.plan(prepared, runtime, opened.target(prepared, runtime))
    write_plan(plan, plan_file)
    return ConvertResult(
        provenance=Provenance(fingerprint=row_fingerprint(plan.target)),
        graph=_graph_figures(prepared),
        plan=PlanFigures(
            plan_file=str(plan_file),
            data_file=str(data_file(plan_file)),
            code_files=tuple(map(str, _write_code(prepared.deployment, opened.unit.abi, plan_file))),
            steps=len(plan.steps),
            macs=plan.macs,
            weights_bytes=plan.weights_bytes,
        ),
    )


def _write_code(deployment: Deployment, abi: str, plan_file: Path) -> list[Path]:
    """Header and library of a plan that was written, where the deployment file asks for code."""
    if deployment.model_graph_format != "code":
        return []
    weights = data_file(plan_file).read_bytes() if deployment.model_data_format == "code" else None
    folder = Workspace(deployment.library_name).code_folder(abi)
    code = write_model_code(folder, plan_file.stem, plan_file.read_bytes(), weights, abi)
    return [code.header, code.source, code.library]


def _row_of_graph(prepared: Prepared) -> ConvertRow:
    """The row of a model without a unit to lower it for."""
    identity = Identity(
        unit="",
        soc="",
        device_model="",
        library=prepared.deployment.library_name,
        model=prepared.name,
        runtime=prepared.settings.runtime,
    )
    return make_row(ConvertRow, identity, Conditions(), ConvertResult(graph=_graph_figures(prepared)))


def _graph_figures(prepared: Prepared) -> GraphFigures:
    return GraphFigures(
        operators_before=len(prepared.source.graph.node),
        operators_after=len(prepared.graph.nodes),
        passes=tuple(PassChanges(name=report.name, changes=tuple(report.changes)) for report in prepared.reports),
        graph_file=str(Workspace(prepared.deployment.library_name).graph_file(prepared.name)),
    )


def _settings(model: Model, runtime: Runtime) -> Settings:
    return {"data_type": model.data_type_on(runtime), "winograd": model.winograd}

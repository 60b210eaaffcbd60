"""`farm convert`: the graph as ONNX, and for each unit a plan with its weights, as files and, where the deployment file
says so, as code; all below the build folder. What no unit is there for is made from what is known of its SoC."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx

from farm import atomic_file, soc
from farm.config.deployment import Deployment, Runtime
from farm.config.inventory import Unit
from farm.jobs.choices.model_choice import ModelChoice, model_choice
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import plan_settings, rows_of_each
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.planner import choose_target
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models import plans
from farm.jobs.models.prepare import Prepared, plan_data_type, prepare, with_siblings
from farm.jobs.targets import TargetFacts, TargetFiles, TargetPair, known_facts, nothing_known, wanted_pairs
from farm.model.fetch import Fetcher
from farm.plans.inspection import inspected_tensors
from farm.rows.convert import ConvertResult, ConvertRow, GraphFigures, PassChanges, PlanFigures
from farm.rows.result import OK, Conditions, make_row
from farm.rows.row import Ending, Failure, Identity, Provenance, row_fingerprint
from farm.rows.run import NoFile, SelectionUse
from farm.rows.status import Status
from farm.workspace import Workspace, data_file
from runtime.custom.c_library import linked_operators
from runtime.errors import BuildError, ConfigError, FarmError
from runtime.exporters.onnx_exporter import export_onnx, is_large
from runtime.native.model_code import c_name, write_model_code
from runtime.native.toolchains import why_missing
from runtime.plan.plan import Plan
from runtime.target import Target, cpu_fields


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """For which ABIs and SoCs plans are made beside those of the units.

    Attributes:
        target_files: what `farmrt probe` printed on units that are not here.
        socs: the SoCs that plans are wanted for; empty: those of the deployment file.
        without_units: whether plans are made for what no unit is here for.
        skip_missing: what cannot be made is told, and gives no row.
        explain: rows have the tensors of their plans.
    """

    target_files: tuple[Path, ...] = ()
    socs: tuple[str, ...] = ()
    without_units: bool = True
    skip_missing: bool = False
    explain: bool = False


DEFAULT = ConvertOptions()
Tell = Callable[[str], None]


def convert_job(
    deployment: Deployment,
    units: Sequence[Unit],
    fleet: FleetOptions = FLEET,
    options: ConvertOptions = DEFAULT,
    tell: Tell = lambda line: None,
) -> Iterator[ConvertRow]:
    """Writes every graph, then a row for each unit, model and runtime, and for each ABI and SoC that no unit is of.

    A model that is wrong raises its error.
    """
    fetcher = Fetcher(deployment)
    files = TargetFiles(options.target_files)
    models = with_siblings([prepare(deployment, name, fetcher) for name in deployment.models])
    for prepared in models:
        write_graph(prepared)
    any_row = False
    for row in _Conversion(deployment, models, files, options).rows(units, fleet):
        kept = _without_missing(row, tell) if options.skip_missing else row
        if kept:
            any_row = True
            yield kept
    if not any_row:
        yield from map(_row_of_graph, models)


def write_graph(prepared: Prepared) -> Path:
    """Saves the converted graph, and in a file beside it the constants of a large one; returns its file."""
    path = Workspace(prepared.deployment.library_name).graph_file(prepared.name)
    beside = path.with_name(f"{path.name}.data")
    if is_large(prepared.graph):
        with atomic_file.replacing(beside) as data, atomic_file.replacing(path) as file:
            file.write(export_onnx(prepared.graph, data, beside.name).SerializeToString(deterministic=True))
    else:
        atomic_file.write(path, export_onnx(prepared.graph).SerializeToString(deterministic=True))
        beside.unlink(missing_ok=True)
    return path


def write_standard(deployment: Deployment, path: Path) -> int:
    """Saves the only model as ONNX of ONNX's own operators, before any are fused; returns the file's bytes.

    Raises:
        ConfigError: the deployment file has several models.
        UnsupportedError: the model holds operators that are no others' than farm's or its user's.
    """
    if len(deployment.models) > 1:
        raise ConfigError(f"{deployment.path}: --standard writes one model, there are {', '.join(deployment.models)}")
    prepared = prepare(deployment, next(iter(deployment.models)), Fetcher(deployment))
    model = onnx.shape_inference.infer_shapes(prepared.standard())
    onnx.checker.check_model(model)
    content = model.SerializeToString(deterministic=True)
    atomic_file.write(path, content)
    return len(content)


class _Conversion:
    """The models of a deployment file, on their way to plans."""

    def __init__(
        self, deployment: Deployment, models: Sequence[Prepared], files: TargetFiles, options: ConvertOptions
    ) -> None:
        self._deployment, self._models, self._files, self._options = deployment, models, files, options

    def rows(self, units: Sequence[Unit], fleet: FleetOptions) -> Iterator[ConvertRow]:
        """Returns the rows of the units, then the rows of targets for which no unit is here."""
        unreached: dict[TargetPair, list[ConvertRow]] = {}
        covered: set[TargetPair] = set()
        abis = {unit.name: unit.abi for unit in units if unit.abis}
        for row in rows_of_each(ConvertRow, self._models, units, self._measure, plan_settings, fleet):
            pair = TargetPair(abis[row.unit], soc.normalise(row.soc)) if row.unit in abis else None
            if pair and _was_not_reached(row) and self._options.without_units:
                unreached.setdefault(pair, []).append(row)
                continue
            covered |= {pair} if pair else set()
            yield row
        yield from self._rows_without_units(unreached, covered)

    def _rows_without_units(
        self, unreached: dict[TargetPair, list[ConvertRow]], covered: set[TargetPair]
    ) -> Iterator[ConvertRow]:
        """A unit that could not be reached has its rows where its SoC is not known either."""
        if not self._options.without_units:
            return
        wanted = wanted_pairs(self._deployment, self._files, covered, self._options.socs)
        for pair in dict.fromkeys([*(pair for pair in unreached if pair not in covered), *wanted]):
            facts = known_facts(pair, self._files)
            if pair in unreached and facts is None:
                yield from unreached[pair]
                continue
            for prepared in self._models:
                for runtime in prepared.settings.runtimes:
                    yield self._row_without_unit(pair, facts, prepared, runtime)

    def _measure(self, opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> ConvertResult:
        def lowered(model: Prepared) -> tuple[ModelChoice, Plan, Path]:
            target = opened.planner.target(model, runtime)
            way = opened.planner.model_choice(model, runtime, target)
            return way, *opened.planner.plan(model, runtime, way.target(target), choice=way.planned.choice, cpu=way.cpu)

        way, plan, plan_file = lowered(prepared)
        plan = plans.sharing(plan, prepared, lambda sibling: lowered(sibling)[1])
        return self._written(prepared, plan, plan_file, opened.unit.abi, "unit", way.planned.use)

    def _row_without_unit(
        self, pair: TargetPair, facts: TargetFacts | None, prepared: Prepared, runtime: Runtime
    ) -> ConvertRow:
        identity = Identity(
            unit="",
            soc=pair.soc,
            device_model="",
            library=prepared.deployment.library_name,
            model=prepared.name,
            runtime=runtime,
        )
        conditions = Conditions(plan_settings(prepared.settings, runtime))
        return make_row(ConvertRow, identity, conditions, self._result_without_unit(pair, facts, prepared, runtime))

    def _result_without_unit(
        self, pair: TargetPair, facts: TargetFacts | None, prepared: Prepared, runtime: Runtime
    ) -> ConvertResult:
        source = "none" if runtime == "cpu" else facts.source if facts else ""
        workspace = Workspace(prepared.deployment.library_name)
        plan_file = workspace.plan_file(prepared.name, pair.abi, pair.soc, runtime)

        def lowered(model: Prepared) -> tuple[ModelChoice, Plan]:
            target = _target(pair, facts, model, runtime)
            way = model_choice(pair.unit, facts.probe, model, runtime, target) if facts else ModelChoice()
            return way, plans.lowered(model, way.target(target), way.options(model))

        try:
            way, plan = lowered(prepared)
            plan = plans.sharing(plan, prepared, lambda sibling: lowered(sibling)[1])
            return self._written(prepared, plan, plan_file, pair.abi, source, way.planned.use)
        except FarmError as error:
            figures = PlanFigures(abi=pair.abi, facts=source)
            return ConvertResult(ending=Failure.of(error), graph=_graph_figures(prepared), plan=figures)

    def _written(
        self, prepared: Prepared, plan: Plan, plan_file: Path, abi: str, facts: str, selection: SelectionUse | NoFile
    ) -> ConvertResult:
        """Writes a plan, and as code where that is wanted and can be compiled."""
        write_plan(plan, plan_file)
        ending, code_files = _code(prepared.deployment, abi, plan, plan_file)
        return ConvertResult(
            ending=ending,
            provenance=Provenance(
                fingerprint=row_fingerprint(plan.target), settings={"data_type": plan_data_type(plan)}
            ),
            graph=_graph_figures(prepared),
            plan=PlanFigures(
                abi=abi,
                facts=facts,
                plan_file=str(plan_file),
                data_file=str(data_file(plan_file)),
                code_files=tuple(map(str, code_files)),
                steps=len(plan.steps),
                macs=plan.macs,
                weights_bytes=plan.weights_bytes,
                tensors=inspected_tensors(plan.contents) if self._options.explain else (),
                selection=selection,
            ),
        )


def _was_not_reached(row: ConvertRow) -> bool:
    """Returns whether the row says that its unit could not be opened."""
    return row.status != Status.OK and row.state_before is None


def _without_missing(row: ConvertRow, tell: Tell) -> ConvertRow | None:
    """The row without what is missing here, which is told; None where nothing of it is left."""
    nothing_is_known = bool(row.abi) and not row.facts
    has_no_code = bool(row.plan_file) and row.status == Status.BUILD_FAILED
    if not (nothing_is_known or has_no_code):
        return row
    tell(f"left out: {row.model} ({row.runtime}): {row.reason}")
    return row.model_copy(update={"status": Status.OK, "reason": ""}) if has_no_code else None


def _target(pair: TargetPair, facts: TargetFacts | None, prepared: Prepared, runtime: Runtime) -> Target:
    """What to lower a model to; raises UnsupportedError where nothing is known of a GPU that would be needed."""
    if runtime == "cpu":
        features = facts.probe.cpu.features if facts else ()
        target = Target(pair.soc, pair.abi, memory="cpu", precision=prepared.precision(runtime))
        return dataclasses.replace(target, **cpu_fields(features))
    if facts is None:
        raise nothing_known(pair)
    return choose_target(pair.unit, facts.probe, prepared, runtime)


def _code(deployment: Deployment, abi: str, lowered: Plan, plan_file: Path) -> tuple[Ending, list[Path]]:
    """Header, source and library of a plan that was written, where the deployment file asks for code."""
    if deployment.model_graph_format != "code":
        return OK, []
    if reason := why_missing(abi):
        return Failure.of(BuildError(f"no code: {reason}")), []
    weights = data_file(plan_file).read_bytes() if deployment.model_data_format == "code" else None
    folder = Workspace(deployment.library_name).code_folder(abi)
    plan = plan_file.read_bytes()
    operators = linked_operators(lowered, c_name(plan_file.stem))
    code = write_model_code(folder, plan_file.stem, plan, weights, abi, deployment.linkshared, operators)
    return OK, [code.header, code.source, code.library]


def _row_of_graph(prepared: Prepared) -> ConvertRow:
    """The row of a model without anything to lower it for."""
    identity = Identity(
        unit="",
        soc="",
        device_model="",
        library=prepared.deployment.library_name,
        model=prepared.name,
        runtime="+".join(prepared.settings.runtimes),
    )
    return make_row(ConvertRow, identity, Conditions(), ConvertResult(graph=_graph_figures(prepared)))


def _graph_figures(prepared: Prepared) -> GraphFigures:
    return GraphFigures(
        operators_before=len(prepared.source.graph.node),
        operators_after=len(prepared.graph.nodes),
        passes=tuple(PassChanges(name=report.name, changes=tuple(report.changes)) for report in prepared.reports),
        graph_file=str(Workspace(prepared.deployment.library_name).graph_file(prepared.name)),
    )

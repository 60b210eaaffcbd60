"""The jobs of the command line as functions, for scripts and notebooks; `import farm` has all of them.

What measures checks its arguments at once, and returns an iterator that yields a typed row as each measurement is
done; nothing is measured before it is asked for its first row. A failure is a row too: look at its `status`. What is
wrong with files or the choice of units raises a FarmError. Names, arguments and defaults stay: what is new is added.

Arguments that several functions take:

    model       a deployment file, a model file, or `zoo://NAME` for a sample that comes with farm
    shapes      of inputs that a model file leaves open: {"image": (1, 3, 224, 224)}; or several of one, each is a row
    weights     of a Caffe network; default: the .caffemodel beside it, of the same name
    units       units, or their names; default: those that the deployment file is for
    tuned       tuned parameters: a file, or "none"; default: what tuning left below build/. `kernels` likewise
    memory      OpenCL memory, buffer or image; default: what suits the GPU
    num_threads, cpu_affinity_policy, opencl_queue_window_size, opencl_record_launches, gpu_perf_hint,
    gpu_priority_hint
                how plans are executed (farm/config/execution.py); default: what the deployment file says
    fleet       OpenCL library, waiting for units, retries, spreading (FleetOptions)
    store       where the rows are kept (a path or postgresql://...); default: nowhere
"""

from __future__ import annotations

import functools
import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from farm.config import execution, samples
from farm.config.deployment import Deployment, Runtime
from farm.config.execution import Execution
from farm.config.given_model import GivenModel, given_shapes
from farm.config.inventory import Unit as Unit
from farm.config.keywords import (
    ArtifactKeywords,
    ExecutionKeywords,
    File,
    HintKeywords,
    MemoryKeywords,
    ModelKeywords,
    ShapeKeywords,
    accepts,
    names_of,
)
from farm.jobs.benchmark import BenchmarkOptions, benchmark_job
from farm.jobs.build import BuildOptions, abis_of
from farm.jobs.build import Built as Built
from farm.jobs.build import build as build_one
from farm.jobs.commit import working_commit
from farm.jobs.compare import sides
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.jobs.compare.stored_runs import LATEST, PREFIX, find_run
from farm.jobs.convert import ConvertOptions, convert_job
from farm.jobs.custom_cases import cases_of_files
from farm.jobs.engines.job import EnginesOptions, engines_job
from farm.jobs.fleet.dispatch import FLEET
from farm.jobs.fleet.dispatch import FleetOptions as FleetOptions
from farm.jobs.forecast import forecast_for_file, forecast_job
from farm.jobs.inspect import inspect_for_file, inspect_job, inspect_plan_file
from farm.jobs.loading import LoadOptions, with_existing_files
from farm.jobs.models.operators import needed_features
from farm.jobs.nightly import run as nightly_run
from farm.jobs.nightly.matrix import nightly_job
from farm.jobs.nightly.places import places_of
from farm.jobs.nightly.stored_night import load_night
from farm.jobs.opbench import OpbenchOptions, opbench_job
from farm.jobs.quantize import quantize_job
from farm.jobs.run import RunOptions, run_job
from farm.jobs.targets import TargetFiles, units_to_ask
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from farm.model import deployments
from farm.nightly import configuration
from farm.nightly.configuration import SERIES
from farm.nightly.night import Night as Night
from farm.quantization.judge import LossBudget
from farm.quantization.quantizer import QuantizeOptions as QuantizeOptions
from farm.report.write import ReportFiles as ReportFiles
from farm.report.write import ReportFormat, write_reports
from farm.rows.benchmark import BenchmarkRow as BenchmarkRow
from farm.rows.compare import CompareRow as CompareRow
from farm.rows.convert import ConvertRow as ConvertRow
from farm.rows.engines import EnginesRow as EnginesRow
from farm.rows.forecast import ForecastRow as ForecastRow
from farm.rows.inspect import InspectRow as InspectRow
from farm.rows.opbench import OpbenchRow as OpbenchRow
from farm.rows.quantize import QuantizeRow as QuantizeRow
from farm.rows.row import Row
from farm.rows.run import RunRow as RunRow
from farm.rows.status import Status as Status
from farm.rows.tune import TuneRow as TuneRow
from farm.store import Store
from farm.store.lines import new_run
from farm.store.recorder import Recorder
from farm.store.shared_place import SharedPlace
from farm.units import lookup
from farm.units.selection import ANY, Selection
from runtime.errors import ConfigError
from runtime.errors import FarmError as FarmError
from runtime.native.features import chosen_features

RowType = TypeVar("RowType", bound=Row)
Units = Iterable[Unit | str] | None


class FleetKeywords(TypedDict, total=False):
    """How jobs are spread over units."""

    fleet: FleetOptions


class RowsKeywords(FleetKeywords, total=False):
    """Where rows come from, and where they are kept."""

    store: str | None


class RunKeywords(ModelKeywords, ArtifactKeywords, ExecutionKeywords, RowsKeywords, total=False):
    """Of jobs that load a model and measure it."""


class TuneKeywords(ModelKeywords, MemoryKeywords, ExecutionKeywords, RowsKeywords, total=False):
    """Of jobs that make what a model is loaded with."""


class CompareKeywords(ShapeKeywords, MemoryKeywords, ExecutionKeywords, RowsKeywords, total=False):
    """Of jobs that measure two sides, each read as it says itself."""


class OpbenchKeywords(MemoryKeywords, HintKeywords, RowsKeywords, total=False):
    """Of jobs that measure kernels alone."""


class PlanKeywords(ModelKeywords, MemoryKeywords, FleetKeywords, total=False):
    """Of jobs that look at plans and run nothing."""


class ConvertKeywords(ModelKeywords, FleetKeywords, total=False):
    """Of jobs that make plans."""


LOG = logging.getLogger("farm")


def units(
    *, soc: Sequence[str] = (), device: Sequence[str] = (), tag: Sequence[str] = (), one_per_soc: bool = False
) -> list[Unit]:
    """All units: those of devices.yml and the phones that are plugged in; or those with one of the words of each kind.

    Raises NoUnitError, a FarmError, where a word fits none.
    """
    return lookup.chosen_units(Selection(tuple(soc), tuple(device), tuple(tag), one_per_soc=one_per_soc))


@accepts(RunKeywords, trust_models=False, fleet=FLEET)
def run(
    model: File,
    units: Units = None,
    *,
    rounds: int = 10,
    warmup: int = 1,
    validate: bool = False,
    layers: bool = False,
    inputs: Sequence[str] = (),
    output_folder: File | None = None,
    input_folder: File | None = None,
    example: bool = False,
    engines: Sequence[str] = (),
    **given: Unpack[RunKeywords],
) -> Iterator[RunRow]:
    """Runs the models of a deployment file and times them; a row for each unit, model and runtime.

    `validate` compares the outputs with those of the model's framework, `layers` every operator's. `inputs` are
    `FILE.npy` or `NAME=FILE.npy`; outputs are kept in `output_folder`. `input_folder` holds many samples instead, each
    of which runs once; the row's `samples` has their means and names the worst. `example` has the example application
    of the C API run the model, and compares its outputs. `engines` run it, farmrt among them or not (docs/engines.md);
    default: those of the deployment file.
    """
    deployment = _load(model, given)
    load, named = _loading(given), tuple(engines)
    folders = _path(output_folder), _path(input_folder)
    options = RunOptions(rounds, warmup, validate, layers, tuple(inputs), folders[0], load, folders[1], example, named)
    return _kept(given["store"], "run", run_job(deployment, _units_for(deployment, units), options, given["fleet"]))


@accepts(RunKeywords, trust_models=False, fleet=FLEET)
def engines(
    model: File,
    units: Units = None,
    *,
    engines: Sequence[str] = (),
    against: str = "",
    turns: int | None = None,
    rounds: int | None = None,
    warmup: int = 1,
    fresh: bool = False,
    **given: Unpack[RunKeywords],
) -> Iterator[EnginesRow]:
    """Runs the models of a deployment file in all engines, in turns; a row for each unit, model, engine and runtime.

    `engines`: farmrt and others (docs/engines.md); default: all that are installed here; `against` is a version
    that the one engine named is compared with. A row's `standing` says how much slower than
    the leader it is, and of the leader whether it is the fastest. Turns of an interrupted call are gone on from, unless
    it is to begin `fresh`.
    """
    deployment, load = _load(model, given), _loading(given)
    options = EnginesOptions(tuple(engines), against, turns, rounds, warmup, fresh, load)
    return _kept(
        given["store"], "engines", engines_job(deployment, _units_for(deployment, units), options, given["fleet"])
    )


@accepts(RunKeywords, trust_models=False, fleet=FLEET)
def benchmark(
    model: File, units: Units = None, *, rounds: int = 100, warmup: int = 1, **given: Unpack[RunKeywords]
) -> Iterator[BenchmarkRow]:
    """Profiles the models of a deployment file operator by operator; a row for each unit, model and runtime."""
    deployment = _load(model, given)
    options = BenchmarkOptions(rounds, warmup, _loading(given))
    return _kept(
        given["store"], "benchmark", benchmark_job(deployment, _units_for(deployment, units), options, given["fleet"])
    )


@accepts(OpbenchKeywords, fleet=FLEET)
def opbench(
    pattern: str = ".",
    units: Units = None,
    *,
    min_time_s: float = 0.2,
    all_variants: bool = False,
    precision: str | None = None,
    operators: Sequence[File] = (),
    **given: Unpack[OpbenchKeywords],
) -> Iterator[OpbenchRow]:
    """Times single operators: those benchmarks of each unit whose name the regular expression is found in.

    `operators` are modules or deployment files with custom operators, whose cases are benchmarks too.
    """
    executed = _executed(given)
    cases = cases_of_files([Path(file) for file in operators])
    options = OpbenchOptions(re.compile(pattern), min_time_s, all_variants, given["memory"], precision, executed, cases)
    return _kept(given["store"], "opbench", opbench_job(_named_or_all(units), options, given["fleet"]))


@accepts(TuneKeywords, trust_models=False, fleet=FLEET)
def tune(
    models: File | Sequence[File],
    units: Units = None,
    *,
    level: str = "quick",
    budget_s: float | None = None,
    selection: bool = True,
    **given: Unpack[TuneKeywords],
) -> Iterator[TuneRow]:
    """Tunes the kernels of models, and writes tuned parameters and compiled kernels below build/.

    A row for each unit and model, with its time before and after. `level` is quick, normal or exhaustive; `budget_s` is
    wall time for each model, everything included. With `selection` it first chooses where and how operators run.
    Without `units`, on all that there are.
    """
    sources = _load_all(models, given)
    executed = _executed(given)
    options = TuneOptions(SearchOptions(level, budget_s, given["memory"], selection=selection), executed)
    return _kept(given["store"], "tune", tune_job(sources, _named_or_all(units), options, given["fleet"]))


@accepts(ConvertKeywords, trust_models=False, fleet=FLEET)
def convert(
    model: File,
    units: Units = None,
    *,
    target_files: Sequence[File] = (),
    skip_missing: bool = False,
    **given: Unpack[ConvertKeywords],
) -> Iterator[ConvertRow]:
    """Writes the graph of each model as ONNX and, for each ABI and SoC, a plan with its weights, below build/.

    Where no `units` are named, plans are also made for the ABIs and SoCs of the deployment file that no unit is here
    for, from what is known of them: `target_files` hold what `farmrt probe` printed on such units. With `skip_missing`
    what cannot be made is logged, and gives no failed row.
    """
    deployment, files = _load(model, given), tuple(map(Path, target_files))
    chosen = units_to_ask(deployment, TargetFiles(files)) if units is None else _units_for(deployment, units)
    options = ConvertOptions(files, without_units=units is None, skip_missing=skip_missing)
    return convert_job(deployment, chosen, given["fleet"], options, LOG.warning)


@accepts(ModelKeywords, trust_models=False)
def quantize(
    model: File,
    data: File | None = None,
    *,
    method: str = "minmax",
    per_channel: bool = False,
    reduce_range: bool = False,
    weights_only: str | None = None,
    keep: Sequence[str] = (),
    equalize: bool = False,
    correct_bias: bool = False,
    rounding: str = "nearest",
    budget_sqnr_db: float | None = None,
    budget_accuracy_percent: float | None = None,
    ranges: File | None = None,
    output: File | None = None,
    units: Iterable[Unit | str] = (),
    **given: Unpack[ModelKeywords],
) -> Iterator[QuantizeRow]:
    """Writes each model in eight bits, as ONNX of QuantizeLinear and DequantizeLinear; a row for each.

    `data` is a folder of samples, whose values show each tensor's range; `ranges` a file of ranges instead. `method` is
    minmax, percentile, entropy or mse; `weights_only` int8 or int4; with `reduce_range` weights have seven bits;
    `rounding` is nearest or adaptive. The
    layers named in `keep` stay in float, and those that lose most until the budgets hold. `output` is the file, of one
    model; default: below build/. Both models are timed in turns on `units`.
    """
    weights = per_channel, reduce_range, weights_only or ""
    budget = LossBudget(budget_sqnr_db, budget_accuracy_percent)
    files = _path(ranges), _path(output)
    changes = equalize, correct_bias, rounding
    options = QuantizeOptions(_path(data), method, *weights, tuple(keep), *changes, budget, *files)
    return quantize_job(_load(model, given), options, units=_named(units))


@accepts(ModelKeywords, trust_models=False)
def build(
    models: File | Sequence[File] = (),
    *,
    abis: Sequence[str] = (),
    shared: bool = False,
    without: Sequence[str] = (),
    only_operators: bool = False,
    output_folder: File | None = None,
    **given: Unpack[ModelKeywords],
) -> list[Built]:
    """Compiles farmrt for ABIs: those given, else the target_abis of the deployment files, else this machine's.

    `shared` makes libfarmrt.so too; `without` leaves engines out (opencl, cpu), `only_operators` all that the models do
    not use. Raises a FarmError for the first ABI that cannot be compiled for.
    """
    sources = _load_all(models, given)
    features = needed_features(sources, without) if only_operators else chosen_features(without)
    options = BuildOptions(features, shared, _path(output_folder))
    return [build_one(abi, options) for abi in abis or abis_of(sources)]


@accepts(PlanKeywords, trust_models=False, fleet=FLEET)
def forecast(
    model: File, units: Units = None, *, target_file: File | None = None, **given: Unpack[PlanKeywords]
) -> Iterator[ForecastRow]:
    """Says where each operator will run and with how much memory; runs nothing.

    `target_file`, what `farmrt probe` printed on another unit, takes the place of units.
    """
    deployment = _load(model, given)
    if target_file:
        return forecast_for_file(deployment, Path(target_file), given["memory"])
    return forecast_job(deployment, _units_for(deployment, units), given["memory"], given["fleet"])


@accepts(PlanKeywords, trust_models=False, fleet=FLEET)
def inspect(
    model: File, units: Units = None, *, target_file: File | None = None, **given: Unpack[PlanKeywords]
) -> Iterator[InspectRow]:
    """Says what the plans of a deployment file hold: operators, and tensors with origin and storage; runs nothing.

    `model` may be a plan file (`*.plan`), which needs no unit; `target_file` as in `forecast`.
    """
    if Path(model).suffix == ".plan":
        return iter([inspect_plan_file(Path(model))])
    deployment = _load(model, given)
    if target_file:
        return inspect_for_file(deployment, Path(target_file), given["memory"])
    return inspect_job(deployment, _units_for(deployment, units), given["memory"], given["fleet"])


@accepts(CompareKeywords, fleet=FLEET)
def compare(
    a: str,
    b: str,
    model: File | None = None,
    units: Units = None,
    *,
    turns: int = 10,
    margin_percent: float | None = None,
    runtimes: tuple[Runtime, ...] = ("cpu", "gpu"),
    fresh: bool = False,
    **given: Unpack[CompareKeywords],
) -> Iterator[CompareRow]:
    """Compares two stored runs, two models, or two engines or builds of farm that run `model`; as the CLI names them.

    `store` holds the stored runs (default: reports/farm.db), and keeps the rows where it is given. Turns that an
    interrupted call has measured are gone on from, unless it is to begin `fresh`.
    """
    kind = sides.common_kind(a, b, given["store"])
    if kind == "run":
        return _kept(
            given["store"], "compare", iter(sides.compare_stored(a, b, given["store"], margin_percent, LOG.warning))
        )
    file = None if model is None else samples.deployment_file(str(model))
    both = sides.contenders(kind, a, b, file, given_shapes(given["shapes"]), _path(given["weights"]))
    margin_percent = sides.MARGIN_PERCENT if margin_percent is None else margin_percent
    executed = _executed(given)
    options = CompareOptions(
        turns, margin_percent, runtimes, given["memory"], secrets.randbelow(2**32), executed, fresh=fresh
    )
    chosen = _units_for(both[0].source, units)
    return _kept(given["store"], "compare", compare_job(both, chosen, options, given["fleet"]))


def nightly(
    file: File,
    *,
    resume: bool = False,
    trust_models: bool = False,
    fleet: FleetOptions = FLEET,
    store: str | None = None,
    share: str | None = None,
) -> Night:
    """Measures the night of a nightly.yml, and decides what has become worse; kept in the store in any case.

    `report` writes its pages. `resume` goes on with the last run of the file, which was interrupted. `share`: the place
    where hosts leave their bundles for each other.
    """
    nightly_file = configuration.load(Path(file))
    places = places_of(nightly_file, trust_models)
    run = (
        nightly_run.resumed(store, nightly_file)
        if resume
        else nightly_run.begun(nightly_file, "farm.nightly()", working_commit())
    )
    job = functools.partial(nightly_job, places, fleet=fleet)
    shared = SharedPlace(share) if share else None
    keeper = Recorder(store, run, LOG.warning)
    return nightly_run.measure(keeper, nightly_file, job, fleet.retries, LOG.info, shared)


def report(
    folder: File,
    *,
    run: str = LATEST,
    baseline: str = SERIES,
    formats: Iterable[str] = tuple(ReportFormat),
    store: str | None = None,
) -> ReportFiles:
    """Writes the report of a stored night into a folder; what is there already is replaced as a whole."""
    with Store.open_to_read(store) as opened:
        night = load_night(opened, find_run(opened, run.removeprefix(PREFIX)).id, baseline)
    return write_reports(night, Path(folder), [ReportFormat(name) for name in formats])


def _load(model: File, given: ModelKeywords) -> Deployment:
    return deployments.load(_given(model, given))


def _given(model: File, given: ModelKeywords) -> GivenModel:
    path, weights = samples.deployment_file(str(model)), _path(given["weights"])
    runtimes = tuple(given["runtimes"] or ())
    return GivenModel(path, given_shapes(given["shapes"]), weights, given["trust_models"], runtimes)


def _load_all(models: File | Sequence[File], given: ModelKeywords) -> list[Deployment]:
    named = [models] if isinstance(models, str | Path) else models
    if len(named) != 1 and (given["shapes"] or given["weights"]):
        raise ConfigError("shapes and weights are of one model file: name it alone")
    return deployments.load_all(_given(model, given) for model in named)


def _loading(given: RunKeywords) -> LoadOptions:
    tuned, kernels, selection = (_path(given[name]) for name in ("tuned", "kernels", "selection"))
    return with_existing_files(LoadOptions(tuned, kernels, given["memory"], _executed(given), selection))


def _executed(given: HintKeywords) -> Execution:
    values: dict[str, Any] = {name: given.get(name) for name in names_of(ExecutionKeywords)}
    return execution.checked(**values)


def _path(file: File | None) -> Path | None:
    return None if file is None else Path(file)


def _units_for(deployment: Deployment, units: Units) -> list[Unit]:
    return lookup.units_for(deployment) if units is None else _named(units)


def _named_or_all(units: Units) -> list[Unit]:
    return lookup.chosen_units(ANY) if units is None else _named(units)


def _named(units: Iterable[Unit | str]) -> list[Unit]:
    """Units as they are, and those that are named, in the given order; a single name is one of them."""
    given = [units] if isinstance(units, str) else list(units)
    names = tuple(name for name in given if isinstance(name, str))
    chosen = lookup.chosen_units(Selection(devices=names)) if names else []
    known = {word: unit for unit in chosen for word in (unit.name, unit.serial)}
    return [known[unit] if isinstance(unit, str) else unit for unit in given]


def _kept(store: str | None, name: str, rows: Iterator[RowType]) -> Iterator[RowType]:
    """The rows, each kept as it comes where a store is named."""
    if store is None:
        yield from rows
        return
    with Recorder(store, new_run(name, f"farm.{name}()", working_commit()), LOG.warning) as keeper:
        yield from keeper.recorded(rows)

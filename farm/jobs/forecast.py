"""`farm forecast`: lowers each model for a unit that is there, or for one that a file describes; runs nothing."""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from farm import soc
from farm.config.deployment import Deployment, Runtime
from farm.config.fields import Abi
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.choices.costs import KnownCosts, known_costs
from farm.jobs.choices.model_choice import ModelChoice, memory_goal, model_choice, ms_by_data_type
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import plan_settings, rows_of_each, rows_without_unit
from farm.jobs.fleet.planner import choose_target
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, plan_data_type, prepare_all
from farm.jobs.targets import TargetFiles, TargetPair, known_facts, nothing_known
from farm.plans.forecast import cheapest_plan, forecast, with_costs
from farm.rows.forecast import CheapestPlan, ForecastResult, ForecastRow
from farm.rows.row import Provenance, row_fingerprint
from farm.units.target_files import read_target_file
from runtime.lowering.assembly import assemble_plan
from runtime.lowering.lower import emit_launches
from runtime.native.abi import HOST as HOST_ABI
from runtime.selection.calibration import by_key
from runtime.selection.candidates import Candidates
from runtime.selection.precisions import allowed_precisions, candidates_in_each, select_in_each
from runtime.target import Target
from runtime.types import Precisions

LOG = logging.getLogger("farm.jobs")

ABI_OF_PHONES: Abi = "arm64-v8a"


def forecast_job(
    deployment: Deployment, units: Sequence[Unit], memory: str | None = None, fleet: FleetOptions = FLEET
) -> Iterator[ForecastRow]:
    """A row for each unit, model and runtime."""

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> ForecastResult:
        target = opened.planner.target(prepared, runtime, memory)
        return _result(prepared, target, opened.planner.model_choice(prepared, runtime, target, memory), memory)

    yield from rows_of_each(ForecastRow, prepare_all(deployment), units, measure, plan_settings, fleet)


def forecast_for_soc(deployment: Deployment, key: str, memory: str | None = None) -> Iterator[ForecastRow]:
    """A row for each model and runtime on a SoC that no unit is of, from what is stored or shipped of it."""
    abi = next((abi for abi in deployment.target_abis if abi != HOST_ABI), ABI_OF_PHONES)
    pair = TargetPair(abi, soc.normalise(key))
    facts = known_facts(pair, TargetFiles(()))
    if facts is None:
        raise nothing_known(pair)
    yield from _rows_without_unit(deployment, pair.unit, facts.probe, memory)


def forecast_for_file(deployment: Deployment, target_file: Path, memory: str | None = None) -> Iterator[ForecastRow]:
    """A row for each model and runtime, for the unit that a file describes (what `farmrt probe` printed there)."""
    yield from _rows_without_unit(deployment, *read_target_file(target_file), memory)


def _rows_without_unit(
    deployment: Deployment, unit: Unit, probe: ProbeAnswer, memory: str | None
) -> Iterator[ForecastRow]:
    def result(prepared: Prepared, runtime: Runtime) -> ForecastResult:
        target = choose_target(unit, probe, prepared, runtime, memory)
        return _result(prepared, target, model_choice(unit, probe, prepared, runtime, target, memory), memory)

    yield from rows_without_unit(ForecastRow, prepare_all(deployment), unit, result, plan_settings)


def _result(prepared: Prepared, target: Target, way: ModelChoice, memory: str | None) -> ForecastResult:
    """The plan that a unit would run, what it costs, and the plan that the costs would choose."""
    target = way.target(target)
    builder = emit_launches(prepared.graph, target, way.options(prepared))
    known = known_costs(target, prepared.settings.execution)
    is_chosen = target.memory != "cpu" and memory is None
    candidates = _candidates(prepared, target) if is_chosen else {}
    every = itertools.chain(builder.launches, *(each.launches() for each in candidates.values()))
    known = known.calibrated(by_key(every))
    plan = assemble_plan(builder)
    figures = with_costs(forecast(plan), builder.launches, known.costs())
    more = {
        "format_conversions": len(builder.conversions),
        "cost_source": known.family_source if "family" in figures.cost_origins else "",
        "measured_peaks": {each.value: value for each, value in known.peaks.figures.items()},
        "model_scales": {each.value: scale for each, scale in known.scales.items()},
        "selection": way.planned.use,
        "cheapest": _cheapest(prepared, candidates, known) if is_chosen else None,
    }
    for refused in known.refused:
        LOG.warning("not used for costs: %s", refused)
    return ForecastResult(
        provenance=Provenance(fingerprint=row_fingerprint(target), settings={"data_type": plan_data_type(plan)}),
        figures=figures.model_copy(update=more),
    )


def _candidates(prepared: Prepared, target: Target) -> dict[Precisions, Candidates]:
    """What can be chosen, in the precisions that the deployment file allows."""
    allowed = allowed_precisions(prepared.precisions(target.fp16))
    return candidates_in_each(prepared.graph, target, allowed, prepared.options())


def _cheapest(prepared: Prepared, candidates: Mapping[Precisions, Candidates], known: KnownCosts) -> CheapestPlan:
    """The plan that the costs choose."""
    found = select_in_each(candidates, known.costs(), memory_goal(prepared.settings))
    plan = cheapest_plan(prepared.graph, next(iter(found.values())))
    if len(found) < 2:
        return plan
    by_data_type = ms_by_data_type(found)
    return plan.model_copy(update={"data_type": next(iter(by_data_type)), "by_data_type": by_data_type})

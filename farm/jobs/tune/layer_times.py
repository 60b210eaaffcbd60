"""What each layer of a model takes on the units in eight bits and in float, for `quantize_within` to choose by."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from farm.config.deployment import Deployment
from farm.config.execution import Execution
from farm.config.inventory import Unit
from farm.jobs.benchmark import BenchmarkOptions, benchmark_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import prepare
from farm.model.fetch import Fetcher
from farm.quantization import by_keys
from farm.quantization.cheapest import LayerTimes
from farm.quantization.layers import layers_of
from farm.rows.benchmark import BenchmarkRow, ProfiledOperator
from farm.rows.status import Status
from farm.workspace import Workspace

TURNS, ROUNDS = 3, 10
WHOLE, INTO, OUT_OF = "whole:", "into:", "out of:"  # beside the names of layers
CONVERSION = "eight bits"  # ends the note of a step that writes bytes

Owners = Mapping[str, str]


def time_layers(
    source: Deployment, units: Sequence[Unit], execution: Execution, fleet: FleetOptions, progress: ProgressView
) -> None:
    """Keeps the times of the layers of each model that has `quantize_within`; of several units and runtimes their mean.

    The model with all layers in eight bits and the one with none run in turns. Nothing is kept where neither ran.
    """
    names = [name for name, model in source.models.items() if model.quantize_within is not None]
    if not names:
        return
    options = BenchmarkOptions(ROUNDS, load=LoadOptions(execution=execution))
    ways = {limit: _limited(source, names, limit) for limit in (by_keys.NONE, by_keys.ALL)}
    rows: dict[float, list[BenchmarkRow]] = {limit: [] for limit in ways}
    for turn in range(TURNS):
        for limit, each in ways.items():
            way = "in float" if limit == by_keys.NONE else "in eight bits"
            for unit in units:
                progress.stage(unit.name, f"layers {way}: turn {turn + 1} of {TURNS}")
            rows[limit] += [
                row for row in benchmark_job(each, units, options, fleet, progress) if row.status == Status.OK
            ]
    for name in names:
        floats, in_bytes = ([row for row in of_way if row.model == name] for of_way in rows.values())
        if floats and in_bytes:
            model = prepare(ways[by_keys.NONE], name, Fetcher(ways[by_keys.NONE])).source
            owners = {node: layer.name for layer in layers_of(model) for node in layer.nodes}
            file = Workspace(source.library_name).quantized_file(name)
            layer_times(owners, floats, in_bytes).keep(by_keys.times_file(file))


def _limited(source: Deployment, names: Sequence[str], limit: float) -> Deployment:
    models = {name: source.models[name].model_copy(update={"quantize_within": limit}) for name in names}
    return source.model_copy(update={"models": models})


def layer_times(owners: Owners, floats: Sequence[BenchmarkRow], in_bytes: Sequence[BenchmarkRow]) -> LayerTimes:
    """The mean over units and runtimes of each layer's share of the time in float; `owners`: of nodes, their layers.

    A time is the median of the turns: the mean of one may have an interruption in it.
    """
    lanes = sorted({_lane(row) for row in floats} & {_lane(row) for row in in_bytes})
    shares: list[list[dict[str, float]]] = [[], []]
    for lane in lanes:
        of_floats, of_bytes = (
            _medians([_spent(owners, row) for row in rows if _lane(row) == lane]) for rows in (floats, in_bytes)
        )
        whole = of_floats.pop(WHOLE) or 1.0
        for kept, found in zip(shares, (of_floats, of_bytes), strict=True):
            kept.append({name: ms / whole for name, ms in found.items()})
    in_float, found = (
        {name: statistics.fmean(each.get(name, 0.0) for each in of_way) for name in [*owners.values(), INTO, OUT_OF]}
        for of_way in shares
    )
    rates = found.pop(INTO), found.pop(OUT_OF)
    return LayerTimes(in_bytes=found, in_float={name: in_float[name] for name in found}, into=rates[0], out_of=rates[1])


def _lane(row: BenchmarkRow) -> tuple[str, str]:
    return row.unit, row.runtime


def _medians(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(turn.get(name, 0.0) for turn in turns) for name in {*itertools.chain(*turns)}}


def _spent(owners: Owners, row: BenchmarkRow) -> dict[str, float]:
    """Times in ms, of an element that is converted too; what belongs to no layer counts for the whole alone."""
    found = {WHOLE: sum(op.avg_ms for op in row.ops), INTO: _per_element(row, True), OUT_OF: _per_element(row, False)}
    for op in row.ops:
        if layer := _layer(owners, op):
            found[layer] = found.get(layer, 0.0) + op.avg_ms
    return found


def _layer(owners: Owners, op: ProfiledOperator) -> str:
    """The layer of a step, which is named for its node, or for that and what of it the step does."""
    name = op.name
    while name and name not in owners:
        name = name.rpartition("/")[0]
    return owners.get(name, "")


def _per_element(row: BenchmarkRow, into: bool) -> float:
    """What converting an element takes in ms."""
    steps = [op for op in row.ops if "Quantize" in op.type]
    spent = [op for op in steps if op.note.endswith(CONVERSION) == into] or steps
    elements = sum(math.prod(op.output_shape) for op in spent)
    return sum(op.avg_ms for op in spent) / elements if elements else 0.0

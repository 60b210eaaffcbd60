"""How fast networks of the zoo are in eight bits on the runtime cpu, beside floats and ONNX Runtime, as a table."""

from __future__ import annotations

import contextlib
import functools
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from benchmarks.engines import Farmrt, OnnxRuntime, cores, test_inputs
from benchmarks.interleaving import ContenderTimes, measure_interleaved
from benchmarks.machine import Others, machine
from benchmarks.scratch import scratch
from farm.config.execution import Execution
from farm.config.given_model import GivenModel
from farm.config.inventory import HOST
from farm.jobs.fleet.opening import open_unit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared, prepare
from farm.model import deployments, fetch
from farm.model.reference_process import ReferenceProcess
from farm.quantization import layers, qdq
from farm.quantization.calibration import Calibration
from farm.quantization.methods import chosen_range
from runtime import zoo
from runtime.statistics.ratios import ratio_of_pairs

NETWORKS = (
    *("mobilenet_v1", "mobilenet_v2", "squeezenet_v11", "resnet50", "inception_v3"),
    *("vit_tiny", "bert_mini"),
)
THREADS = (1, 2)
LIMIT_S = 20.0  # of one comparison in turns


def table(networks: list[str], turns: int) -> Iterator[str]:
    """The lines: our latency in eight bits, and its ratio to the others' of pairs of turns."""
    others = Others()
    yield "| | threads | ms | over float | over ONNX Runtime's QDQ | where it cuts no sums off |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for network in networks:
        with TemporaryDirectory() as folder:
            floats, whole = _models(network, Path(folder))
            for threads in THREADS:
                own, *beside = _measured(floats, whole, threads, turns)
                cells = [
                    f"{statistics.median(map(statistics.median, own.turns)):.1f}",
                    *(_over(own, x) for x in beside),
                ]
                yield f"| {network} | {threads} | {' | '.join(cells)} |"
    busy = others.cores()
    state = "busy: " if busy > 0.1 * cores() else ""
    yield ""
    yield f"{machine().cpu}, {cores()} cores; {state}other work took {busy:.1f} of them meanwhile. Per channel, minmax."


def _models(network: str, folder: Path) -> tuple[Prepared, Prepared]:
    """A network in float and in QDQ, with ranges of its validation inputs."""
    source = zoo.from_url(f"zoo://{network}")
    floats = _prepared(source, folder / f"{network}.onnx")
    process = ReferenceProcess(is_exact=True)
    model = layers.float_model(floats.standard(), process)
    parts = layers.layers_of(model)
    names = layers.activations(model, parts)
    calibration = Calibration(process, model, names, folder / "ranges.npz")
    calibration.run({"validation": functools.partial(test_inputs, floats)}, lambda done: None)
    ranges = {name: chosen_range("minmax", calibration.histograms[name]) for name in names}
    return floats, _prepared(qdq.quantized(model, parts, ranges, per_channel=True), folder / f"{network}_qdq.onnx")


def _prepared(model: onnx.ModelProto, path: Path) -> Prepared:
    path.write_bytes(model.SerializeToString())
    shapes = (
        (each.name, tuple(dim.dim_value or 1 for dim in each.type.tensor_type.shape.dim)) for each in model.graph.input
    )
    source = deployments.load(GivenModel(path, tuple(shapes), None, False))
    (name,) = source.models
    return prepare(source, name, fetch.Fetcher(source))


def _measured(floats: Prepared, whole: Prepared, threads: int, turns: int) -> list[ContenderTimes]:
    """Ours in eight bits, ours in float, and ONNX Runtime in eight bits, by default and exactly."""
    inputs, options = test_inputs(floats), LoadOptions(tuned=NO_ARTIFACT)
    with contextlib.ExitStack() as stack:
        stack.enter_context(scratch())
        opened = stack.enter_context(open_unit(HOST))
        ours = [
            Farmrt(
                name,
                stack.enter_context(opened.twin()),
                given.with_execution(Execution(num_threads=threads)),
                inputs,
                options,
                "cpu",
            )
            for name, given in {"int8": whole, "float": floats}.items()
        ]
        theirs = [OnnxRuntime(whole.source, inputs, threads, exact) for exact in (False, True)]
        return measure_interleaved([*ours, *theirs], turns, LIMIT_S)


def _over(own: ContenderTimes, other: ContenderTimes) -> str:
    own_ms, other_ms = ([statistics.median(turn) for turn in lane.turns] for lane in (own, other))
    ratio = ratio_of_pairs(own_ms, other_ms)
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else other.reason or "-"

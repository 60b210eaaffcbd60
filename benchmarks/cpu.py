"""Measures the runtime cpu on whole models, in turns with another engine on as many threads.

    python benchmarks/cpu.py [--models A,B.tflite] [--sizes 7,128] [--batch 1,8] [--threads 1,2] [--turns N] [--tune]
        [--isa avx2] [--opencl system,intel] [--reading]

A line for each network, number of threads and way to run it: the medians in ms, and farm's time over the other's with
the 95 % interval of the ratio in pairs of turns. Networks of the zoo run beside ONNX Runtime, and outputs that differ
from its are told; those of keras.applications, made as .tflite files with seeded weights (extra `tensorflow`), beside
LiteRT on the very file. The other engine uses the best instructions, whatever `--isa` says; avx2_only.py keeps all from
AVX-512. OpenCL's drivers use all cores. `--reading`: also over what this process takes to read as many bytes as the
model's weights and inputs are.
"""

import contextlib
import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import onnx

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from benchmarks.engines import Farmrt, LiteRt, OnnxRuntime, Reading, WithInstructions, test_inputs
from benchmarks.framework_networks import make_apart
from benchmarks.interleaving import beside, measure_interleaved
from benchmarks.scratch import scratch
from farm.config import deployment
from farm.config.deployment import Runtime
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.fleet.opencl_library import find_opencl
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared, prepare
from farm.jobs.tune.cpu import tune_cpu
from farm.model import fetch
from farm.rows.status import Status
from runtime.graph import Array
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tuner.budget import Deadline

LIMIT_S = 20.0  # of one comparison in turns
LITERT = ".tflite"
FLOAT_BYTES = 4

Engine = Callable[[Mapping[str, Array], int], OnnxRuntime | LiteRt]  # of inputs and threads


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to run a model; `opencl`: the origin of a driver."""

    name: str
    options: LoadOptions
    runtime: Runtime = "cpu"
    opencl: str = ""

    @property
    def library(self) -> str | None:
        """Path of the driver; None without one."""
        return find_opencl(HOST, self.opencl) if self.opencl else None


NOT_TUNED = LoadOptions(NO_ARTIFACT, NO_ARTIFACT)


@click.command()
@click.option("--models", default=",".join(networks.zoo_names()), show_default=True, help="Also NAME?size=N.")
@click.option("--sizes", default="", help="Each network of the zoo at these sizes, by commas, instead of its own.")
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, by commas.")
@click.option("--turns", type=click.IntRange(MINIMUM_ROUNDS), default=15, show_default=True)
@click.option("--tune", is_flag=True, help="Also as `farm tune` chooses.")
@click.option("--isa", default="", help="Also with these instructions, such as avx2 where the CPU has more.")
@click.option("--batch", default="1", show_default=True, help="Images or sequences of the zoo's networks, by commas.")
@click.option("--opencl", default="", help="Also on these OpenCL drivers, such as system,intel.")
@click.option("--reading", is_flag=True, help="Also over a read of the model's weights and inputs from memory.")
def main(
    models: str, sizes: str, threads: str, turns: int, tune: bool, isa: str, batch: str, opencl: str, reading: bool
) -> None:
    """Latency on the CPU beside ONNX Runtime, or LiteRT."""
    specs = [f"{name}?size={size}" if size else name for name in models.split(",") for size in sizes.split(",")]
    ways = [Way("default", NOT_TUNED), *([Way("tuned", LoadOptions())] if tune else [])]
    if isa:
        ways.append(Way(isa, dataclasses.replace(NOT_TUNED, execution=WithInstructions(isa=isa))))
    ways += [Way(origin, NOT_TUNED, "gpu", origin) for origin in opencl.split(",") if origin]
    with scratch(), open_unit(HOST) as opened:
        for name, number in itertools.product(specs, map(int, batch.split(","))):
            with _application(name) if name.endswith(LITERT) else _of_zoo(name, number) as (prepared, engine):
                for count in map(int, threads.split(",")):
                    for line in _lines(opened, prepared, engine, count, turns, ways, reading):
                        click.echo(line)


@contextlib.contextmanager
def _of_zoo(name: str, batch: int) -> Iterator[tuple[Prepared, Engine]]:
    with networks.zoo_networks([name], batch=batch) as (network,):
        prepared = network.prepared()
        yield prepared, lambda inputs, threads: OnnxRuntime(prepared.source, inputs, threads)


@contextlib.contextmanager
def _application(file: str) -> Iterator[tuple[Prepared, Engine]]:
    name = file.removesuffix(LITERT)
    with TemporaryDirectory(prefix="farm-litert.") as folder:
        make_apart("litert_application", Path(folder), name)
        source = deployment.load(Path(folder, f"{name}.yml"))
        prepared = prepare(source, name, fetch.Fetcher(source))
        yield prepared, lambda inputs, threads: LiteRt(Path(folder, file), inputs, threads)


def _lines(
    opened: OpenUnit, prepared: Prepared, engine: Engine, threads: int, turns: int, ways: Sequence[Way], reading: bool
) -> Iterator[str]:
    """One line for each way to run the model."""
    given = prepared.with_execution(Execution(num_threads=threads))
    inputs = test_inputs(prepared)
    if any(way.name == "tuned" for way in ways):
        tune_cpu(opened, given, Deadline())
    with contextlib.ExitStack() as stack:
        reference = engine(inputs, threads)
        loaded = [
            Farmrt(
                way.name, stack.enter_context(opened.twin(opencl=way.library)), given, inputs, way.options, way.runtime
            )
            for way in ways
        ]
        memory = [Reading(bytes_read(prepared.source), threads)] if reading else []
        others = [reference, *memory]
        measured = measure_interleaved([*others, *loaded], turns, LIMIT_S)
        lanes = measured[len(others) :]
        for lane, own in zip(lanes, loaded, strict=True):
            wrong = _wrong(own, reference) if isinstance(reference, OnnxRuntime) else ""
            ratios = "; ".join(beside(lane, other) for other in measured[: len(others)])
            yield f"{prepared.name}, {threads} threads, {own.name}: {ratios}{wrong}"


def _wrong(own: Farmrt, reference: OnnxRuntime) -> str:
    """What is wrong with the outputs of the last round."""
    status, reason = own.verdict(reference.outputs)
    return "" if status == Status.OK else f"; {status}: {reason}"


def bytes_read(model: onnx.ModelProto) -> int:
    """Bytes of weights and inputs, all of which a round reads; but a few rows of tables that are gathered from."""
    tables = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    shapes: list[Sequence[int]] = [tensor.dims for tensor in model.graph.initializer if tensor.name not in tables]
    shapes += map(networks.closed_shape, model.graph.input)
    return FLOAT_BYTES * sum(map(math.prod, shapes))


if __name__ == "__main__":
    main()

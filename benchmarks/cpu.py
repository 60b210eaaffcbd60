"""Measures the runtime cpu on whole models, in turns with another engine on as many threads.

    python benchmarks/cpu.py [--models A,B.tflite] [--threads 1,2] [--turns N] [--tune] [--isa avx2] [--batch N]

A line for each network and number of threads: the medians in ms, and farm's time over the other's with the 95 %
interval of the ratio in pairs of turns. Networks of the zoo run beside ONNX Runtime; those of keras.applications, which
are made as .tflite files with seeded weights (extra `tensorflow`), beside LiteRT on the very file. The other engine
uses the CPU's best instructions, whatever `--isa` says.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from benchmarks.engines import Farmrt, LiteRt, OnnxRuntime, WithInstructions, test_inputs
from benchmarks.framework_networks import make_apart
from benchmarks.interleaving import Contender, beside, measure_interleaved
from benchmarks.scratch import scratch
from farm.config import deployment
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared, prepare
from farm.jobs.tune.cpu import tune_cpu
from farm.model import fetch
from runtime.graph import Array
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tuner.budget import Deadline

LIMIT_S = 20.0  # of one comparison in turns
LITERT = ".tflite"

Engine = Callable[[Mapping[str, Array], int], Contender]  # what a model runs in beside farm, of inputs and threads


@click.command()
@click.option("--models", default=",".join(networks.zoo_names()), show_default=True, help="Also NAME?size=N.")
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, by commas.")
@click.option("--turns", type=click.IntRange(MINIMUM_ROUNDS), default=15, show_default=True)
@click.option("--tune", is_flag=True, help="Also as `farm tune` chooses.")
@click.option("--isa", default="", help="Also with these instructions, such as avx2 where the CPU has more.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Of networks of images.")
def main(models: str, threads: str, turns: int, tune: bool, isa: str, batch: int) -> None:
    """Latency on the CPU beside ONNX Runtime, or LiteRT."""
    for name in models.split(","):
        with _application(name) if name.endswith(LITERT) else _of_zoo(name, batch) as (prepared, engine):
            for number in map(int, threads.split(",")):
                with scratch(), open_unit(HOST) as opened:
                    for line in _lines(opened, prepared, engine, number, turns, tune, isa):
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
    opened: OpenUnit, prepared: Prepared, engine: Engine, threads: int, turns: int, tune: bool, isa: str
) -> Iterator[str]:
    """One line for each way to run the model."""
    execution = Execution(num_threads=threads)
    given = prepared.with_execution(execution)
    inputs = test_inputs(prepared)
    ways = {"default": LoadOptions(tuned=NO_ARTIFACT)}
    if tune:
        tune_cpu(opened, given, Deadline())
        ways["tuned"] = LoadOptions()
    if isa:
        ways[isa] = LoadOptions(tuned=NO_ARTIFACT, execution=WithInstructions(isa=isa))
    with contextlib.ExitStack() as stack:
        engines = [
            Farmrt(name, stack.enter_context(opened.twin()), given, inputs, options, "cpu")
            for name, options in ways.items()
        ]
        reference, *lanes = measure_interleaved([engine(inputs, threads), *engines], turns, LIMIT_S)
    for lane in lanes:
        yield f"{prepared.name}, {threads} threads, {lane.contender.name}: {beside(lane, reference)}"


if __name__ == "__main__":
    main()

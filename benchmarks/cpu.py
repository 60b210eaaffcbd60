"""Measures the runtime cpu on whole models, in turns with ONNX Runtime on as many threads.

    python benchmarks/cpu.py [--models A,B] [--threads 1,2] [--turns N] [--tune] [--isa avx2] [--batch N]

A line for each network and number of threads: the medians in ms, and farm's time over ONNX Runtime's with the 95 %
interval of the ratio in pairs of turns. ONNX Runtime uses the CPU's best instructions, whatever `--isa` says.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from benchmarks.engines import Farmrt, OnnxRuntime, test_inputs
from benchmarks.interleaving import beside, measure_interleaved
from benchmarks.scratch import scratch
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared
from farm.jobs.tune.cpu import tune_cpu
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tuner.budget import Deadline

LIMIT_S = 20.0  # of one comparison in turns


@dataclasses.dataclass(frozen=True)
class WithInstructions(Execution):
    """An execution by other instructions than the CPU's best; farmrt's name for them (cpu_dispatch.c)."""

    isa: str = ""

    @property
    def words(self) -> dict[str, int | str | None]:
        """See Execution."""
        return {**super().words, "isa": self.isa}

    def over(self, other: Execution) -> Execution:
        """See Execution."""
        return dataclasses.replace(self, **other.given)  # type: ignore[arg-type]  # of the same names and types


@click.command()
@click.option("--models", default=",".join(networks.zoo_names()), show_default=True, help="Also NAME?size=N.")
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, by commas.")
@click.option("--turns", type=click.IntRange(MINIMUM_ROUNDS), default=15, show_default=True)
@click.option("--tune", is_flag=True, help="Also as `farm tune` chooses.")
@click.option("--isa", default="", help="Also with these instructions, such as avx2 where the CPU has more.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Of networks of images.")
def main(models: str, threads: str, turns: int, tune: bool, isa: str, batch: int) -> None:
    """Latency on the CPU beside ONNX Runtime."""
    with networks.zoo_networks(models.split(","), batch=batch) as found:
        for network in found:
            for number in map(int, threads.split(",")):
                with scratch(), open_unit(HOST) as opened:
                    for line in _lines(opened, network.prepared(), number, turns, tune, isa):
                        click.echo(line)


def _lines(opened: OpenUnit, prepared: Prepared, threads: int, turns: int, tune: bool, isa: str) -> Iterator[str]:
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
    onnxruntime = OnnxRuntime(prepared.source, inputs, threads)
    with contextlib.ExitStack() as stack:
        engines = [
            Farmrt(name, stack.enter_context(opened.twin()), given, inputs, options, "cpu")
            for name, options in ways.items()
        ]
        reference, *lanes = measure_interleaved([onnxruntime, *engines], turns, LIMIT_S)
    for engine, lane in zip(engines, lanes, strict=True):
        yield f"{prepared.name}, {threads} threads, {engine.name}: {beside(lane, reference)}"


if __name__ == "__main__":
    main()

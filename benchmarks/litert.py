"""Measures the runtime cpu in turns with LiteRT on as many threads, both from the same .tflite files.

    python -m benchmarks.litert [--models A,B] [--threads 1,2] [--turns N]

Networks of keras.applications with seeded weights. A line for each network and number of threads: the medians in ms,
and farm's time over LiteRT's with the 95 % interval of the ratio in pairs of turns. Needs the extra `tensorflow`.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from benchmarks.engines import Farmrt, InThisProcess, test_inputs
from benchmarks.framework_networks import make_apart
from benchmarks.interleaving import beside, measure_interleaved
from benchmarks.scratch import scratch
from farm.config import deployment
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared, prepare
from farm.model import fetch
from runtime.graph import Array
from runtime.statistics.ratios import MINIMUM_ROUNDS

NETWORKS = ("MobileNet", "MobileNetV2", "MobileNetV3Large", "EfficientNetB0", "ResNet50", "InceptionV3")
LIMIT_S = 20.0  # of one comparison in turns


class LiteRt(InThisProcess):
    """LiteRT's interpreter with its default delegate (XNNPACK)."""

    name = "LiteRT"

    def __init__(self, model: Path, inputs: Mapping[str, Array], threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter: Any = Interpreter(str(model), num_threads=threads)
        self._interpreter.allocate_tensors()
        for detail, values in zip(self._interpreter.get_input_details(), inputs.values(), strict=True):
            self._interpreter.set_tensor(detail["index"], values)

    def compute(self) -> None:
        """See InThisProcess."""
        self._interpreter.invoke()


@click.command(help=__doc__)
@click.option("--models", default=",".join(NETWORKS), show_default=True)
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, by commas.")
@click.option("--turns", type=click.IntRange(MINIMUM_ROUNDS), default=15, show_default=True)
def main(models: str, threads: str, turns: int) -> None:
    with TemporaryDirectory(prefix="farm-litert.") as name:
        for network in models.split(","):
            prepared = _prepared(Path(name), network)
            for number in map(int, threads.split(",")):
                with scratch(), open_unit(HOST) as opened:
                    click.echo(_line(opened, prepared, Path(name) / f"{network}.tflite", number, turns))


def _prepared(folder: Path, network: str) -> Prepared:
    """Makes a network and converts it."""
    make_apart("litert_application", folder, network)
    source = deployment.load(folder / f"{network}.yml")
    return prepare(source, network, fetch.Fetcher(source))


def _line(opened: OpenUnit, prepared: Prepared, model: Path, threads: int, turns: int) -> str:
    inputs = test_inputs(prepared)
    given = prepared.with_execution(Execution(num_threads=threads))
    own = Farmrt("farm", opened, given, inputs, LoadOptions(tuned=NO_ARTIFACT), "cpu")
    reference, lane = measure_interleaved([LiteRt(model, inputs, threads), own], turns, LIMIT_S)
    return f"{prepared.name}, {threads} threads: {beside(lane, reference)}"


if __name__ == "__main__":
    main()

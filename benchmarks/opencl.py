"""Measures models on an OpenCL driver of this machine, by default and as tuned, in turns with ONNX Runtime.

    python benchmarks/opencl.py [--models A,B] [--opencl intel] [--level quick] [--turns N]

A line for each network and way to run it: the medians in ms, and farm's time over ONNX Runtime's with the 95 % interval
of the ratio in pairs of turns; `tuned` also says what the tuning took and for how many launches it found a faster one.
Without --level nothing is tuned.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from benchmarks.engines import Farmrt, OnnxRuntime, test_inputs
from benchmarks.interleaving import beside, measure_interleaved
from benchmarks.networks import Network
from benchmarks.scratch import scratch
from farm.config.inventory import HOST
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from farm.rows.tune import TuneRow
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tuner.search import LEVELS

LIMIT_S = 20.0  # of one comparison in turns
UNTUNED = LoadOptions(tuned=NO_ARTIFACT, kernels=NO_ARTIFACT, selection=NO_ARTIFACT)


@click.command()
@click.option("--models", default=",".join(networks.zoo_names()), show_default=True)
@click.option("--opencl", default="system", show_default=True, help="A library, intel, pypi or system.")
@click.option("--level", type=click.Choice(list(LEVELS)), help="Tune first, and measure what was found too.")
@click.option("--turns", type=click.IntRange(MINIMUM_ROUNDS), default=15, show_default=True)
def main(models: str, opencl: str, level: str | None, turns: int) -> None:
    """Latency on an OpenCL driver beside ONNX Runtime."""
    with networks.zoo_networks(models.split(",")) as found:
        for network in found:
            with scratch():
                tuning = _tuned(network, opencl, level) if level else ""
                with open_unit(HOST, opencl) as opened:
                    for line in _lines(opened, network, turns, tuning):
                        click.echo(line)


def _tuned(network: Network, opencl: str, level: str) -> str:
    """Tunes as `farm tune` does; what that took."""
    options = TuneOptions(SearchOptions(level, fresh=True))
    (row,) = tune_job([network.deployment()], [HOST], options, FleetOptions("benchmark", opencl))
    if not isinstance(row, TuneRow) or row.device_s is None:
        raise click.ClickException(f"{network.name} was not tuned: {row.reason}")
    return f"; {row.launches_tuned} of {row.launches} launches in {row.device_s:.1f} s, {row.outcome}"


def _lines(opened: OpenUnit, network: Network, turns: int, tuning: str) -> Iterator[str]:
    """One line for each way to run the model; `tuning` is empty where it was not tuned."""
    prepared = network.prepared()
    inputs = test_inputs(prepared)
    ways = {"default": UNTUNED} | ({"tuned": LoadOptions()} if tuning else {})
    onnxruntime = OnnxRuntime(prepared.source, inputs)
    with contextlib.ExitStack() as stack:
        engines = [
            Farmrt(name, stack.enter_context(opened.twin()), prepared, inputs, options)
            for name, options in ways.items()
        ]
        reference, *lanes = measure_interleaved([onnxruntime, *engines], turns, LIMIT_S)
    for engine, lane in zip(engines, lanes, strict=True):
        told = tuning if engine.name == "tuned" else ""
        yield f"{network.name}, {engine.name}: {lane.reason or beside(lane, reference)}{told}"


if __name__ == "__main__":
    main()

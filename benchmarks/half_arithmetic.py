"""How exact and how fast the zoo's networks are in half arithmetic, on a driver that has it.

    python -m benchmarks.half_arithmetic [--opencl intel] [--inputs 4] [--runs 4,8,16,24] [NETWORK ...]

For each network: in float, with tensors stored in half (`fp16_fp32`), and with products added in half (`fp16_fp16`) in
runs of each length (RUN of the kernels). Prints a table in Markdown: SQNR in dB against ONNX Runtime of the worst
output, mean and least over the inputs, the least cosine, and the time over that in float, all ways in turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks import networks
from benchmarks.engines import DEADLINE_S, NS_PER_MS
from benchmarks.scratch import scratch
from farm.config.inventory import HOST
from farm.jobs.fleet.unit import OpenUnit, open_unit, write_plan
from farm.jobs.models.prepare import Prepared, TestData
from farm.model.metrics import Metrics, compare
from runtime.kernels.spec import Kernel
from runtime.plan.plan import Plan

TURNS, ROUNDS = 7, 2
Array = npt.NDArray[Any]
Arrays = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Way:
    """A precision, and in half arithmetic the length of a run of products."""

    data_type: str
    run: int = 0

    @property
    def name(self) -> str:
        """`fp16_fp16, runs of 16`."""
        return f"{self.data_type}, runs of {self.run}" if self.run else self.data_type


@dataclasses.dataclass
class Loaded:
    """A network in a farmrt process of its own, and what came of it."""

    way: Way
    opened: OpenUnit
    plan: Plan
    metrics: list[Metrics] = dataclasses.field(default_factory=list)
    turns_ms: list[float] = dataclasses.field(default_factory=list)

    def compute(self, inputs: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
        """One input, compared with what is expected."""
        self.opened.write_inputs(inputs)
        self.opened.session.run(1, DEADLINE_S)
        outputs = self.opened.read_outputs(self.plan)
        self.metrics.append(min((compare(expected[name], outputs[name]) for name in outputs), key=lambda m: m.sqnr_db))

    def take_turn(self) -> None:
        """Times some rounds."""
        answer = self.opened.session.run(ROUNDS, DEADLINE_S, 1)
        self.turns_ms.append(min(answer.wall_ns) / NS_PER_MS)


def with_runs(plan: Plan, run: int) -> Plan:
    """The plan with runs of this length in every kernel that has such variants; 0 leaves them as they are."""
    steps = (
        dataclasses.replace(step, defines={**step.defines, "RUN": run}) if run and has_runs(step.kernel) else step
        for step in plan.steps
    )
    return dataclasses.replace(plan, steps=tuple(steps))


def has_runs(kernel: Kernel) -> bool:
    """Whether a kernel adds products in runs."""
    return any(variant.get("RUN") for variant in kernel.variants)


@contextlib.contextmanager
def loaded(network: networks.Network, ways: Sequence[Way], opencl: str) -> Iterator[list[Loaded]]:
    """The network in each way."""
    with open_unit(HOST, opencl) as opened, contextlib.ExitStack() as stack:
        yield [_load(network, way, stack.enter_context(opened.twin())) for way in ways]


def _load(network: networks.Network, way: Way, opened: OpenUnit) -> Loaded:
    prepared = _prepared(network, way.data_type)
    plan, path = opened.plan(prepared, "gpu", opened.target(prepared, "gpu"))
    plan, path = with_runs(plan, way.run), path.with_suffix(f".{way.data_type}.{way.run}.plan")
    write_plan(plan, path)
    opened.load(path)
    return Loaded(way, opened, plan)


def _prepared(network: networks.Network, data_type: str) -> Prepared:
    settings = network.content["models"][network.name] | {"data_type": data_type}
    content = network.content | {"models": {network.name: settings}}
    return dataclasses.replace(network, content=content).prepared()


def inputs_of(prepared: Prepared, count: int) -> list[Arrays]:
    """What `farm run` validates with, then values spread evenly from -1 to 1."""
    first = TestData(prepared, {}).inputs
    generators = [np.random.default_rng(seed) for seed in range(1, count)]
    return [first, *({name: _uniform(each, first[name].shape) for name in first} for each in generators)]


def _uniform(generator: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return generator.uniform(-1, 1, shape).astype(np.float32)


def rows(network: networks.Network, ways: Sequence[Way], opencl: str, count: int) -> Iterator[str]:
    """A line of the table for each way; the first is what the others' times are compared with."""
    with scratch(), loaded(network, ways, opencl) as engines:
        prepared = _prepared(network, ways[0].data_type)
        for inputs in inputs_of(prepared, count):
            expected = TestData(prepared, inputs).expected
            for engine in engines:
                engine.compute(inputs, expected)
        for _ in range(TURNS):
            for engine in engines:
                engine.take_turn()
        yield from (_row(network.name, engine, engines[0]) for engine in engines)


def _row(name: str, engine: Loaded, float_engine: Loaded) -> str:
    decibels = [each.sqnr_db for each in engine.metrics]
    ratio = statistics.median(a / b for a, b in zip(engine.turns_ms, float_engine.turns_ms, strict=True))
    exactness = f"{statistics.fmean(decibels):.1f} | {min(decibels):.1f} | {min(m.cosine for m in engine.metrics):.4f}"
    return f"| {name} | {engine.way.name} | {exactness} | {statistics.median(engine.turns_ms):.1f} | {ratio:.2f} |"


@click.command()
@click.argument("names", metavar="[NETWORK ...]", nargs=-1)
@click.option("--opencl", default="intel", show_default=True)
@click.option("--inputs", "count", type=click.IntRange(1), default=4, show_default=True)
@click.option("--runs", default="4,8,16,24", show_default=True, help="Multiples of four.")
def main(names: tuple[str, ...], opencl: str, count: int, runs: str) -> None:
    """Exactness and time in half arithmetic."""
    half = [Way("fp16_fp16", int(run)) for run in runs.split(",")]
    ways = [Way("fp32_fp32"), Way("fp16_fp32"), *half]
    click.echo("| network | precision | SQNR (dB) | least | least cosine | ms | over float |")
    click.echo("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with networks.zoo_networks(names or networks.zoo_names()) as found:
        for network in found:
            for row in rows(network, ways, opencl, count):
                click.echo(row)


if __name__ == "__main__":
    main()

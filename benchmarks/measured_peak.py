"""How near launches come to the most multiply-adds that a device does, which a kernel shows that keeps to registers.

    python -m benchmarks.measured_peak [--opencl intel] [NETWORK ...]

The rate of a launch is that of its fastest round, with the defaults; the peak is measured before and after the rounds,
and the higher one counts. A search could stop at a launch that is at the peak, if that were a figure to rely on.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from farm.config import deployment, inventory, samples
from farm.jobs.fleet.unit import OpenUnit, open_unit, write_plan
from farm.jobs.models.prepare import TestData, prepare
from farm.model import fetch
from runtime.graph import Graph, TensorInfo
from runtime.kernels.source import build_options
from runtime.kernels.spec import ArgumentForm, Dims, Kernel, MemoryType, Variant, WorkItems, variant
from runtime.lowering.assembly import assemble_plan
from runtime.lowering.builder import Builder
from runtime.lowering.options import Options
from runtime.plan.plan import Plan
from runtime.target import Target
from runtime.types import Storage

NETWORKS = ("mobilenet_v1", "mobilenet_v2", "squeezenet_v11", "resnet50")
SHARES = (0.95, 0.9, 0.8, 0.7)
LOOP, ITEMS, ACCUMULATORS = 4096, 256, 12  # additions of a sum, work items on a compute unit, sums of a work item
REPS, ROUNDS, DEADLINE_S = 20, 10, 120.0

SOURCE = """
// Multiply-adds in registers alone: ACCUMULATORS sums of VECTOR lanes, none of which waits for another.
kernel IN_VECTORS void peak_macs(global const storage *x, int x_offset, global storage *y, int y_offset, int rounds,
                                 int items)
{
    if (get_global_id(0) >= items)
        return;
    const floats factor = (floats)(LOAD(x + x_offset)), step = (floats)(LOAD(x + x_offset + 1));
    floats sum[ACCUMULATORS];
    UNROLLED for (int k = 0; k < ACCUMULATORS; k++)
        sum[k] = (floats)((float)(get_global_id(0) + k));
    for (int round = 0; round < rounds; round++) {
        UNROLLED for (int k = 0; k < ACCUMULATORS; k++)
            sum[k] = MULTIPLY_ADD(sum[k], factor, step);
    }
    UNROLLED for (int k = 1; k < ACCUMULATORS; k++)
        sum[0] += sum[k];
    STORE_VECTOR(sum[0], y + y_offset + get_global_id(0) * VECTOR);
}
"""


def work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return (dims["items"],)


PEAK_MACS = Kernel(
    name="peak_macs",
    source="peak_macs.cl",
    operator="PeakProbe",
    memory=MemoryType.BUFFER,
    tensors=(("x", ArgumentForm.FLAT), ("y", ArgumentForm.FLAT)),
    ints=("rounds", "items"),
    work_items=work_items,
    variants=tuple(
        variant(VECTOR=lanes, ACCUMULATORS=ACCUMULATORS, FMA=form) for lanes in (16, 8, 4) for form in (1, 0)
    ),
    cpu=False,
    text=SOURCE,
)


@dataclasses.dataclass(frozen=True)
class LaunchRate:
    """A launch of a network: its time, and its multiply-adds for each ns."""

    ns: float
    rate: float


@click.command(help=__doc__.splitlines()[0] if __doc__ else "")
@click.option("--opencl", default=None)
@click.argument("networks", nargs=-1)
def main(opencl: str | None, networks: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open_unit(inventory.HOST, opencl) as opened:
            click.echo(opened.opencl_library)
            columns = (
                "network",
                "peak before, after (GMAC/s)",
                "launches that multiply",
                "share of the time",
                "fastest",
            )
            click.echo(_row([*columns, *(f"at {100 * share:.0f} % of the peak" for share in SHARES)]))
            for network in networks or NETWORKS:
                before = measured_peak(opened)
                launches = rates(opened, network)
                click.echo(row_of(network, launches, before, measured_peak(opened)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def row_of(network: str, launches: Sequence[LaunchRate], before: float, after: float) -> str:
    peak, whole_ns = max(before, after), sum(each.ns for each in launches)
    multiplying = [each for each in launches if each.rate > 0]
    near = [sum(each.rate >= share * peak for each in multiplying) for share in SHARES]
    of_time = sum(each.ns for each in multiplying) / whole_ns
    best = max(each.rate for each in multiplying) / peak
    peaks, percents = f"{before:.0f}, {after:.0f}", [f"{100 * share:.0f} %" for share in (of_time, best)]
    return _row([network, peaks, str(len(multiplying)), *percents, *map(str, near)])


def measured_peak(opened: OpenUnit) -> float:
    """The most multiply-adds in float that the device does in a ns, by the fastest variant of the probe."""
    target = opened.probe.target(opened.unit.soc, memory="buffer")
    plan, plan_file = peak_plan(target), Path("peak.plan")
    write_plan(plan, plan_file)
    opened.load(plan_file)
    opened.write_inputs({"x": np.full((1, ACCUMULATORS), 0.5, np.float32)})
    opened.first_round()
    dims = plan.steps[0].dims
    return max(_rate(opened, dims, chosen, target) for chosen in PEAK_MACS.variants)


def peak_plan(target: Target) -> Plan:
    """A plan of the probe as its only step."""
    items = ITEMS * max(target.compute_units, 1)
    shapes = {"x": (1, ACCUMULATORS), "y": (1, 16 * items)}
    tensors = {name: TensorInfo(shape, np.dtype(np.float32)) for name, shape in shapes.items()}
    builder = Builder(Graph("peak", ["x"], ["y"], [], tensors, {}), target, Options())
    builder.add_input("x")
    values = {"x": builder.read("x", Storage.FLAT), "y": builder.write("y", Storage.FLAT)}
    builder.launch(PEAK_MACS, "peak", PEAK_MACS.operator, values, {"rounds": LOOP, "items": items})
    builder.output("y")
    return assemble_plan(builder)


def _rate(opened: OpenUnit, dims: Dims, chosen: Variant, target: Target) -> float:
    words = {"global": (dims["items"],), "local": (0,), "options": build_options(chosen, target.precision, {})}
    answer = opened.session.trial(DEADLINE_S, step=0, reps=REPS, warmup=1, **words)
    return dims["rounds"] * dims["items"] * chosen["VECTOR"] * chosen["ACCUMULATORS"] / min(answer.ns)


def rates(opened: OpenUnit, network: str) -> list[LaunchRate]:
    """Every launch of a network, as its default plan has them."""
    source = deployment.load(samples.find(network))
    prepared = prepare(source, network, fetch.Fetcher(source))
    plan, plan_file = opened.plan(prepared, "gpu", opened.target(prepared, "gpu"))
    write_plan(plan, plan_file)
    opened.load(plan_file)
    opened.write_inputs(TestData(prepared, {}).inputs)
    opened.first_round()
    steps = opened.session.run(ROUNDS, DEADLINE_S, warmup=3, profile=True).steps
    times = [min(step.ns) for step in steps]
    return [LaunchRate(ns, step.macs / ns) for step, ns in zip(plan.steps, times, strict=True)]


if __name__ == "__main__":
    main()

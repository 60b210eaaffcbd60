"""How near launches come to the most multiply-adds that a device does, which a kernel shows that keeps to registers.

    python -m benchmarks.measured_peak [--opencl intel] [NETWORK ...]

The rate of a launch is that of its fastest round, with the defaults; the peak is measured before and after the rounds,
and the higher one counts.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
from collections.abc import Sequence

import click

from farm.config import deployment, inventory, samples
from farm.config.execution import DEFAULT
from farm.jobs.fleet.unit import OpenUnit, open_unit, write_plan
from farm.jobs.models.prepare import TestData, prepare
from farm.jobs.tune.peak_trials import PeakTrials
from farm.model import fetch
from runtime.peaks import PeakFigure
from tuner.journal import Journal

NETWORKS = ("mobilenet_v1", "mobilenet_v2", "squeezenet_v11", "resnet50")
SHARES = (0.95, 0.9, 0.8, 0.7)
ROUNDS, DEADLINE_S = 10, 120.0
NS_PER_MS = 1e6


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
    """The most multiply-adds in float that the device does in a ns, as `farm tune` measures it; 0 where it cannot."""
    target = opened.probe.target(opened.unit.soc, memory="buffer")
    with Journal(None, "") as journal:
        peaks = PeakTrials(opened, target, DEFAULT, journal, lambda spent_s: math.inf).measured()
    return peaks.figures.get(PeakFigure.MACS, 0.0) / NS_PER_MS


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

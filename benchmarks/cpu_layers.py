"""Measures the convolutions of the zoo's networks on the CPU, layer by layer, in turns with ONNX Runtime.

    python benchmarks/cpu_layers.py [--models A,B] [--threads 1] [--turns N]

Layers of one shape are one line: the milliseconds of all of them, as farmrt and ONNX Runtime profile their own steps in
runs of the whole network, so that caches are as they are there; multiply-accumulates in billions a second; their share
of what the cores can do, which is measured first; and farm's time over ONNX Runtime's. Reorders are no layers.
"""

from __future__ import annotations

import collections
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from benchmarks.engines import DEADLINE_S, ERRORS_ONLY, test_inputs
from benchmarks.scratch import scratch
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.benchmark import profile
from farm.jobs.fleet.unit import OpenUnit, open_unit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions, load_model
from farm.jobs.models.prepare import Prepared
from runtime.onnx_runtime import onnxruntime
from runtime.plan.plan import Step

ROUNDS = 3  # of a turn, after one that warms up
LANES = 16  # to which ONNX Runtime pads the filters that it packs
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2d")
# Each lane of 12 registers is multiplied and added to; so many chains hide the latency.
PEAK_SOURCE = """
#include <stdio.h>
#include <time.h>
typedef float lanes __attribute__((vector_size(64)));
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(void) {
    lanes sums[12], scale = (lanes){0} + 0.999f, step = (lanes){0} + 1e-9f;
    double best = 0.0;
    for (int i = 0; i < 12; i++) sums[i] = (lanes){0} + (float)i;
    for (int turn = 0; turn < 20; turn++) {
        double start = now();
        for (int k = 0; k < 5000000; k++) for (int i = 0; i < 12; i++) sums[i] = sums[i] * scale + step;
        double rate = 5e6 * 12 * 16 / (now() - start);
        if (rate > best) best = rate;
    }
    for (int i = 1; i < 12; i++) sums[0] += sums[i];
    printf("%g %g\\n", best, (double)sums[0][0]);
}
"""
PEAK_FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-xc", "-")

Shape = tuple[int, ...]  # output channels, input channels, window, output size
Times = Mapping[Shape, float]  # ms


@click.command()
@click.option("--models", default=",".join(networks.zoo_names()), show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--turns", type=click.IntRange(1), default=5, show_default=True)
def main(models: str, threads: int, turns: int) -> None:
    """Convolutions beside ONNX Runtime's, and beside the cores' peak."""
    with scratch(), networks.zoo_networks(models.split(",")) as found:
        peak = peak_macs() * threads
        click.echo(f"peak of {threads} threads: {peak / 1e9:.1f} GMAC/s")
        for network in found:
            with open_unit(HOST) as opened:
                for line in _lines(opened, network.prepared(), threads, turns, peak):
                    click.echo(line)


def peak_macs() -> float:
    """Multiply-accumulates a second of one core, of floats in registers."""
    program = Path("peak").resolve()
    subprocess.run(["cc", *PEAK_FLAGS, "-o", program], input=PEAK_SOURCE, text=True, check=True)
    return float(subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()[0])


def _lines(opened: OpenUnit, prepared: Prepared, threads: int, turns: int, peak: float) -> Iterator[str]:
    given = prepared.with_execution(Execution(num_threads=threads))
    loaded = load_model(opened, given, "cpu", opened.target(given, "cpu"), LoadOptions(tuned=NO_ARTIFACT))
    opened.write_inputs(test_inputs(given))
    own: list[Times] = []
    theirs: list[Times] = []
    for _ in range(turns):
        own.append(_farm_times(opened, loaded.plan.steps))
        theirs.append(_onnxruntime_times(given, threads))
    macs: dict[Shape, int] = collections.Counter()
    for step in filter(_is_convolution, loaded.plan.steps):
        macs[_shape_of(step)] += step.macs
    yield f"{given.name}, {threads} threads"
    yield from _table(macs, own, theirs, peak)


def _table(macs: Mapping[Shape, int], own: list[Times], theirs: list[Times], peak: float) -> Iterator[str]:
    sums = [0.0, 0.0]
    for shape, count in macs.items():
        own_ms, their_ms = (statistics.median(turn.get(shape, 0.0) for turn in turns) for turns in (own, theirs))
        sums = [sums[0] + own_ms, sums[1] + their_ms]
        yield f"    {_text(shape):30}{_figures(count, own_ms, their_ms, peak)}"
    yield f"    {'all convolutions':30}{_figures(sum(macs.values()), sums[0], sums[1], peak)}"


def _figures(macs: int, own_ms: float, their_ms: float, peak: float) -> str:
    rate = macs / own_ms * 1e3
    beside = (
        f"ONNX Runtime {their_ms:8.3f} ms: {own_ms / their_ms:.2f}" if their_ms else "ONNX Runtime has no such layer"
    )
    return f"{own_ms:9.3f} ms {rate / 1e9:7.1f} GMAC/s {rate / peak:5.0%} of the peak, {beside}"


def _text(shape: Shape) -> str:
    outputs, inputs, k_h, k_w, height, width = shape
    return f"{inputs} -> {outputs}, {k_h}x{k_w}, {height}x{width}"


# --- the two engines' profiles ---


def _is_convolution(step: Step) -> bool:
    return step.op in CONVOLUTIONS


def _shape_of(step: Step) -> Shape:
    """As ONNX Runtime shows it: packed filters are padded."""
    return _padded(step.shown.filter_shape, step.shown.output_shape)


def _padded(filters: Shape, output: Shape) -> Shape:
    outputs, inputs, *window = filters
    padded = [-(-count // LANES) * LANES if count > LANES // 2 else count for count in (outputs, inputs)]
    return (*padded, *window, *output[2:])


def _farm_times(opened: OpenUnit, steps: Sequence[Step]) -> Times:
    opened.session.run(1, DEADLINE_S)
    times, _ = profile(opened.session, ROUNDS, len(steps), DEADLINE_S)
    found: dict[Shape, float] = collections.defaultdict(float)
    for step, measured in zip(steps, times, strict=True):
        if _is_convolution(step):
            found[_shape_of(step)] += statistics.median(measured.ns) / 1e6
    return found


def _onnxruntime_times(prepared: Prepared, threads: int) -> Times:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, ERRORS_ONLY
    options.enable_profiling, options.profile_file_prefix = True, str(Path("onnxruntime").resolve())
    content = prepared.source.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    for _ in range(ROUNDS + 1):
        session.run(None, dict(test_inputs(prepared)))
    events = json.loads(Path(session.end_profiling()).read_text())
    by_node: dict[str, list[float]] = collections.defaultdict(list)
    shapes: dict[str, Shape] = {}
    for event in filter(_is_kernel, events):
        by_node[event["name"]].append(event["dur"] / 1e3)
        shapes[event["name"]] = _padded(_only(event, "input", 1), _only(event, "output", 0))
    found: dict[Shape, float] = collections.defaultdict(float)
    for name, samples in by_node.items():
        found[shapes[name]] += statistics.median(samples[1:])
    return found


def _is_kernel(event: Mapping[str, Any]) -> bool:
    """Whether an event of ONNX Runtime's profile is the execution of a convolution."""
    of_convolution = "Conv" in event.get("args", {}).get("op_name", "")
    return of_convolution and str(event["name"]).endswith("_kernel_time")


def _only(event: Mapping[str, Any], side: str, index: int) -> Shape:
    (shape,) = event["args"][f"{side}_type_shape"][index].values()
    return tuple(shape)


if __name__ == "__main__":
    main()

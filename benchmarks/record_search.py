"""Records an exhaustive search on a unit, for the test that replays it.

    python benchmarks/record_search.py [--model mobilenet_v1] [--opencl system] [--largest 256] [--passes 7] [-o FILE]

Every variant is timed with every local size of which each side is a power of four and which has at most `--largest`
work items, with the table's own default and with the driver's choice. The first pass goes program by program, so that
each is built once; the others only time. Of all passes the fastest is kept: what disturbs a launch only ever makes it
slower. Takes about five minutes; the machine should have little else to do.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from farm import atomic_file
from farm.config import deployment, inventory, samples
from farm.jobs.fleet.opening import open_unit
from farm.jobs.models.prepare import prepare
from farm.jobs.tune.trials import UnitTrials, trials_on
from farm.model import fetch
from runtime.kernels.spec import Variant
from runtime.lowering.trials import TrialLaunch
from runtime.target import Target
from tuner import space
from tuner.trial import DRIVERS_CHOICE, Candidate, LocalSize, Trial, TrialStatus, validated

REPS = 5
DATA = Path(__file__).parents[1] / "tests/tuner/data/mobilenet_v1.json.gz"

Program = tuple[str, str, LocalSize, str]
Times = dict[tuple[str, Candidate], list[Trial]]


@click.command()
@click.option("--model", default="mobilenet_v1", show_default=True)
@click.option("--opencl", default=None)
@click.option("--largest", type=click.IntRange(1), default=256, show_default=True, help="Work items of a group.")
@click.option("--passes", type=click.IntRange(1), default=7, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=DATA, show_default=True)
def main(model: str, opencl: str | None, largest: int, passes: int, output: Path) -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["POCL_CACHE_DIR"] = cache  # every program is built, as on a machine that sees it for the first time
        content = recording(model, opencl, largest, passes)
    atomic_file.write(output, gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))
    count = sum(len(launch["candidates"]) for launch in content["launches"])
    click.echo(f"{output}: {count} candidates of {len(content['launches'])} launches, {output.stat().st_size} bytes")


def recording(model: str, opencl: str | None, largest: int, passes: int) -> dict[str, Any]:
    source = deployment.load(samples.find(model))
    prepared = prepare(source, model, fetch.Fetcher(source))
    with open_unit(inventory.HOST, opencl) as opened:
        target = opened.planner.target(prepared, "gpu")
        trials = trials_on(opened, [prepared], target, prepared.options(), "record_search")
        recorded = {launch.key: recorded_candidates(launch, target, largest) for launch in trials.launches}
        times = record(trials, recorded, passes)
        content = as_json(trials.launches, recorded, times)
        for launch, row in zip(trials.launches, content["launches"], strict=True):
            row["locals"] = {each.name: table_local_size(launch, each, target) for each in launch.kernel.variants}
        limits = {"compute_units": target.compute_units, "max_work_group_size": target.max_work_group_size}
        return content | limits | {"driver": opened.probe.opencl.platform_version}


def table_local_size(launch: TrialLaunch, variant: Variant, target: Target) -> LocalSize:
    """The kernel table's default local size of a variant."""
    choose = launch.kernel.local_size
    return space.three_dimensional(choose(launch.dims, variant, target)) if choose else DRIVERS_CHOICE


def recorded_candidates(launch: TrialLaunch, target: Target, largest: int) -> list[Candidate]:
    default = space.default_candidate(launch)
    candidates = space.candidate_costs(launch, target)
    return [each for each in candidates if each == default or _is_recorded(each.local_size, largest)]


def _is_recorded(size: LocalSize, largest: int) -> bool:
    sides = all(side & (side - 1) == 0 and side.bit_length() % 2 == 1 for side in size)
    return size == DRIVERS_CHOICE or (sides and math.prod(size) <= largest)


def record(trials: UnitTrials, recorded: Mapping[str, Sequence[Candidate]], passes: int) -> Times:
    times: Times = defaultdict(list)
    everything = dict.fromkeys(candidate for each in recorded.values() for candidate in each)
    start_s = time.monotonic()
    for number in range(passes):
        for candidate in everything:
            for launch in trials.launches:
                if candidate in recorded[launch.key]:
                    times[launch.key, candidate].append(validated(trials(launch, candidate, REPS), launch.precision))
        print(f"pass {number + 1} of {passes}: {time.monotonic() - start_s:.0f} s", file=sys.stderr)
    return times


def as_json(
    launches: Sequence[TrialLaunch], recorded: Mapping[str, Sequence[Candidate]], times: Times
) -> dict[str, Any]:
    """Launches, programs with the time that building each took, and for each launch its candidates' times in ns."""
    programs: dict[Program, float] = {}
    rows = []
    for launch in launches:
        overhead_s = statistics.median(_overhead_s(times[launch.key, each][-1]) for each in recorded[launch.key])
        candidates = []
        for candidate in recorded[launch.key]:
            first, *_ = passes = times[launch.key, candidate]
            program = _program(launch, candidate)
            programs.setdefault(program, max(_overhead_s(first) - overhead_s, 0.0))
            fastest = min(passes, key=lambda trial: statistics.median(trial.ns or [math.inf]))
            samples = [round(ns) for ns in fastest.ns] if all(each.status == TrialStatus.OK for each in passes) else []
            candidates.append([candidate.variant.name, candidate.local_size, samples])
        rows.append(_launch(launch, overhead_s) | {"candidates": candidates})
    variants = {launch.kernel.name: {each.name: each.defines for each in launch.kernel.variants} for launch in launches}
    built = [[*program, round(build_s, 4)] for program, build_s in programs.items()]
    each = builds_each_size(programs)
    return {"reps": REPS, "builds_each_size": each, "variants": variants, "programs": built, "launches": rows}


def builds_each_size(programs: Mapping[Program, float]) -> bool:
    """Whether the driver builds a program anew for each local size, as PoCL does, and not only for the first."""
    first: dict[tuple[str, str], float] = {}
    for (kernel, options, _, _), build_s in programs.items():
        first.setdefault((kernel, options), build_s)
    return sum(programs.values()) > 2 * sum(first.values())


def _program(launch: TrialLaunch, candidate: Candidate) -> Program:
    """What PoCL builds once; where it chooses the local size, each launch has its own."""
    owner = launch.key if candidate.local_size == DRIVERS_CHOICE else ""
    return (launch.kernel.name, launch.options(candidate.variant), candidate.local_size, owner)


def _overhead_s(trial: Trial) -> float:
    """Device time beside the repetitions: check, warm-up and, for the first of a program, building it."""
    return trial.device_s - sum(trial.ns) * 1e-9


def _launch(launch: TrialLaunch, overhead_s: float) -> dict[str, Any]:
    default = space.default_candidate(launch)
    return {
        "key": launch.key,
        "kernel": launch.kernel.name,
        "options": launch.options(launch.variant),
        "items": {each.name: launch.work_items(each) for each in launch.kernel.variants},
        "uses": len(launch.uses),
        "default": [default.variant.name, default.local_size],
        "overhead_s": round(overhead_s, 5),
    }


if __name__ == "__main__":
    main()

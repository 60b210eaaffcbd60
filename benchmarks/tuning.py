"""What a first tuning of several models on one driver costs, from model file to proof, by part.

python -m benchmarks.tuning --opencl system
python -m benchmarks.tuning --opencl intel mobilenet_v1 squeezenet_v11

Everything is new: journals, the driver's cache of kernels, plans. CPU seconds are farm's own and those of all farmrts;
on a machine with other work they tell more than seconds on the wall do.
"""

import contextlib
import os
import re
import time
from collections import defaultdict

import click
import numpy as np
import psutil

from benchmarks.scratch import scratch
from farm.cli import work
from farm.config import samples
from farm.config.given_model import GivenModel
from farm.config.inventory import HOST
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from runtime.graph import Array
from runtime.native.build import build_farmrt

FIVE = ("squeezenet_v11", "mobilenet_v1", "mobilenet_v2", "resnet50", "inception_v3")
PARTS = {  # by what the first stage of each part says
    "choice of the plan": r"where and how|measuring \d|the plan in force against|accuracy of",
    "trials": r"trial plan of",
    "proof": r"default against|the tables of",
}


def spent_s() -> Array:
    """Seconds on the wall, and of CPU time of this process and of all that it has started."""
    own = os.times()
    cpu_s = own.user + own.system + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            cpu_s += sum(child.cpu_times()[:4])
    return np.array([time.monotonic(), cpu_s])


class Parts(ProgressView):
    """Counts the seconds of each part, which lasts until a stage of another one is told."""

    def __init__(self) -> None:
        self.spent = defaultdict[str, Array](lambda: np.zeros(2))
        self._part, self._since = "conversion and start", spent_s()

    def stage(self, unit: str, text: str) -> None:
        self.enter(next((part for part, begins in PARTS.items() if re.search(begins, text)), self._part))

    def enter(self, part: str) -> None:
        now = spent_s()
        self.spent[self._part] += now - self._since
        self._part, self._since = part, now


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--opencl", default="system", help="The driver.")
@click.option("--repeat", default=1, help="Tunes so often, and tells whether the tunings agree.")
def main(models: tuple[str, ...], opencl: str, repeat: int) -> None:
    build_farmrt()
    with scratch():
        given = [work.load(GivenModel(samples.find(name))) for name in models or FIVE]
        parts, tuning = Parts(), TuneOptions(SearchOptions(fresh=repeat > 1), repeat=repeat)
        for row in tune_job(given, [HOST], tuning, FleetOptions(opencl=opencl), parts):
            gained = f"{row.default_ms or 0:.1f} to {row.tuned_ms or 0:.1f} ms ({row.gain_percent or 0:.1f} % gained)"
            reason = row.outcome_reason or row.reason
            print(f"{row.model}: {row.outcome or row.status}, {gained}, {row.trials} trials; {reason}")
            for each in row.agreements:
                print(f"  the same or as fast for {each.same_winners + each.tied_winners} of {each.launches} launches,")
                print(f"  time {each.time_ratio} {each.time_ratio_ci} of the first tuning's")
        parts.enter("")
    print("| part | wall s | CPU s |\n| --- | ---: | ---: |")
    parts.spent["altogether"] = sum(parts.spent.values(), np.zeros(2))
    for part, (wall_s, cpu_s) in parts.spent.items():
        print(f"| {part} | {wall_s:.1f} | {cpu_s:.1f} |")


if __name__ == "__main__":
    main()

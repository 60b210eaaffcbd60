"""What a first tuning of several models on one driver costs, in CPU seconds by stage: farm's own and of all farmrts.

python -m benchmarks.tuning --opencl system
python -m benchmarks.tuning --opencl intel mobilenet_v1 squeezenet_v11 resnet50

Everything is new: journals, the driver's cache of kernels, plans. A stage lasts until the next one is told.
"""

import contextlib
import os
import re
from collections import defaultdict

import click
import psutil

from benchmarks.scratch import scratch
from farm.cli import options
from farm.config import samples
from farm.config.given_model import GivenModel
from farm.config.inventory import HOST
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from runtime.native.build import build_farmrt


def cpu_s() -> float:
    """CPU time so far of this process and of all that it has started."""
    spent = os.times()
    total = spent.user + spent.system + spent.children_user + spent.children_system
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(child.cpu_times()[:4])
    return total


class Stages(ProgressView):
    """Counts the CPU time of each stage, by what is said when it begins; models and numbers tell no stages apart."""

    def __init__(self, models: tuple[str, ...]) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._names = re.compile("|".join((*models, r"\(gpu\)", r"[\d.]+", r"[:,]")))
        self._stage, self._since_s = "start and conversion", cpu_s()

    def stage(self, unit: str, text: str) -> None:
        now_s = cpu_s()
        self.spent[self._stage] += now_s - self._since_s
        self._stage, self._since_s = " ".join(self._names.sub(" ", text).split()) or "first starts", now_s


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--opencl", default="system", help="The driver.")
def main(models: tuple[str, ...], opencl: str) -> None:
    models = models or ("mobilenet_v1", "squeezenet_v11")
    given = [options.load(GivenModel(samples.find(name))) for name in models]
    with scratch():
        build_farmrt()
        stages = Stages(models)
        rows = list(tune_job(given, [HOST], TuneOptions(SearchOptions()), FleetOptions(opencl=opencl), stages))
        stages.stage("", "end")
    for row in rows:
        print(f"{row.model}: {row.status}, {row.outcome}, {row.trials} trials")
    for stage, spent_s in sorted(stages.spent.items(), key=lambda item: -item[1]):
        print(f"{spent_s:6.1f} s  {stage}")
    print(f"{sum(stages.spent.values()):6.1f} s  altogether")


if __name__ == "__main__":
    main()

"""What it costs to try compiled kernels before they are used: loads of a model on this machine, by what is known.

    python benchmarks/kernel_trial.py zoo://mobilenet_v1
    python benchmarks/kernel_trial.py MODEL.yml

The kernels are those that the driver compiles here. "new": the unit has never seen the file, so a load tries it first;
"known": any later load. The driver's own cache of kernels is as it is after the model's first load.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from farm.config import deployment, inventory, samples
from farm.jobs.fleet.unit import OpenUnit, open_unit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions, load_model
from farm.jobs.models.prepare import Prepared, TestData, prepare
from farm.model import fetch
from farm.units import facts_cache, tried_kernels

TURNS = 3
FROM_SOURCE = LoadOptions(tuned=NO_ARTIFACT, kernels=NO_ARTIFACT)


@click.command()
@click.argument("model", default="zoo://mobilenet_v1")
def main(model: str) -> None:
    """Prints the seconds of each kind of load."""
    source = deployment.load(samples.deployment_file(model))
    prepared = prepare(source, next(iter(source.models)), fetch.Fetcher(source))
    with open_unit(inventory.HOST) as opened, TemporaryDirectory() as folder:
        kernels = _saved(opened, prepared, Path(folder, "kernels.bin"))
        with_kernels = LoadOptions(tuned=NO_ARTIFACT, kernels=kernels)
        print(f"from source {_median_s(lambda: _load(opened, prepared)):.2f} s")
        print(f"new         {_median_s(lambda: _forgotten(opened, prepared, with_kernels)):.2f} s")
        print(f"known       {_median_s(lambda: _load(opened, prepared, with_kernels)):.2f} s")


def _median_s(load: Callable[[], None]) -> float:
    times = []
    for _ in range(TURNS):
        start_s = time.perf_counter()
        load()
        times.append(time.perf_counter() - start_s)
    return statistics.median(times)


def _load(opened: OpenUnit, prepared: Prepared, options: LoadOptions = FROM_SOURCE) -> None:
    load_model(opened, prepared, "gpu", opened.target(prepared, "gpu"), options)


def _forgotten(opened: OpenUnit, prepared: Prepared, options: LoadOptions) -> None:
    """A load of kernels that the unit has never seen, as far as it knows."""
    (facts_cache.FOLDER / opened.unit.name / tried_kernels.FILE).unlink(missing_ok=True)
    _load(opened, prepared, options)


def _saved(opened: OpenUnit, prepared: Prepared, path: Path) -> Path:
    _load(opened, prepared)
    opened.write_inputs(TestData(prepared, {}).inputs)
    opened.first_round()
    opened.session.command("save_kernels", file=path.name)
    opened.transport.pull(path.name, path)
    return path


if __name__ == "__main__":
    main()

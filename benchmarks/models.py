"""Measures whole models, side by side with ONNX Runtime on the same cores, on every OpenCL driver of this machine.

    python benchmarks/models.py [--models A,B] [--drivers system,intel] [--rounds N] [--light] [-o FILE.md] [--json]

Latency by default and tuned, starts from cold, and tuning. Nothing of the user's build
folder is used or changed but the models in its cache. A model takes about a minute a driver; the machine
should have nothing else to do.
"""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import machine, networks, page
from benchmarks.figures import Driver, Report, Run
from benchmarks.interleaving import Failures
from benchmarks.measurement import Options, measure
from farm import atomic_file
from farm.farmrt import drivers, working_drivers
from runtime import zoo
from runtime.errors import FarmError
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tuner.search import LEVELS

LIMIT_S = 12.0  # of one comparison in turns


def _names(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(word for word in text.replace(" ", "").split(",") if word)


def _known_models(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names, known = _names(context, parameter, text), networks.zoo_names()
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is no sample; there are {', '.join(known)}")
    return names


@click.command()
@click.option("--models", "models", callback=_known_models, default=",".join(networks.zoo_names()), show_default=True)
@click.option("--drivers", "origins", callback=_names, default="system,intel,pypi", show_default=True)
@click.option(
    "--rounds", "turns", type=click.IntRange(MINIMUM_ROUNDS), default=20, show_default=True, help="Turns at most."
)
@click.option(
    "--level", type=click.Choice(list(LEVELS)), default="quick", show_default=True, help="Level of the tuning."
)
@click.option("--light", is_flag=True, help="Also the onnx package's networks, by default only.")
@click.option("--from", "recorded", type=click.Path(path_type=Path), help="Measure nothing: the figures of --json.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Also write the page to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of the page.")
def main(
    models: tuple[str, ...],
    origins: tuple[str, ...],
    turns: int,
    level: str,
    light: bool,
    recorded: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Benchmarks of whole models; prints a Markdown page."""
    try:
        if recorded:
            report = Report.model_validate_json(recorded.read_text())
        else:
            report = measured(models, origins, Options(turns, LIMIT_S, level), light)
    except FarmError as error:
        raise click.ClickException(str(error)) from None
    text = page.page(report)
    if output:
        atomic_file.write(output, text.encode())
    click.echo(report.model_dump_json() if as_json else text)


def measured(models: Sequence[str], origins: Sequence[str], options: Options, light: bool) -> Report:
    """Measures everything that was asked for."""
    start_s = time.perf_counter()
    failures = Failures()
    others = machine.Others()
    found = _found_drivers(origins)
    known = list(_described(found, failures))
    with networks.zoo_networks(models, "gpu") as zoo_networks:
        runs = [_said(network, driver, options) for network in zoo_networks for driver in found]
    return Report(
        command=shlex.join(["python", "benchmarks/models.py", *sys.argv[1:]]),
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        machine=machine.machine(),
        drivers=tuple(known),
        missing_drivers=tuple(origin for origin in origins if origin not in {driver.origin for driver in found}),
        runs=tuple(runs),
        light=tuple(_light_runs(found, options, failures)) if light else (),
        failures=tuple(failures.lines),
        wall_s=time.perf_counter() - start_s,
        others_cores=others.cores(),
    )


def _found_drivers(origins: Sequence[str]) -> list[drivers.Driver]:
    """The first driver of each origin that works."""
    found = list(working_drivers.working())
    chosen = (next((driver for driver in found if driver.origin == origin), None) for origin in origins)
    return [driver for driver in chosen if driver]


def _described(found: Sequence[drivers.Driver], failures: Failures) -> Iterator[Driver]:
    for driver in found:
        with failures.recorded(f"driver {driver.origin}"):
            yield machine.described(driver)


def _light_runs(found: Sequence[drivers.Driver], options: Options, failures: Failures) -> Iterator[Run]:
    plain = Options(options.turns, options.limit_s, None)
    for name, path in zoo.light_models().items():
        _say(f"{name}: random weights")
        with failures.recorded(name), networks.light_network(name, path) as network:
            yield from [_said(network, driver, plain) for driver in found]


def _said(network: networks.Network, driver: drivers.Driver, options: Options) -> Run:
    start_s = time.perf_counter()
    run = measure(network, driver, options, lambda text: _say(f"{network.name} on {driver.origin}: {text}"))
    figures = ", ".join(
        f"{entrant.name} {entrant.latency_ms.median:.1f}" if entrant.latency_ms else f"{entrant.name} {entrant.status}"
        for entrant in run.entrants
    )
    _say(f"{network.name} on {driver.origin}: {figures or 'nothing'} (ms); {time.perf_counter() - start_s:.0f} s")
    for line in run.failures:
        _say(f"{network.name} on {driver.origin}: {line}")
    return run


def _say(text: str) -> None:
    click.echo(f"... {text}", err=True)


if __name__ == "__main__":
    main()

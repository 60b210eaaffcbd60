"""farmrt beside other engines on this machine: measures, and writes the table into docs/engines.md.

python -m benchmarks.engines_page                                     # all networks, some 30 minutes
python -m benchmarks.engines_page --networks mobilenet_v2 --turns 3 --print

The zoo's networks for an image, two of them in eight bits (QDQ), and .tflite files for LiteRT, which takes no ONNX:
those of keras.applications, where TensorFlow is installed. Weights are seeded noise, which a time does not depend on.
All engines that are installed take turns, on all cores.
"""

import argparse
import contextlib
import datetime
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.framework_networks import make_apart
from benchmarks.machine import Others, machine
from benchmarks.networks import zoo_names, zoo_networks
from benchmarks.page import BUSY_CORES
from benchmarks.quantisation import loaded
from benchmarks.scratch import scratch
from farm.config import deployment
from farm.config.deployment import Deployment
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.engines.job import EnginesOptions, engines_job
from farm.jobs.loading import LoadOptions
from farm.jobs.quantize import quantize_job
from farm.quantization.quantizer import QuantizeOptions
from farm.rows.engines import EnginesRow
from farm.tables.engines import fastest_lines, in_order, outputs_text

PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
BEGIN, END = "<!-- engines -->\n", "<!-- /engines -->\n"
QUANTISED = ("mobilenet_v2", "squeezenet_v11")
LITERT = ("MobileNet", "MobileNetV2", "ResNet50", "InceptionV3")
COLUMNS = ("network", "engine", "round, ms", "over the leader", "init, ms", "first run, ms", "peak, MB", "outputs")
BYTES_PER_MB = 1024**2

Made = contextlib.AbstractContextManager[Deployment]


@contextlib.contextmanager
def of_zoo(name: str) -> Iterator[Deployment]:
    """A network of the zoo, on CPU and GPU."""
    with zoo_networks([name], "cpu+gpu") as (network,):
        yield network.deployment()


@contextlib.contextmanager
def in_eight_bits(name: str) -> Iterator[Deployment]:
    """The same in eight bits, per channel, on the CPU."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        options = QuantizeOptions(data=folder / "data", per_channel=True, output=folder / f"{name}.onnx")
        (row,) = quantize_job(loaded(name, folder), options)
        assert row.file, row.reason
        with zoo_networks([name]) as (network,):
            given = network.content["models"][name] | {"model_file_path": row.file, "runtime": "cpu"}
            file = folder / "eight_bits.yml"
            file.write_text(yaml.safe_dump(network.content | {"models": {f"{name}_8bit": given}}))
            yield deployment.load(file)


@contextlib.contextmanager
def of_keras(name: str) -> Iterator[Deployment]:
    """A network of keras.applications as .tflite."""
    with TemporaryDirectory() as folder:
        make_apart("litert_application", Path(folder), name)
        yield deployment.load(Path(folder, f"{name}.yml"))


def networks() -> Mapping[str, Callable[[], Made]]:
    """What makes each network, by its name."""
    found: dict[str, Callable[[], Made]] = {}
    images = [name for name in zoo_names() if not name.startswith(("bert", "llama", "vit"))]
    for name in images:
        found[name] = lambda name=name: of_zoo(name)  # type: ignore[misc]
    for name in QUANTISED:
        found[f"{name}_8bit"] = lambda name=name: in_eight_bits(name)  # type: ignore[misc]
    if importlib.util.find_spec("tensorflow"):
        for name in LITERT:
            found[f"{name}.tflite"] = lambda name=name: of_keras(name)  # type: ignore[misc]
    return found


def table(found: Mapping[str, Sequence[EnginesRow]]) -> Iterator[str]:
    """The lines of the table; what is surely the fastest is bold."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| {' | '.join(['---'] * 2 + ['---:'] * 5 + ['---'])} |"
    for network, rows in found.items():
        for row in in_order(rows):
            yield f"| {' | '.join([network, *_cells(row)])} |"


def _cells(row: EnginesRow) -> Iterator[str]:
    standing, latency = row.standing, row.latency_ms
    peak_bytes = row.peak_memory.resident_bytes if row.peak_memory else None
    name = f"{row.engine} ({row.runtime})"
    yield f"**{name}**" if standing and standing.is_fastest else name
    yield _number(latency.median if latency and standing else None)
    interval = " ({:.2f} to {:.2f})".format(*standing.ratio_ci) if standing and standing.ratio_ci else ""
    yield "-" if standing is None else "1" if standing.leads else f"{standing.ratio:.2f}{interval}"
    yield from map(_number, (row.init_ms, row.first_ms))
    yield _number(peak_bytes / BYTES_PER_MB if peak_bytes else None)
    yield outputs_text(row)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def head(others_cores: float) -> str:
    """When and on what it was measured, and whether other work disturbed it."""
    here = machine()
    busy = " **Other work disturbed it: read the ratios, which are of turns, not the times.**"
    return (
        f"Measured on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {here.cpu}, {here.cores} cores; "
        f"other work took {others_cores:.1f} cores.{busy if others_cores > BUSY_CORES else ''}"
    )


def text_of(found: Mapping[str, Sequence[EnginesRow]], others_cores: float) -> str:
    """What stands between the page's marks."""
    verdicts = [f"- {line}" for rows in found.values() for line in fastest_lines(rows)]
    return "\n".join([head(others_cores), "", *verdicts, "", *table(found), ""])


def main() -> None:
    """Measures, and writes the page or prints what would stand in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = networks()
    parser.add_argument("--networks", default=",".join(known), help="by commas")
    parser.add_argument("--engines", default="", help="by commas; default: all that are installed")
    parser.add_argument("--turns", type=int, help="default: what the intervals need")
    parser.add_argument("--print", dest="printed", action="store_true", help="leave docs/engines.md as it is")
    given = parser.parse_args()
    engines = tuple(filter(None, given.engines.split(",")))
    every_core = LoadOptions(execution=Execution(num_threads=machine().cores))  # LiteRT's own default is one thread
    options, others = EnginesOptions(engines, turns=given.turns, load=every_core), Others()
    found: dict[str, list[EnginesRow]] = {}
    with scratch():
        for name in given.networks.split(","):
            print(name, file=sys.stderr)
            with known[name]() as source:
                found[name] = list(engines_job(source, [HOST], options))
            text = text_of(found, others.cores())
            if not given.printed:  # after each, so that nothing is lost
                page = PAGE.read_text()
                PAGE.write_text(f"{page.partition(BEGIN)[0]}{BEGIN}{text}{END}{page.partition(END)[2]}")
    if given.printed:
        print(text, end="")


if __name__ == "__main__":
    main()

"""What is left of networks of the zoo in eight bits, for each way to choose ranges, and how fast they are, as tables.

python -m benchmarks.quantisation                                     # writes all into docs/quantisation.md
python -m benchmarks.quantisation --table speed --turns 5             # one of them
python -m benchmarks.quantisation --table speed --isa avx2            # by other instructions than the CPU's best
python -m benchmarks.quantisation --print --networks 'resnet50'       # to standard output

Weights and images are seeded noise, so the figures say how the ways compare, not what a trained network keeps. Images
have structure (blurred noise of several sizes), ranges are of the images that the outputs are compared on.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import quantised_speed
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.jobs.quantize import quantize_job
from farm.model import deployments
from farm.quantization.quantizer import QuantizeOptions
from farm.rows.quantize import QuantizeRow
from runtime import zoo

PAGE = Path(__file__).parents[1] / "docs" / "quantisation.md"
TABLES = ("speed", "instructions", "sqnr")
NETWORKS = ("mobilenet_v1?width=0.25&size=64",)
IMAGES = 8
WAYS = {
    "minmax": QuantizeOptions(),
    "minmax, `--per-channel`": QuantizeOptions(per_channel=True),
    "percentile, `--per-channel`": QuantizeOptions(per_channel=True, method="percentile"),
    "entropy, `--per-channel`": QuantizeOptions(per_channel=True, method="entropy"),
    "mse, `--per-channel`": QuantizeOptions(per_channel=True, method="mse"),
    "minmax, `--correct-bias`": QuantizeOptions(correct_bias=True),
    "minmax, `--per-channel --correct-bias`": QuantizeOptions(per_channel=True, correct_bias=True),
    "`--weights-only int8`": QuantizeOptions(weights_only="int8"),
    "`--weights-only int8 --rounding adaptive`": QuantizeOptions(weights_only="int8", rounding="adaptive"),
    "`--weights-only int4`": QuantizeOptions(weights_only="int4"),
    "`--weights-only int4 --correct-bias`": QuantizeOptions(weights_only="int4", correct_bias=True),
}


def images(shape: Sequence[int], folder: Path, name: str) -> None:
    """Writes seeded images of an input's shape [1, channels, height, width]: noise at three sizes, added."""
    random = np.random.default_rng(0)
    for number in range(IMAGES):
        whole = np.zeros(shape)
        for size in (16, 4, 1):
            blocks = random.normal(0, 1, (*shape[:2], -(-shape[2] // size), -(-shape[3] // size)))
            whole += blocks.repeat(size, 2).repeat(size, 3)[:, :, : shape[2], : shape[3]] / 2
        np.save(folder / f"{name}_{number}.npy", whole.astype(np.float32))


def loaded(network: str, folder: Path) -> Deployment:
    """A network of the zoo as a model file, and its images beside it."""
    model = zoo.from_url(f"zoo://{network}")
    (declared,) = model.graph.input
    shape = (1, *(each.dim_value for each in declared.type.tensor_type.shape.dim[1:]))
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    (folder / "data").mkdir()
    images(shape, folder / "data", declared.name)
    return deployments.load(GivenModel(path, ((declared.name, shape),), None, False))


def measured(network: str) -> dict[str, QuantizeRow]:
    """The row of each way."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        deployment = loaded(network, folder)
        found = {}
        for way, options in WAYS.items():
            given = {**vars(options), "data": folder / "data", "output": folder / "quantised.onnx"}
            (found[way],) = quantize_job(deployment, QuantizeOptions(**given))
        return found


def table(found: dict[str, dict[str, QuantizeRow]]) -> Iterator[str]:
    """The lines of the table: SQNR, and the share of the float file's size."""
    yield f"| | {' | '.join(f'{network}: SQNR, size' for network in found)} |"
    yield f"| --- | {' | '.join('---:' for _ in found)} |"
    for way in WAYS:
        yield f"| {way} | {' | '.join(_cell(rows[way]) for rows in found.values())} |"


def _cell(row: QuantizeRow) -> str:
    assert row.after_db is not None and row.quantized_bytes and row.float_bytes, row.reason
    return f"{row.after_db:.1f} dB, {row.quantized_bytes / row.float_bytes:.2f}"


def main() -> None:
    """Measures every network, and writes the page or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", dest="printed", action="store_true", help="leave docs/quantisation.md as it is")
    parser.add_argument("--networks", help="of the zoo, separated by commas")
    parser.add_argument("--table", choices=TABLES, help="one of the tables; all where it is left out")
    parser.add_argument("--turns", type=int, default=15, help="of each engine, for the speed")
    parser.add_argument("--isa", default="", help="of the table speed: ours alone, by these instructions, such as avx2")
    given = parser.parse_args()
    networks = given.networks.split(",") if given.networks else None
    for name in (given.table,) if given.table else TABLES:
        if name == "speed":
            lines = quantised_speed.table(networks or quantised_speed.default_networks(), given.turns, given.isa)
        elif name == "instructions":
            lines = quantised_speed.instruction_table(networks or list(quantised_speed.COUNTED))
        else:
            lines = table({each: measured(each) for each in networks or NETWORKS})
        if given.printed:
            for line in lines:
                print(line, flush=True)
        else:
            _put(f"{name} {given.isa}".strip(), "".join(f"{line}\n" for line in lines))


def _put(name: str, text: str) -> None:
    """Puts a table into its place in the page."""
    begin, end, page = f"<!-- {name} -->\n", f"<!-- /{name} -->\n", PAGE.read_text()
    before, after = page.partition(begin)[0], page.partition(end)[2]
    PAGE.write_text(f"{before}{begin}{text}{end}{after}")


if __name__ == "__main__":
    main()

"""Sizes of farmrt and of its shared library, stripped, for every ABI and choice of parts, as the table of a page.

python -m benchmarks.sizes            # writes it into docs/building.md
python -m benchmarks.sizes --print    # to standard output
"""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config import deployment, samples
from farm.jobs.build import BuildOptions, Built, available_abis, build
from farm.jobs.models.operators import needed_features
from runtime.native.features import ENGINES, EVERYTHING, Features

PAGE = Path(__file__).parents[1] / "docs" / "building.md"
BEGIN, END = "<!-- sizes -->\n", "<!-- /sizes -->\n"
NETWORKS = ("mobilenet_v1",)
RUNTIMES = ("cpu+gpu", "cpu")


@dataclasses.dataclass(frozen=True)
class Choice:
    """A row of the table: how people ask for it, and what it is."""

    name: str
    features: Features


def choices() -> Iterator[Choice]:
    """All of farmrt, without each engine, and what each network of the zoo needs."""
    yield Choice("all of it", EVERYTHING)
    for engine in ENGINES:
        yield Choice(f"`--without {engine}`", Features(frozenset({engine})))
    for runtime in RUNTIMES:
        for network in NETWORKS:
            yield Choice(f"`--only-operators` {network}, `runtime: {runtime}`", network_features(network, runtime))


def network_features(network: str, runtime: str) -> Features:
    """What a network of the zoo needs where its deployment file names this runtime."""
    sample = samples.deployment_file(f"zoo://{network}").read_text()
    with TemporaryDirectory() as folder:
        path = Path(folder, f"{network}.yml")
        path.write_text(sample.replace("runtime: gpu", f"runtime: {runtime}"))
        return needed_features([deployment.load(path)])


def measured(rows: Sequence[Choice], abis: Sequence[str]) -> dict[tuple[str, str], Built]:
    """Every row built for every ABI, by the row's name and the ABI; equal features are compiled once."""
    found: dict[tuple[str, Features], Built] = {}
    with TemporaryDirectory() as folder:
        for number, features in enumerate({row.features for row in rows}):
            for abi in abis:
                options = BuildOptions(features, shared=True, output=Path(folder, str(number)))
                found[abi, features] = build(abi, options)
    return {(row.name, abi): found[abi, row.features] for row in rows for abi in abis}


def page(rows: Sequence[Choice], abis: Sequence[str], built: dict[tuple[str, str], Built]) -> Iterator[str]:
    """The lines of both tables."""
    compilers = {abi: built[rows[0].name, abi].compiler for abi in abis}
    told = "; ".join(f"{abi}: {compiler}" for abi, compiler in compilers.items())
    yield f"In bytes, stripped, written by `python -m benchmarks.sizes` ({told}). The program `farmrt`:"
    yield from _table(rows, abis, {key: each.size_bytes for key, each in built.items()})
    yield "The library `libfarmrt.so`:"
    yield from _table(rows, abis, {key: each.shared_bytes or 0 for key, each in built.items()})


def _table(rows: Sequence[Choice], abis: Sequence[str], sizes: dict[tuple[str, str], int]) -> Iterator[str]:
    yield from ("", f"| what is built | {' | '.join(abis)} |", f"| --- | {' | '.join('---:' for _ in abis)} |")
    for row in rows:
        yield f"| {row.name} | {' | '.join(f'{sizes[row.name, abi]:,}' for abi in abis)} |"
    yield ""


def main() -> None:
    """Builds everything, and writes the page or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", dest="printed", action="store_true", help="leave docs/building.md as it is")
    printed = parser.parse_args().printed
    rows, (abis, _) = list(choices()), available_abis()
    table = "\n".join(page(rows, abis, measured(rows, abis)))
    if printed:
        print(table)
        return
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}")


if __name__ == "__main__":
    main()

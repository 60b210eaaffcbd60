"""Says how much of an arm64 core's multiply-add units the innermost loops of the runtime cpu use.

    python benchmarks/ports.py [--cores neoverse-n1,cortex-a53] [--mca llvm-mca-19]

There is no ARM machine here to time; llvm-mca knows the ports and latencies of cores, and takes every load for a hit of
the first cache. LLVM has a model of Cortex-A76 as neoverse-n1, and of Cortex-X1 as neoverse-v1, from its version 16 on.
The use of a loop is the share of its cycles in which its multiply-adds alone would be done. Of each function the loop
without branches that has most multiply-adds is looked at, or an unrolled run within a loop with branches: of these,
whose sums begin anew each time, which llvm-mca cannot be told, it says nothing.

`rules`: the use on a Cortex-A53 by the rules of benchmarks/in_order.py. `waits`: the share of these cycles in which an
instruction waits for what is loaded.
"""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import in_order
from runtime.native.abi import ABIS
from runtime.native.build import include_flags, unit_commands
from runtime.native.compiling import run_compiler
from runtime.native.toolchains import find_toolchain

CORES = ("neoverse-n1", "neoverse-v1", "cortex-a53")
FILES = ("cpu_lanes_product", "cpu_lanes_window", "cpu_tile")
ITERATIONS = 100
LEAST_PRODUCTS = 4  # of a loop that is looked at
UNROLLED_PRODUCTS = 36  # of a run that is no loop by itself
_PRODUCT = re.compile(r"\t(fmla|fmadd|sdot|udot|smlal)\b")
_LABEL = re.compile(r"([.\w$]+):")
_BRANCH = re.compile(r"\t(?:b(?:\.\w+)?|cbn?z|tbn?z)\s(?:.*,\s*)?(\.L[\w$]+)$")


@dataclasses.dataclass(frozen=True)
class Loop:
    """The instructions of an innermost loop, a line each; `whole`: of all of it, which ends where it began."""

    function: str
    lines: tuple[str, ...]
    whole: bool = True

    @property
    def products(self) -> list[str]:
        """Its multiply-adds."""
        return [line for line in self.lines if _PRODUCT.match(line)]


def loops(assembly: str) -> Iterator[Loop]:
    """Every run of instructions that multiplies and ends where it began, or multiplies often: the compiler unrolls what
    a loop with branches then repeats. In the order of a file of assembly.
    """
    function, label, lines = "", "", list[str]()
    for line in assembly.splitlines():
        named, branch = _LABEL.match(line), _BRANCH.match(line)
        if line.startswith("\t") and not line.startswith(("\t.", "\t//")):
            lines.append(line)
        if named or branch:
            loop = Loop(function, tuple(lines), branch is not None and branch[1] == label)
            if len(loop.products) >= (LEAST_PRODUCTS if loop.whole else UNROLLED_PRODUCTS):
                yield loop
            lines = []
        if named:
            label = named[1]
            function = function if label.startswith(".L") else label


def largest(found: Sequence[Loop]) -> list[Loop]:
    """Of each function the loop with most multiply-adds."""
    best: dict[str, Loop] = {}
    for loop in found:
        if loop.function not in best or len(loop.products) > len(best[loop.function].products):
            best[loop.function] = loop
    return list(best.values())


def use(mca: str, core: str, loop: Loop) -> float:
    """The share of a loop's cycles that its multiply-adds would need if they waited for nothing."""
    whole = _summary(mca, core, loop.lines)
    alone = _summary(mca, core, loop.products)
    return float(alone["BlockRThroughput"] * ITERATIONS / whole["TotalCycles"])


def rules(loop: Loop) -> tuple[float, float]:
    """The same of a Cortex-A53 by measured rules, and the share in which it waits for loads."""
    whole = in_order.cycles(loop.lines)
    return len(loop.products) / whole, 1 - in_order.cycles(loop.lines, waits=False) / whole


def _summary(mca: str, core: str, lines: Sequence[str]) -> dict[str, float]:
    command = [mca, "-march=aarch64", f"-mcpu={core}", f"-iterations={ITERATIONS}", "-json"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    summary: dict[str, float] = json.loads(done.stdout)["CodeRegions"][0]["SummaryView"]
    return summary


def assemblies(abi: str) -> Iterator[tuple[str, str]]:
    """The name of each unit of innermost loops, and its assembly."""
    toolchain = find_toolchain(abi)
    with TemporaryDirectory(prefix="farm-ports.") as folder:
        target = Path(folder, "unit.s")
        include = include_flags(Path(folder))
        for unit, flags in unit_commands(ABIS[abi]):
            if unit.source.stem in FILES:
                run_compiler(
                    [
                        *toolchain.compiler,
                        *flags,
                        *include,
                        "-g0",
                        "-Wno-unused-command-line-argument",
                        "-S",
                        str(unit.source),
                        "-o",
                        str(target),
                    ]
                )
                yield unit.name, target.read_text()


@click.command()
@click.option("--cores", default=",".join(CORES), show_default=True, help="as LLVM names them")
@click.option("--mca", default="llvm-mca", show_default=True, help="the program")
def main(cores: str, mca: str) -> None:
    """Use of the multiply-add units, a line for each loop."""
    if not shutil.which(mca):
        raise click.ClickException(f"{mca} is missing: apt install llvm-19, and --mca llvm-mca-19")
    names = cores.split(",")
    heads = [*(f"{name:>12}" for name in names), f"{'rules':>6} {'waits':>6}"]
    click.echo(f"{'loop':<60} {'products':>8} " + " ".join(heads))
    for unit, assembly in assemblies("arm64"):
        for loop in largest(list(loops(assembly))):
            shares = " ".join(f"{use(mca, name, loop):>12.0%}" if loop.whole else f"{'-':>12}" for name in names)
            own, waits = rules(loop)
            click.echo(f"{f'{unit}: {loop.function}':<60} {len(loop.products):>8} {shares} {own:>6.0%} {waits:>6.0%}")


if __name__ == "__main__":
    main()

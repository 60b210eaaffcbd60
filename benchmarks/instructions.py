"""Counts the instructions of a round of the runtime cpu on arm64 and on x86-64, each in qemu's user mode.

    python benchmarks/instructions.py [--models A,B] [--abis arm64,host]

There is no ARM machine here to time, and qemu's speed says nothing of one; but what it executes can be counted.
Debian's qemu is built without plugins, so its log is read instead: which instructions each translated block has
(`in_asm`) and each time that one is entered (`exec,nochain`), some million lines a round. What a round takes is what
two rounds take without what one does, on one thread. On x86-64 qemu offers AVX2 and no AVX-512.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from runtime.graph import Graph
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.target import Target
from runtime.zoo import describe

EMULATORS = {
    "host": ["qemu-x86_64-static"],
    "arm64": ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
}
BLOCK = 8  # channels of a block: what both kinds of vectors divide
MILLION = 1e6


@click.command()
@click.option("--models", default="mobilenet_v2", show_default=True)
@click.option("--abis", default=",".join(EMULATORS), show_default=True)
def main(models: str, abis: str) -> None:
    """Instructions of a round on one thread."""
    with networks.zoo_networks(models.split(",")) as found:
        for network in found:
            graph, macs = network.prepared().graph, describe(network.name).macs
            for abi in abis.split(","):
                number = of_a_round(abi, graph)
                click.echo(f"{network.name}, {abi}: {number / MILLION:.1f} million, {number / macs:.3f} a multiply-add")


def of_a_round(abi: str, graph: Graph) -> int:
    """Instructions that one more round takes."""
    with TemporaryDirectory(prefix="farm-instructions.") as folder:
        plan = lower(graph, Target(soc="any", abi=abi, memory="cpu", cpu_block=BLOCK))
        files = Path(folder, "plan"), Path(folder, "data")
        for path, content in zip(files, (encode_plan(plan), plan.data), strict=True):
            path.write_bytes(content)
        words = [str(build_farmrt(abi)), "run", *(f"{path.name}={path}" for path in files), "threads=1", "warmup=0"]
        return _of_program(abi, [*words, "rounds=2"]) - _of_program(abi, [*words, "rounds=1"])


def count(log: Iterable[bytes]) -> int:
    """Instructions executed, by qemu's log; blocks that it translates again may have become shorter or longer."""
    sizes: dict[int, int] = {}
    entered: Counter[int] = Counter()
    total = begin = 0
    for line in log:
        if line.startswith(b"Trace "):
            entered[int(line.split(b"/", 2)[1], 16)] += 1
        elif not line.startswith(b"0x"):
            begin = 0
        elif begin:
            sizes[begin] += 1
        else:
            begin = int(line.split(b":", 1)[0], 16)
            total += entered.pop(begin, 0) * sizes.get(begin, 0)
            sizes[begin] = 1
    return total + sum(times * sizes[block] for block, times in entered.items())


def _of_program(abi: str, words: list[str]) -> int:
    emulator, *options = EMULATORS[abi]
    if not shutil.which(emulator):
        raise click.ClickException(f"{emulator} is missing: apt install qemu-user-static libc6-arm64-cross")
    reading, writing = os.pipe()
    command = [emulator, *options, "-d", "in_asm,exec,nochain", "-D", f"/dev/fd/{writing}", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(writing,)) as process:
        os.close(writing)
        with os.fdopen(reading, "rb", 1 << 20) as log:
            number = count(log)
        answer, _ = process.communicate()
    if process.returncode:
        raise click.ClickException(f"{abi}: {answer}")
    return number


if __name__ == "__main__":
    main()

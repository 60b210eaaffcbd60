"""Counts the instructions of a round of the runtime cpu on arm64 and on x86-64, each in qemu's user mode.

    python benchmarks/instructions.py [--models A,B] [--abis arm64,host]

There is no ARM machine here to time, and qemu's speed says nothing of one; but what it executes can be counted.
Debian's qemu is built without plugins, so its log is read instead: which instructions each translated block has
(`in_asm`) and each time that one is entered (`exec,nochain`), some ten million lines a round. What a round takes is
what loading and one round take without what loading does, on one thread; of steps that are alike, one is executed and
counted for all. On x86-64 qemu offers AVX2 and no AVX-512.
"""

import dataclasses
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan, Step
from runtime.target import Target
from runtime.zoo import describe

EMULATORS = {
    "host": ["qemu-x86_64-static"],
    "arm64": ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
}
BLOCK = 8  # channels of a block: what both kinds of vectors divide
MILLION = 1e6
PIPE_BYTES = 1 << 20  # as many as a user may ask for
PAUSE_S = 0.002  # in which qemu writes a good part of that: it flushes every line, and each would wake the reader
ENTRIES = re.compile(rb"^Trace [^/]*/([0-9a-f]+)/", re.MULTILINE)


@click.command()
@click.option("--models", default="mobilenet_v2", show_default=True)
@click.option("--abis", default=",".join(EMULATORS), show_default=True)
def main(models: str, abis: str) -> None:
    """Instructions of a round on one thread."""
    with networks.zoo_networks(models.split(",")) as found:
        for network in found:
            graph, macs = network.prepared().graph, describe(network.name).macs
            for abi in abis.split(","):
                target = Target(soc="any", abi=abi, memory="cpu", cpu_block=BLOCK)
                number = of_a_round(abi, lower(graph, target))
                click.echo(f"{network.name}, {abi}: {number / MILLION:.1f} million, {number / macs:.3f} a multiply-add")


def of_a_round(abi: str, plan: Plan, cpu: str = "", isa: str = "") -> int:
    """Instructions that one more round takes; `cpu`: qemu's name of it, `isa`: farmrt's of an instruction set."""
    alike = Counter(map(_kind, plan.steps))
    distinct = {_kind(step): step for step in plan.steps}
    total = 0
    for times in sorted(set(alike.values())):
        steps = tuple(step for kind, step in distinct.items() if alike[kind] == times)
        total += times * _of_plan(abi, dataclasses.replace(plan, steps=steps, tensors=()), cpu, isa)
    return total


def _kind(step: Step) -> Hashable:
    """What steps have in common that execute the same instructions."""
    return step.kernel.name, step.variant, tuple(sorted(step.defines.items())), tuple(sorted(step.dims.items()))


def _of_plan(abi: str, plan: Plan, cpu: str, isa: str) -> int:
    """Instructions of a round of a plan."""
    with TemporaryDirectory(prefix="farm-instructions.") as folder:
        files = Path(folder, "plan"), Path(folder, "data")
        for path, content in zip(files, (encode_plan(plan), bytes(plan.data)), strict=True):
            path.write_bytes(content)
        words = [str(build_farmrt(abi)), "run", *(f"{path.name}={path}" for path in files), "threads=1", "warmup=0"]
        words += [f"isa={isa}"] if isa else []
        return _of_program(abi, cpu, [*words, "rounds=1"]) - _of_program(abi, cpu, [*words, "rounds=0"])


def count(pieces: Iterable[bytes]) -> int:
    """Instructions executed, by qemu's log in pieces of whole lines; a block that it translates again may have become
    shorter or longer.
    """
    sizes: dict[int, int] = {}
    entered: Counter[int] = Counter()
    total = begin = 0
    for piece in pieces:
        if not begin and b"\n0x" not in piece and not piece.startswith(b"0x"):  # no translation: nearly all pieces
            entered.update({int(block, 16): times for block, times in Counter(ENTRIES.findall(piece)).items()})
            continue
        for line in piece.splitlines():
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


def _pieces(reading: int) -> Iterator[bytes]:
    """What a pipe gives until it ends, in pieces of whole lines."""
    rest = b""
    while piece := os.read(reading, PIPE_BYTES):
        lines, end, tail = piece.rpartition(b"\n")
        if end:
            yield rest + lines + end
            rest = tail
        else:
            rest += tail
        time.sleep(PAUSE_S)


def _of_program(abi: str, cpu: str, words: list[str]) -> int:
    emulator, *options = EMULATORS[abi]
    options += ["-cpu", cpu] if cpu else []
    if not shutil.which(emulator):
        raise click.ClickException(f"{emulator} is missing: apt install qemu-user-static libc6-arm64-cross")
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    command = [emulator, *options, "-d", "in_asm,exec,nochain", "-D", f"/dev/fd/{writing}", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(writing,)) as process:
        os.close(writing)
        with os.fdopen(reading, "rb", 0):
            number = count(_pieces(reading))
        answer, _ = process.communicate()
    if process.returncode:
        raise click.ClickException(f"{abi}: {answer}")
    return number


if __name__ == "__main__":
    main()

"""How many instructions of an arm64 CPU a network takes in eight bits over those in floats: counted in qemu.

There is no ARM machine here to time. qemu tells of each block of instructions what is in it, when it translates it, and
that it is run; what a second round adds is one inference, on one thread. An instruction is no cycle: of a product of
bytes it does four times as much as of floats (SDOT), or eight times (I8MM).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import quantised_speed
from runtime.errors import UnsupportedError
from runtime.graph import Graph
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.target import Target

NETWORKS = ("mobilenet_v1?size=64", "resnet50?size=32")  # of small images: qemu writes a line for each block it runs
CPUS = {"SDOT": ("neoverse-n1", "dotprod"), "I8MM": ("max", "i8mm")}  # qemu's CPU, and farmrt's instruction set
TARGET = Target("arm64", "arm64", memory="cpu")
LIBRARIES = Path("/usr/aarch64-linux-gnu")
_CHUNK = 1 << 22  # bytes of a log that are looked at together
_RUN = re.compile(rb"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", re.MULTILINE)
_TRANSLATED = re.compile(rb"^IN:.*\n((?:0x[0-9a-f]+: .*\n)+)", re.MULTILINE)


def table(networks: list[str]) -> Iterator[str]:
    """The lines: millions of instructions of one inference in floats, and the ratio in eight bits of each CPU."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None or not LIBRARIES.is_dir():
        raise UnsupportedError("instructions are counted in qemu: apt install qemu-user-static libc6-arm64-cross")
    program = build_farmrt("arm64")
    yield f"| | millions in floats | {' | '.join(f'{name} over floats' for name in CPUS)} |"
    yield f"| --- |{' ---: |' * (1 + len(CPUS))}"
    for network in networks:
        with TemporaryDirectory() as name:
            floats, whole, _ = quantised_speed.zoo_models(network, Path(name))
            command = [emulator, "-L", str(LIBRARIES)]
            of_floats = instructions(command, program, floats.graph, CPUS["SDOT"], Path(name))
            cells = (instructions(command, program, whole.graph, cpu, Path(name)) / of_floats for cpu in CPUS.values())
            yield f"| {network} | {of_floats / 1e6:.0f} | {' | '.join(f'{each:.2f}' for each in cells)} |"


def instructions(command: list[str], program: Path, graph: Graph, cpu: tuple[str, str], folder: Path) -> int:
    """Those of one inference."""
    plan = lower(graph, TARGET)
    (folder / "plan").write_bytes(encode_plan(plan))
    (folder / "data").write_bytes(bytes(plan.data))
    name, isa = cpu
    logging = ["-cpu", name, "-d", "in_asm,exec,nochain"]
    words = ["run", f"plan={folder / 'plan'}", f"data={folder / 'data'}", f"isa={isa}", "threads=1"]
    once, twice = (_counted([*command, *logging, str(program), *words, f"rounds={rounds}"]) for rounds in (1, 2))
    return twice - once


def _counted(command: list[str]) -> int:
    """Instructions of a process whose log is on its standard error."""
    sizes, runs, rest = dict[int, int](), Counter[bytes](), b""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr
        while chunk := process.stderr.read(_CHUNK):
            text, _, rest = (rest + chunk).rpartition(b"\n\n" if b"IN:" in rest + chunk else b"\n")
            runs.update(_RUN.findall(text + b"\n"))
            for lines in _TRANSLATED.findall(text + b"\n"):
                sizes[int(lines.partition(b":")[0], 16)] = lines.count(b"\n")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return sum(count * sizes.get(int(place, 16), 0) for place, count in runs.items())

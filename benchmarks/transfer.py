"""How fast files reach a unit: farm's push beside `scp` or `adb push`, in turns on the same link.

    python benchmarks/transfer.py                       # loopback, through an sshd that it starts
    python benchmarks/transfer.py --link adb            # an emulated phone, through an adb server that it starts
    python benchmarks/transfer.py --unit NAME           # a board or a phone of devices.yml
    python benchmarks/transfer.py --json

farm verifies every file by its hash on the unit, scp and adb do not. "open": over a connection that is there
already, as farm's jobs have it; the others connect first. Each push brings new files, but for "unchanged".
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import adbutils
import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import loopback
from farm import transport as transports
from farm.config import inventory
from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.transport import ssh, ssh_config
from farm.transport.adb_server import AdbServer, find_adb
from runtime.native.build import build_farmrt

MEGABYTE = 10**6
FARMRT = "farmrt"
DEADLINE_S = 60.0

# Prepares to send files under a name on the unit, and returns what sends them: that alone is timed.
Way = Callable[[Sequence[Path], str], Callable[[], object]]


@dataclass(frozen=True)
class Load:
    name: str
    files: int
    file_bytes: int


@dataclass
class Timing:
    """Seconds of one way with one load."""

    load: str
    way: str
    seconds: list[float] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


LOADS = (Load("one file of 64 MB", 1, 64 * MEGABYTE), Load("200 files of 20 kB", 200, 20_000))


def measure(ways: dict[str, Way], loads: Sequence[Load], rounds: int, folder: Path) -> list[Timing]:
    """Every way with every load, in turns whose order rotates; the first round only warms up."""
    timings = {(load.name, name): Timing(load.name, name) for load in loads for name in ways}
    names = list(ways)
    for load in loads:
        for number in range(rounds + 1):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                files = _new_files(load, folder)
                send = ways[name](files, f"{load.files}-{number}-{names.index(name)}")
                start_s = time.perf_counter()
                send()
                if number:
                    timings[load.name, name].seconds.append(time.perf_counter() - start_s)
    return list(timings.values())


def farm_ways(unit: Unit, stack: ExitStack) -> tuple[dict[str, Way], str]:
    """farm to one unit, and the folder there, which vanishes at the end; farmrt is there, as it is in farm's jobs."""
    opened = stack.enter_context(closing(transports.connect(unit)))
    opened.push({FARMRT: build_farmrt(unit.abi)})
    opened.hash_with(FARMRT)
    stack.callback(opened.run, ["sh", "-c", 'rm -rf -- "$PWD"'], DEADLINE_S)

    def push(files: Sequence[Path], into: str) -> Callable[[], object]:
        return lambda: opened.push(_named(files, into))

    def push_again(files: Sequence[Path], into: str) -> Callable[[], object]:
        opened.push(_named(files, into))
        return push(files, into)

    def connect_and_push(files: Sequence[Path], into: str) -> Callable[[], object]:
        def send() -> None:
            with closing(transports.connect(unit)) as own:
                own.hash_with(FARMRT)
                own.push(_named(files, into))

        return send

    ways: dict[str, Way] = {"farm, open": push, "farm, unchanged": push_again, "farm": connect_and_push}
    return ways, opened.run(["pwd"], DEADLINE_S).stdout.decode().strip()


def ssh_ways(unit: Unit, stack: ExitStack, folder: Path) -> dict[str, Way]:
    """farm and scp to one unit, each with a connection of its own and over one that is open."""
    ours, there = farm_ways(unit, stack)
    options = _ssh_options(unit, folder)
    shared = ["-o", f"ControlPath={folder / 'control'}"]
    where = ssh_config.resolve_target(unit)
    login = f"{where.username}@{where.host}"
    subprocess.run(["ssh", *options, *shared, "-o", "ControlMaster=yes", "-fN", login], check=True)
    stack.callback(subprocess.run, ["ssh", *options, *shared, "-O", "exit", login], capture_output=True)
    target = f"{login}:{there}"

    def scp(files: Sequence[Path], into: str, *more: str) -> Callable[[], object]:
        source = [str(file) for file in files] if len(files) == 1 else ["-r", str(files[0].parent)]
        argv = ["scp", "-q", *options, *more, *source, f"{target}/{into}"]
        return lambda: subprocess.run(argv, check=True)

    return ours | {"scp": scp, "scp, open": lambda files, into: scp(files, into, *shared)}


def adb_ways(unit: Unit, stack: ExitStack, folder: Path) -> dict[str, Way]:
    """farm, `adb push` and adbutils' client to one phone, through the same adb server."""
    ours, there = farm_ways(unit, stack)
    port = AdbServer(unit.adb_server).port
    adb = [find_adb(), "-P", str(port), *(["-s", unit.serial] if unit.serial else [])]
    sync = adbutils.AdbClient(port=port).device(unit.serial or None).sync

    def push(files: Sequence[Path], into: str) -> Callable[[], object]:
        source = files[0] if len(files) == 1 else files[0].parent
        argv = [*adb, "push", str(source), f"{there}/{into}"]
        return lambda: subprocess.run(argv, check=True, capture_output=True)

    def push_by_adbutils(files: Sequence[Path], into: str) -> Callable[[], object]:
        return lambda: [sync.push(file, f"{there}/{name}") for name, file in _named(files, into).items()]

    return ours | {"adb push": push, "adbutils": push_by_adbutils}


# Kind of link -> the ways that are compared on it.
WAYS: dict[str, Callable[[Unit, ExitStack, Path], dict[str, Way]]] = {
    "ssh": ssh_ways,
    "adb": adb_ways,
}
FOLDERS = {"ssh": "~/.farm-unit-transfer", "adb": "/data/local/tmp/farm-transfer"}
REFERENCES = {"ssh": "scp", "adb": "adb push"}


@contextmanager
def loopback_unit(folder: Path) -> Iterator[Unit]:
    """An sshd of our own, trusted in a home of our own."""
    os.environ["HOME"] = str(folder)
    (folder / ".ssh").mkdir()
    key = loopback.make_key(folder / "key")
    with loopback.running_sshd(folder / "sshd", key.with_suffix(".pub").read_text()) as (port, _):
        unit = Unit(
            name="loopback",
            transport="ssh",
            soc="host",
            model="loopback",
            abis=("host",),
            address=loopback.ADDRESS,
            port=port,
            key_file=key,
        )
        ssh.trust(ssh.host_key_of(unit))
        yield unit


@contextmanager
def emulated_unit(folder: Path) -> Iterator[Unit]:
    """A phone in a process of its own, and an adb server of our own."""
    with loopback.running_phone() as address, loopback.running_adb_server(folder) as port:
        yield Unit("emulated", "adb", "sdm845", "MI 8", ("host",), serial=address, adb_server=AdbAddress(port=port))


LOOPBACKS = {"ssh": loopback_unit, "adb": emulated_unit}


def table(timings: Sequence[Timing], loads: Sequence[Load], reference: str) -> str:
    """Median, rate, and speed as a share of the reference's."""
    lines = [f"{'':22}{'':18}{'median':>9}{'range':>18}{'rate':>11}{f'of {reference}':>12}"]
    for load in loads:
        theirs = next(each for each in timings if (each.load, each.way) == (load.name, reference))
        for each in (each for each in timings if each.load == load.name):
            span = f"{min(each.seconds):.3f}-{max(each.seconds):.3f} s"
            rate = load.files * load.file_bytes / each.median_s / MEGABYTE
            share = theirs.median_s / each.median_s
            lines.append(f"{load.name:22}{each.way:18}{each.median_s:7.3f} s{span:>18}{rate:6.0f} MB/s{share:12.0%}")
    return "\n".join(lines)


def _new_files(load: Load, folder: Path) -> list[Path]:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    for old in source.iterdir():
        old.unlink()
    files = [source / f"{index}.bin" for index in range(load.files)]
    for file in files:
        file.write_bytes(os.urandom(load.file_bytes))
    return files


def _named(files: Sequence[Path], into: str) -> dict[str, Path]:
    """As scp names them: one file gets the name, many go into a folder of the name."""
    return {into: files[0]} if len(files) == 1 else {f"{into}/{file.name}": file for file in files}


def _ssh_options(unit: Unit, folder: Path) -> list[str]:
    where = ssh_config.resolve_target(unit)
    known = " ".join(str(path) for path in where.known_hosts)
    options = ["-o", f"Port={where.port}", "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes"]
    return [*options, *(word for path in where.key_files for word in ("-i", str(path)))]


@click.command(help=__doc__)
@click.option("--unit", "name", help="A unit of devices.yml; default: this machine, over --link.")
@click.option("--link", type=click.Choice(list(LOOPBACKS)), default="ssh", show_default=True)
@click.option("--rounds", default=7, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(name: str | None, link: str, rounds: int, as_json: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        if name:
            unit = next(unit for unit in inventory.load_inventory().units if unit.name == name)
        else:
            unit = stack.enter_context(LOOPBACKS[link](folder))
        ways = WAYS[unit.transport](replace(unit, folder=FOLDERS[unit.transport]), stack, folder)
        timings = measure(ways, LOADS, rounds, folder)
    if as_json:
        click.echo(json.dumps([{"load": each.load, "way": each.way, "seconds": each.seconds} for each in timings]))
    else:
        click.echo(table(timings, LOADS, REFERENCES[unit.transport]))


if __name__ == "__main__":
    main()

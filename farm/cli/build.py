"""`farm build`: compiles farmrt."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

import click

from farm.cli.envelope import CommandResult, Document
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError
from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.toolchains import find_toolchain, why_missing

COLUMNS = ("ABI", "Size", "Time", "Compiler", "Program")
LEFT = frozenset({"ABI", "Compiler", "Program"})


@dataclasses.dataclass(frozen=True)
class Built:
    """One farmrt; `seconds` is near 0 where it was there already."""

    abi: str
    program: str
    size_bytes: int
    compiler: str
    seconds: float


def build(abis: tuple[str, ...], every: bool, as_json: bool) -> CommandResult:
    """`farm build`; returns the exit status."""
    if abis and every:
        raise ConfigError("farm build: give --abi or --all, not both")
    left_out = {abi: reason for abi in ABIS if every and (reason := why_missing(abi))}
    wanted = [abi for abi in ABIS if abi not in left_out] if every else list(dict.fromkeys(abis or (HOST,)))
    built = list(_build(wanted))
    if as_json:
        return Document(members={"built": [dataclasses.asdict(program) for program in built], "left_out": left_out})
    table.show([Table("", COLUMNS, [_cells(program) for program in built], LEFT)])
    for reason in left_out.values():
        click.echo(f"left out: {reason}", err=True)
    return 0


def _build(abis: Sequence[str]) -> Iterator[Built]:
    for number, abi in enumerate(abis, 1):
        compiler = find_toolchain(abi).name
        click.echo(f"{number}/{len(abis)} {abi} with {compiler}", err=True)
        start_s = time.monotonic()
        program = build_farmrt(abi)
        yield Built(abi, str(program), program.stat().st_size, compiler, round(time.monotonic() - start_s, 1))


def _cells(built: Built) -> list[str]:
    return [built.abi, f"{built.size_bytes:,} B", f"{built.seconds:.1f} s", built.compiler, built.program]

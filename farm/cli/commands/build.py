"""Options and help of `farm build`."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from runtime.native.abi import ABIS


@click.command(name="build")
@click.option(
    "--abi", "abis", multiple=True, type=click.Choice(list(ABIS)), help="What to compile for.  [default: host]"
)
@click.option("--all", "every", is_flag=True, help="Every ABI that a compiler is there for.")
@options.json_option
def command(**given: Any) -> CommandResult:
    """Compile farmrt, the runtime that executes plans on a unit.

    Jobs do so themselves when a unit needs it. Give --abi several times for several. For Android the NDK that
    ANDROID_NDK_HOME names is used; without it ziglang compiles for arm64-v8a, and armeabi-v7a is left out.
    """
    from farm.cli import build

    return build.build(**given)

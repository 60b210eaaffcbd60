"""Options and help of `farm zoo`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult


@click.group(name="zoo")
def command() -> None:
    """List and write networks with seeded random weights, made offline."""


@command.command(name="list")
@options.json_option
def list_models(**given: Any) -> CommandResult:
    """List the networks, each at its published size."""
    from farm.cli import zoo

    return zoo.list_models(**given)


@command.command(name="deployment")
@click.argument("name")
@click.option("-o", "--output", type=paths.NEW_FILE, help="File to write.  [default: standard output]")
@options.json_option
def write_deployment(**given: Any) -> CommandResult:
    """Write the sample deployment file of the network NAME, to start your own from.

    Every command takes zoo://NAME for it, as in `farm run zoo://mobilenet_v1`.
    """
    from farm.cli import zoo

    return zoo.write_deployment(**given)


@command.command(name="write")
@click.argument("name")
@click.option("-o", "--output", type=paths.NEW_FILE, required=True, help="ONNX file to write.")
@click.option("--width", type=float, default=1.0, show_default=True, help="Multiplies the number of channels.")
@click.option("--size", type=int, help="Height and width of the input.  [default: as published]")
@click.option("--classes", type=int, help="Number of outputs.  [default: as published]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random weights.")
@options.json_option
def write_model(**given: Any) -> CommandResult:
    """Write the network NAME as ONNX.

    A deployment file can name it without a file: model_file_path: zoo://NAME?width=0.5&size=128
    """
    from farm.cli import zoo

    return zoo.write_model(**given)

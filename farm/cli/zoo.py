"""`farm zoo`: the networks that can be made offline."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from farm import atomic_file
from farm.cli.envelope import OPTION, CommandResult, Document
from farm.tables import table
from runtime import zoo
from runtime.zoo import Description

json_option = click.option(OPTION, "as_json", is_flag=True, help="Print JSON.")


@click.group(name="zoo")
def command() -> None:
    """List and write networks with seeded random weights, made offline."""


@command.command(name="list")
@json_option
def list_models(as_json: bool) -> CommandResult:
    """List the networks, each at its published size."""
    descriptions = [zoo.describe(name) for name in zoo.names()]
    if as_json:
        return Document(members={"models": [dataclasses.asdict(model) for model in descriptions]})
    columns = ("name", "input", "classes", "parameters (M)", "multiply-accumulates (M)", "paper")
    table.show([table.Table("", columns, [_row(model) for model in descriptions], frozenset({"name", "paper"}))])
    return 0


@command.command(name="write")
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="ONNX file to write."
)
@click.option("--width", type=float, default=1.0, show_default=True, help="Multiplies the number of channels.")
@click.option("--size", type=int, help="Height and width of the input.  [default: as published]")
@click.option("--classes", type=int, help="Number of outputs.  [default: as published]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random weights.")
@json_option
def write_model(
    name: str, output: Path, width: float, size: int | None, classes: int | None, seed: int, as_json: bool
) -> CommandResult:
    """Write the network NAME as ONNX.

    A deployment file can name it without a file: model_file_path: zoo://NAME?width=0.5&size=128
    """
    content = zoo.build(name, width=width, size=size, classes=classes, seed=seed).SerializeToString(deterministic=True)
    atomic_file.write(output, content)
    if as_json:
        return Document(members={"file": str(output), "size_bytes": len(content)})
    click.echo(f"{output}: {len(content) / 1e6:.1f} MB")
    return 0


def _row(model: Description) -> tuple[str, ...]:
    shape = "x".join(map(str, model.input_shape))
    return (
        model.name,
        shape,
        str(model.classes),
        f"{model.parameters / 1e6:.1f}",
        f"{model.macs / 1e6:.0f}",
        model.paper,
    )

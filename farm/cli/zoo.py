"""`farm zoo`: the networks that can be made offline."""

import dataclasses
from pathlib import Path

import click

from farm import atomic_file
from farm.cli.envelope import CommandResult, Document
from farm.config import samples
from farm.tables import table
from runtime import zoo
from runtime.zoo import Description


def list_models(as_json: bool) -> CommandResult:
    """`farm zoo list`."""
    descriptions = [zoo.describe(name) for name in zoo.names()]
    if as_json:
        return Document(members={"models": [dataclasses.asdict(model) for model in descriptions]})
    columns = ("name", "input", "classes", "parameters (M)", "multiply-accumulates (M)", "paper")
    table.show([table.Table("", columns, [_row(model) for model in descriptions], frozenset({"name", "paper"}))])
    return 0


def write_deployment(name: str, output: Path | None, as_json: bool) -> CommandResult:
    """`farm zoo deployment`; the document has the content where no file is written."""
    content = samples.find(name).read_bytes()
    if output:
        atomic_file.write(output, content)
    if as_json:
        return Document(members={"file": str(output) if output else None, "content": content.decode()})
    if not output:
        click.echo(content, nl=False)
    return 0


def write_model(
    name: str, output: Path, width: float, size: int | None, classes: int | None, seed: int, as_json: bool
) -> CommandResult:
    """`farm zoo write`."""
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

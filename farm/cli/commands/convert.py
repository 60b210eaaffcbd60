"""Options and help of `farm convert`."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="convert")
@options.model_argument
@options.unit_options
@options.fleet_options("farm convert")
@click.option("--explain", is_flag=True, help="Say what each pass did.")
@options.trust_model_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Convert the models of MODEL.yml: the graph as ONNX, and a plan with its weights for each unit.

    The files lie in build/LIBRARY/model, and in build/LIBRARY/code what model_graph_format: code asks for. Without a
    unit of the deployment file's ABIs and SoCs only the graph is made.
    """
    from farm.cli import convert

    return convert.convert(**given)

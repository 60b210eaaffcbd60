"""Options and help of `farm inspect`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="inspect")
@click.argument("model_file", metavar="MODEL.yml|PLAN", type=options.MODEL_FILE)
@click.option("--tensors", "with_tensors", is_flag=True, help="Show every tensor: origin, storage, bytes, padding.")
@options.unit_options
@click.option("--target-file", metavar="FILE", type=options.FILE, help="What `farmrt probe` printed on another unit.")
@options.fleet_options("farm inspect")
@options.memory_option
@options.model_file_options
@options.json_option
def command(**given: Any) -> CommandResult:
    """Show the plans of the models of MODEL.yml, or a plan file: operators, conversions, and how each tensor lies.

    A tensor's origin is its format and shape as the model's author sees it; its storage is its format and shape in
    memory, padding included. A plan file knows the storage of its inputs, outputs, images and packed
    weights alone. Nothing is run.
    """
    from farm.cli import inspect

    return inspect.inspect(**given)

"""Options of `farm unit-night`, which hosts of a cluster run for `farm nightly --cluster`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="unit-night", hidden=True)
@options.unit_options
@options.fleet_options("farm nightly")
@options.trust_model_option
@options.store_option
@options.json_option
def command(store: str | None, **given: Any) -> CommandResult:
    """Measure the night of one unit that was sent to this folder; rows go to who sent it, never to a store here."""
    from farm.cli import unit_night

    return unit_night.unit_night(**given)

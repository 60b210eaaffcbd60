"""Options and help of `farm bisect`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number, WholeNumber


@click.command(name="bisect")
@click.argument("good", metavar="GOOD")
@click.argument("bad", metavar="BAD")
@click.argument("model_file", metavar="MODEL.yml", type=str)
@options.unit_options
@click.option("--model", metavar="NAME", help="Which model of the file.  [default: the only one]")
@click.option("--runtime", type=click.Choice(["cpu", "gpu"]), help="[default: gpu where the model runs there]")
@click.option(
    "--repository",
    metavar="FOLDER",
    type=options.FILE,
    help="Commits are those of this repository of models, where MODEL.yml is a path in it.  [default: farm's own]",
)
@click.option("--build", metavar="COMMAND", default="", help="Makes MODEL.yml in a checkout of a commit.")
@click.option(
    "--engine", metavar="ENGINE", default="", help="GOOD and BAD are versions of this engine: each is fetched by pip."
)
@click.option("--turns", type=WholeNumber(8, 1000), default=10, show_default=True, help="Pairs of processes at once.")
@click.option("--most-turns", type=WholeNumber(8, 10_000), default=40, show_default=True, help="Of one commit.")
@click.option(
    "--margin",
    "margin_percent",
    metavar="PERCENT",
    type=Number(0, 100),
    default=1.0,
    show_default=True,
    help="A change of no more than this is none.",
)
@click.option("--fresh", is_flag=True, help="Forget what an earlier call has measured.")
@options.memory_option
@options.fleet_options("farm bisect")
@options.cluster_options_of("interactive", stays_for="its repository")
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Which commit, or version of an engine, made a model slower, or faster?

    GOOD and BAD are commits of farm's repository, GOOD the older one, and each commit's farm runs MODEL.yml; with
    --repository those of a repository of models, with --engine versions of another engine. They are measured in turns
    with GOOD on one unit. One that cannot be made, or told from neither end, is passed over. The same command goes on
    where an earlier one was interrupted.

    Exit status: 0 the commit, or the few that are left, are found; 1 there is no change between GOOD and BAD.
    """
    from farm.cli import bisect

    return bisect.bisect(**given)

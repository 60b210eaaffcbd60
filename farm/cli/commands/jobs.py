"""Options and help of `farm jobs`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number

JOB = click.argument("job", metavar="JOB")
TIMEOUT = click.option("--timeout", "timeout_s", metavar="SECONDS", type=Number(0), help="Exit status 1 after that.")


def _of_cluster(function: Any) -> Any:
    """Which cluster is asked."""
    return options.cluster_option(options.certificates_option(options.json_option(function)))


@click.group(name="jobs")
def command() -> None:
    """Show, cancel, wait for and fetch the jobs of a cluster: commands that were called with --cluster."""


@command.command(name="list")
@_of_cluster
def list_jobs(**given: Any) -> CommandResult:
    """List all jobs, the oldest first."""
    from farm.cli import jobs

    return jobs.list_jobs(**given)


@command.command(name="show")
@JOB
@_of_cluster
def show(**given: Any) -> CommandResult:
    """Show what a job does now, and what it waits for."""
    from farm.cli import jobs

    return jobs.show(**given)


@command.command(name="cancel")
@JOB
@_of_cluster
def cancel(**given: Any) -> CommandResult:
    """End a job, whoever began it; what it has measured is kept where it was called."""
    from farm.cli import jobs

    return jobs.cancel(**given)


@command.command(name="wait")
@JOB
@TIMEOUT
@_of_cluster
def wait(**given: Any) -> CommandResult:
    """Wait until a job has ended."""
    from farm.cli import jobs

    return jobs.wait(**given)


@command.command(name="fetch")
@JOB
@TIMEOUT
@click.option("--output-dir", type=paths.NEW_FOLDER, help="Bring what it wrote into its --output-dir, here.")
@click.option("--trace", type=paths.NEW_FILE, help="Write a benchmark's trace here.")
@click.option("--html", type=paths.NEW_FILE, help="Write a benchmark's page here.")
@options.store_option
@_of_cluster
def fetch(**given: Any) -> CommandResult:
    """Wait until a job of --detach has ended, and bring its rows, and what tuning left, as its command would have.

    The exit status is the command's. A job can be fetched again; the store keeps its rows once.
    """
    from farm.cli import jobs

    return jobs.fetch(**given)

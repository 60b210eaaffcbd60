"""Options and help of `farm artifacts`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult


@click.group(name="artifacts")
def command() -> None:
    """List, show, verify, merge and share tuned parameters and compiled kernels."""


@command.command(name="list")
@options.json_option
def list_files(**given: Any) -> CommandResult:
    """List the artifacts in build/; exit status 1 when one is damaged."""
    from farm.cli import artifacts

    return artifacts.list_files(**given)


@command.command(name="show")
@click.argument("file", type=paths.EXISTING_FILE)
@options.json_option
def show_file(**given: Any) -> CommandResult:
    """Show the sets of FILE: what each is valid for, and its entries."""
    from farm.cli import artifacts

    return artifacts.show_file(**given)


@command.command(name="verify")
@click.argument("files", metavar="[FILE ...]", nargs=-1, type=paths.EXISTING_FILE)
@options.unit_options
@click.option("--offline", is_flag=True, help="Do not compare with any unit.")
@options.opencl_option
@options.json_option
def verify_files(**given: Any) -> CommandResult:
    """Verify FILEs, or all in build/: content, hash in the manifest, and whether a unit of their SoC can use them.

    Exit status 1 when anything is wrong.
    """
    from farm.cli import artifacts

    return artifacts.verify_files(**given)


@command.command(name="merge")
@click.argument("files", metavar="FILE ...", nargs=-1, type=paths.EXISTING_FILE, required=True)
@click.option("-o", "--output", type=paths.NEW_FILE, required=True, help="File to write.")
@options.json_option
def merge_files(**given: Any) -> CommandResult:
    """Merge FILEs of one kind into one, from which farmrt picks by fingerprint.

    Of two entries for the same launch and fingerprint the faster stays, of two binaries the one of the later file.
    """
    from farm.cli import artifacts

    return artifacts.merge_files(**given)


@command.command(name="share")
@click.argument("place", metavar="PLACE")
@options.store_option
@options.json_option
def share_files(**given: Any) -> CommandResult:
    """Take over what other hosts have tuned from PLACE, and leave there what was tuned here.

    PLACE is a folder that all hosts reach, or a URL that fsspec opens (s3://BUCKET/FOLDER needs s3fs). Artifacts,
    choices and journals of build/ go and come; of two sets for one device the one with the larger gain stays. Bundles
    beside the store go; nights elsewhere fetch what they need of them (`farm nightly --share PLACE`).
    """
    from farm.cli import artifacts

    return artifacts.share_files(**given)

"""Options and help of `farm serve`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number

PERSON = click.argument("name", metavar="NAME")
tokens_option = click.option(
    "--tokens",
    metavar="FILE",
    type=options.FILE,
    help="Where tokens are kept.  [default: farm/serve-tokens.json in ~/.config]",
)


@click.group(name="serve", invoke_without_command=True)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8765",
    show_default=True,
    help="Where to listen; beyond this machine only with a certificate or behind a proxy.",
)
@click.option("--certificate", metavar="FILE", type=options.FILE, help="Certificate for HTTPS (PEM), with --key.")
@click.option("--key", metavar="FILE", type=options.FILE, help="Its private key (PEM).")
@click.option("--behind-proxy", is_flag=True, help="A proxy on this machine speaks HTTPS for it.")
@click.option("--host-name", "host_names", metavar="NAME", multiple=True, help="A name by which browsers reach it.")
@click.option("--base", metavar="PATH", default="", help="The path below which the proxy shows it, as /farm.")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=Number(1, 3600),
    default=15.0,
    show_default=True,
    help="How often units are looked at.",
)
@options.cluster_option
@options.certificates_option
@click.option("--reports", metavar="FOLDER", type=options.FILE, default="reports", show_default=True, help="Reports.")
@tokens_option
@options.store_option
@options.share_option("Show the artifacts that other hosts left in this folder or URL, too.")
@click.pass_context
def command(context: click.Context, /, **given: Any) -> CommandResult:
    """Serve a page of all units, runs, nights, reports and artifacts; an API and metrics for programs, too.

    Who has a token can reserve, release and check units there, and cancel jobs; all others may read. With --cluster
    it shows the units of all hosts, and the queue.
    """
    if context.invoked_subcommand:
        return None
    from farm.cli import serve

    return serve.serve(**given)


@command.group(name="token")
def token() -> None:
    """Give people tokens, with which they make changes, and take them back."""


@token.command(name="add")
@PERSON
@tokens_option
@options.json_option
def add_token(**given: Any) -> CommandResult:
    """Make a token for a person and print it; only its hash is kept, so it cannot be shown again."""
    from farm.cli import serve

    return serve.add_token(**given)


@token.command(name="list")
@tokens_option
@options.json_option
def list_tokens(**given: Any) -> CommandResult:
    """List who has a token, and since when."""
    from farm.cli import serve

    return serve.list_tokens(**given)


@token.command(name="revoke")
@PERSON
@tokens_option
@options.json_option
def revoke_token(**given: Any) -> CommandResult:
    """End a person's token, and what they are signed in with, at once."""
    from farm.cli import serve

    return serve.revoke_token(**given)

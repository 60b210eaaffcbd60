"""Options and help of `farm report`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult

FORMATS = ("html", "markdown", "junit", "json", "trace")


def _formats(_context: click.Context, _option: click.Parameter, value: str) -> list[str]:
    """Formats with commas between them."""
    wanted = {name.strip() for name in value.split(",")}
    if unknown := sorted(wanted - set(FORMATS)):
        raise click.BadParameter(f"unknown format {unknown[0]!r}; there are {', '.join(FORMATS)}")
    return [name for name in FORMATS if name in wanted]


@click.command(name="report")
@click.option("--run", metavar="RUN|latest", default="latest", show_default=True, help="Run of `farm nightly`.")
@click.option("--baseline", metavar="NAME", default="series", show_default=True, help="series, last_good, or a name.")
@click.option("-o", "--output", metavar="FOLDER", type=paths.NEW_FOLDER, help="Report.  [default: reports/<name>]")
@click.option(
    "--format",
    "formats",
    metavar="FORMAT[,...]",
    callback=_formats,
    default=",".join(FORMATS),
    help=f"Any of {', '.join(FORMATS)}.  [default: all]",
)
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Write the report of a night: pages, Markdown, JUnit XML, JSON, traces.

    The night is judged anew, by what the store knows today. A report that is in FOLDER already is replaced as a whole.
    """
    from farm.cli import report

    return report.report(**given)

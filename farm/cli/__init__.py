"""The command line: one file a command, imported when it is called or listed.

A command returns its exit status, or None for 0. Every mistake ends here as one line on stderr. Exit status: 0 done,
1 a job failed, 2 usage or configuration, 3 no unit matches, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from farm import __version__
from farm.cli.lazy_group import LazyGroup
from farm.safe_text import one_line
from runtime.errors import FarmError

FAILED = 1
INTERRUPTED = 130

# Name -> module that has a click command named `command`; listed by `farm --help` in this order.
COMMANDS = {
    "demo": "farm.cli.commands.demo",
    "doctor": "farm.cli.commands.doctor",
    "devices": "farm.cli.commands.devices",
    "build": "farm.cli.commands.build",
    "zoo": "farm.cli.commands.zoo",
    "convert": "farm.cli.commands.convert",
    "forecast": "farm.cli.commands.forecast",
    "run": "farm.cli.commands.run",
    "benchmark": "farm.cli.commands.benchmark",
    "opbench": "farm.cli.commands.opbench",
    "tune": "farm.cli.commands.tune",
    "nightly": "farm.cli.commands.nightly",
    "compare": "farm.cli.commands.compare",
    "baseline": "farm.cli.commands.baseline",
    "report": "farm.cli.commands.report",
    "artifacts": "farm.cli.commands.artifacts",
    "store": "farm.cli.commands.store",
    "clean": "farm.cli.commands.clean",
    "emulate": "farm.cli.commands.emulate",
}


@click.group(cls=LazyGroup, modules=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def farm() -> None:
    """Converts neural networks, runs, validates, profiles and tunes them on many phones and boards."""


def main() -> None:
    """Entry point of the `farm` command."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: Sequence[str]) -> int:
    """Runs one command line; returns its exit status."""
    try:
        status = farm.main(list(arguments), prog_name="farm", standalone_mode=False, obj=tuple(arguments))
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _complain(_usage_text(error), error.exit_code)
    except FarmError as error:
        return _complain(str(error), error.exit_status)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as `farm ... | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), FAILED)


def _usage_text(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"{error.format_message()}{f' (see {context.command_path} --help)' if context else ''}"


def _complain(text: str, exit_status: int) -> int:
    """Prints the one line; what a file or a device put into it cannot reach the terminal as control characters."""
    click.echo(f"error: {one_line(text)}", err=True)
    return exit_status

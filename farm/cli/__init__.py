"""The command line: one file a command, imported when it is called or listed.

A command returns its exit status (None for 0), or under --json a document, which is printed here. Every mistake ends
here as one line on stderr, and under --json as a document, too. Exit status: 0 done, 1 a job failed, 2 usage or
configuration, 3 no unit matches, 130 interrupted.
"""

import difflib
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from farm import __version__
from farm.cli import envelope, interruption, standard_streams, verbosity
from farm.cli.envelope import Document, Problem
from farm.cli.lazy_group import LazyGroup
from farm.cli.standard_streams import OutputError, ensure_utf8
from farm.safe_text import one_line
from runtime.errors import LACKS, ConfigError, FarmError, farm_error

FAILED = 1
INTERRUPTED = 130

# Name -> module that has a click command named `command`; listed by `farm --help` in this order.
COMMANDS = {
    "demo": "farm.cli.commands.demo",
    "doctor": "farm.cli.commands.doctor",
    "devices": "farm.cli.commands.devices",
    "accept": "farm.cli.commands.accept",
    "reserve": "farm.cli.commands.reserve",
    "release": "farm.cli.commands.release",
    "build": "farm.cli.commands.build",
    "init": "farm.cli.commands.init",
    "zoo": "farm.cli.commands.zoo",
    "convert": "farm.cli.commands.convert",
    "quantize": "farm.cli.commands.quantize",
    "forecast": "farm.cli.commands.forecast",
    "inspect": "farm.cli.commands.inspect",
    "run": "farm.cli.commands.run",
    "benchmark": "farm.cli.commands.benchmark",
    "engines": "farm.cli.commands.engines",
    "opbench": "farm.cli.commands.opbench",
    "operators": "farm.cli.commands.operators",
    "tune": "farm.cli.commands.tune",
    "nightly": "farm.cli.commands.nightly",
    "unit-night": "farm.cli.commands.unit_night",
    "compare": "farm.cli.commands.compare",
    "bisect": "farm.cli.commands.bisect",
    "baseline": "farm.cli.commands.baseline",
    "report": "farm.cli.commands.report",
    "serve": "farm.cli.commands.serve",
    "artifacts": "farm.cli.commands.artifacts",
    "store": "farm.cli.commands.store",
    "schema": "farm.cli.commands.schema",
    "cluster": "farm.cli.commands.cluster",
    "scheduler": "farm.cli.commands.scheduler",
    "worker": "farm.cli.commands.worker",
    "jobs": "farm.cli.commands.jobs",
    "clean": "farm.cli.commands.clean",
    "emulate": "farm.cli.commands.emulate",
}


@click.group(cls=LazyGroup, modules=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@verbosity.option
def farm() -> None:
    """Converts neural networks, runs, validates, profiles and tunes them on many phones and boards."""
    try:
        Path.cwd()
    except OSError:
        raise ConfigError("the working folder was deleted or cannot be looked into; cd to another") from None


def main() -> None:
    """Entry point of the `farm` command."""
    standard_streams.make_usable()
    ensure_utf8()
    interruption.treat_termination_as_ctrl_c()
    status = call(sys.argv[1:])
    if status == INTERRUPTED:  # a thread that waits for a unit which does not answer would hold the exit up
        with suppress(OutputError):
            sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def call(arguments: Sequence[str]) -> int:
    """Runs one command line; returns its exit status."""
    try:
        interruption.listen()
        result = farm.main(list(arguments), prog_name="farm", standalone_mode=False, obj=tuple(arguments))
        if isinstance(result, Document):
            _print(result, arguments)
            result = result.exit_status
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _complain(error, _usage_text(error), error.exit_code, arguments)
    except FarmError as error:
        return _complain(error, str(error), error.exit_status, arguments)
    except (click.Abort, KeyboardInterrupt) as error:
        return _complain(error, "interrupted", INTERRUPTED, arguments)
    except OutputError as error:
        return _without_output(error)
    except LACKS as error:
        lacked = farm_error(error)
        return _complain(error if isinstance(error, OSError) else lacked, str(lacked), lacked.exit_status, arguments)


def _usage_text(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"{_message(error)}{f' (see {context.command_path} --help)' if context else ''}"


def _message(error: click.ClickException) -> str:
    """Click's message, but a bad value under one name of its option, and options that may be meant by likeness."""
    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter) and error.param:
        option = isinstance(error.param, click.Option)
        return f"{error.param.opts[0] if option else error.param.human_readable_name}: {error.message}"
    if not isinstance(error, click.NoSuchOption) or not error.possibilities:
        return error.format_message()
    nearest = difflib.get_close_matches(error.option_name, error.possibilities, n=len(error.possibilities), cutoff=0)
    return f"{error.message} Did you mean {' or '.join(map(repr, nearest))}?"


def _complain(error: BaseException, text: str, exit_status: int, arguments: Sequence[str]) -> int:
    """Prints the one line; what a file or a device put into it cannot reach the terminal as control characters."""
    line = one_line(text)
    click.echo(f"error: {line}", err=True)
    if envelope.is_wanted(arguments):
        problem = Problem(line, envelope.kind_of(error))
        try:
            _print(Document(exit_status, problem=problem), arguments)
        except OutputError as failure:
            _without_output(failure)
    return exit_status


def _without_output(error: OutputError) -> int:
    """Ends a command whose output nobody gets; a reader that has gone (`farm ... | head`) wants no line about it."""
    standard_streams.give_up_output()
    if error.errno != errno.EPIPE:
        click.echo(f"error: {error.filename}: {error.strerror}", err=True)
    return FAILED


def _print(document: Document, arguments: Sequence[str]) -> None:
    click.echo(document.text(envelope.command_name(arguments, COMMANDS)))

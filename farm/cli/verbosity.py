"""`-v` and `-vv`: what farm does, in lines on standard error; standard output and `--json` stay as they are."""

import logging

import click

from farm.cli.ranges import WholeNumber
from farm.safe_text import one_line

FORM = "%(asctime)s.%(msecs)03d %(message)s"
LEVELS = {0: logging.WARNING, 1: logging.INFO}
HELP = (
    "Say on stderr what is done: -v each command on a unit, each push and what is decided, -vv also what programs "
    "there print, farmrt's log among it. `farm run -v` and `farm quantize -v` show all figures, too."
)


class _StandardError(logging.Handler):
    """Writes to what standard error is at the time, which a progress display may have taken."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(one_line(self.format(record)), err=True)


def _listen(context: click.Context, parameter: click.Parameter, count: int) -> None:
    """Turns the log on until the command line is done; the more of the two that may be given counts."""
    log, root = logging.getLogger("farm"), context.find_root()
    wanted = max(count, root.meta.get(__name__, 0))
    if wanted == root.meta.get(__name__, 0):
        return
    if __name__ not in root.meta:
        handler = _StandardError()
        handler.setFormatter(logging.Formatter(FORM, "%H:%M:%S"))
        log.addHandler(handler)
        root.call_on_close(lambda: log.removeHandler(handler))
        root.call_on_close(lambda: log.setLevel(logging.NOTSET))
    root.meta[__name__] = wanted
    log.setLevel(LEVELS.get(wanted, logging.DEBUG))


def is_wanted() -> bool:
    """Whether -v was given to the command that is being called."""
    return bool(click.get_current_context().find_root().meta.get(__name__, 0))


option = click.option("-v", "--verbose", count=True, expose_value=False, callback=_listen, help=HELP)
vlog_option = click.option(
    *("--vlog_level", "--vlog-level"),
    type=WholeNumber(0, 4),
    default=0,
    hidden=True,
    help="MACE's name: 1 is -v, 2 and above -vv.",
    expose_value=False,
    callback=_listen,
)

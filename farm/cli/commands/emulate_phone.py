"""Options and help of `farm emulate phone`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.ranges import WholeNumber
from farm.emulation.faults import FAULTS, FaultKind
from farm.emulation.properties import SDK_LEVELS
from farm.emulation.socs import SOCS

DEFAULT_PORT = 5701  # adb looks for Android's own emulators on 5555 to 5585
LAST_PORT = 65535


def _row(name: str, kind: FaultKind) -> str:
    keys = ", ".join(f"{key}={_shown(default)}" for key, default in kind.defaults.items())
    return f"  {name:<13} {kind.help}{f' [{keys}]' if keys else ''}"


def _shown(default: object) -> str:
    match default:
        case bool():
            return "yes" if default else "no"
        case None | "":
            return ".."
        case float():
            return f"{default:g}"
        case _:
            return str(default)


GRAMMAR = """\b
A fault is NAME[:KEY=VALUE,...]; in brackets are its own keys:
{}
\b
When: at=REQUEST (connect, shell, push, pull, stat, list) and on=REGEX choose requests by kind and by
command or path; bytes=SIZE waits for so much of their data, after=TIME so long, every=TIME repeats,
times=N is how often. Without at= and on= a fault is the phone's own and counts from its start.
\b
  disconnect:at=push,bytes=1MB     exit:on=farmrt.*serve,after=2s     reboot:every=60s,away=5s
""".format("\n".join(_row(name, kind) for name, kind in FAULTS.items()))


@click.command(name="phone", epilog=GRAMMAR)
@click.option("--soc", default="sdm845", show_default=True, help=f"One of {', '.join(SOCS)}.")
@click.option("--model", default="", help="Model name.  [default: one with that SoC]")
@click.option("--serial", default="", help="Serial number.  [default: made from SoC, model and port]")
@click.option(
    "--android",
    type=WholeNumber(min(SDK_LEVELS), max(SDK_LEVELS)),
    default=14,
    show_default=True,
    help="Android version.",
)
@click.option("--no-shell-v2", is_flag=True, help="An old phone: no exit status, stderr among stdout, CR LF.")
@click.option("--no-exec", is_flag=True, help="An adbd before Android 5, which farm cannot use: no exec: either.")
@click.option("--rooted", is_flag=True, help="The shell may write what only root may, such as governors.")
@click.option("--toybox", is_flag=True, help="Commands run in mksh with toybox's programs, as on a phone.")
@click.option(
    "--compute-units",
    metavar="N",
    type=WholeNumber(1, 1024),
    help="Cores of this machine that its OpenCL device uses.  [default: all]",
)
@click.option(
    "--gpu",
    metavar="PROFILE[:KEY=VALUE,...]",
    default="",
    help="A mobile GPU that is played, by name or file; its times are a model's.  [default: this machine's OpenCL]",
)
@click.option(
    "--port",
    type=WholeNumber(0, LAST_PORT),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 is any that is free.",
)
@click.option("--count", type=WholeNumber(1, 200), default=1, help="So many phones, on ports that follow.")
@click.option("--fault", "faults", metavar="SPEC", multiple=True, help="What goes wrong; see below. Repeatable.")
@options.json_option
def command(**given: Any) -> None:
    """Emulate an Android phone that `adb connect` reaches, until Ctrl-C.

    Its commands run on this machine, in a private folder that looks as a phone's file system does where farm looks;
    farmrt for this machine runs there with this machine's OpenCL. All is deleted at the end.
    """
    from farm.cli import emulate_phone

    emulate_phone.emulate_phone(**given)

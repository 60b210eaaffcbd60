"""`farm emulate phone`."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Iterator, Sequence

import click

from farm import safe_text
from farm.cli import options
from farm.cli.envelope import Document
from farm.emulation.faults import FAULTS, Fault, FaultKind
from farm.emulation.phone import ADDRESS, PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone, EventLoopThread
from farm.emulation.properties import SDK_LEVELS
from farm.emulation.socs import SOCS

DEFAULT_PORT = 5701  # adb looks for Android's own emulators on 5555 to 5585
LAST_PORT = 65535
NAME = "emulate phone"


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
    type=click.IntRange(min(SDK_LEVELS), max(SDK_LEVELS)),
    default=14,
    show_default=True,
    help="Android version.",
)
@click.option("--no-shell-v2", is_flag=True, help="An old phone: no exit status, stderr among stdout, CR LF.")
@click.option("--rooted", is_flag=True, help="The shell may write what only root may, such as governors.")
@click.option("--toybox", is_flag=True, help="Commands run in mksh with toybox's programs, as on a phone.")
@click.option(
    "--compute-units",
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Cores of this machine that its OpenCL device uses.  [default: all]",
)
@click.option(
    "--port",
    type=click.IntRange(0, LAST_PORT),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 is any that is free.",
)
@click.option("--count", type=click.IntRange(1, 200), default=1, help="So many phones, on ports that follow.")
@click.option("--fault", "faults", metavar="SPEC", multiple=True, help="What goes wrong; see below. Repeatable.")
@options.json_option
def command(
    soc: str,
    model: str,
    serial: str,
    android: int,
    no_shell_v2: bool,
    rooted: bool,
    toybox: bool,
    compute_units: int | None,
    port: int,
    count: int,
    faults: Sequence[str],
    as_json: bool,
) -> None:
    """Emulate an Android phone that `adb connect` reaches, until Ctrl-C.

    Its commands run on this machine, in a private folder that looks as a phone's file system does where farm looks;
    farmrt for this machine runs there with this machine's OpenCL. All is deleted at the end. See docs/emulation.md.
    """
    parsed = tuple(Fault.parse(text) for text in faults)
    wanted = PhoneSettings(soc, model, serial, android, not no_shell_v2, rooted, toybox, compute_units, parsed)
    with _interruptible(), _running() as (stack, thread):
        for number in range(count):
            settings = dataclasses.replace(wanted, serial=f"{serial}-{number + 1}") if serial and count > 1 else wanted
            phone = stack.enter_context(EmulatedPhone(settings, port + number if port else 0, thread))
            _tell(phone, settings, as_json)
        if not as_json:
            click.echo("Ctrl-C ends it.")
        signal.pause()


@contextlib.contextmanager
def _running() -> Iterator[tuple[contextlib.ExitStack, EventLoopThread]]:
    """One thread for all phones, which ends after them."""
    thread = EventLoopThread()
    with contextlib.closing(thread), contextlib.ExitStack() as stack:
        yield stack, thread


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM are the orderly end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(phone: EmulatedPhone, settings: PhoneSettings, as_json: bool) -> None:
    address = f"{ADDRESS}:{phone.port}"
    if as_json:
        about = {"address": address, "port": phone.port, "serial": phone.serial, "soc": settings.soc}
        click.echo(Document(members={**about, "model": phone.model, "root": str(phone.root)}).text(NAME))
    else:
        click.echo(safe_text.one_line(f"{phone.model} ({settings.soc}, {phone.serial}): adb connect {address}"))

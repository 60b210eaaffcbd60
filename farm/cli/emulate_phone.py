"""`farm emulate phone`."""

import contextlib
import dataclasses
import signal
from collections.abc import Iterator, Sequence

import click

from farm import safe_text
from farm.cli.envelope import Document
from farm.emulation.faults import Fault
from farm.emulation.phone import ADDRESS, PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone, EventLoopThread

NAME = "emulate phone"


def emulate_phone(
    soc: str,
    model: str,
    serial: str,
    android: int,
    no_shell_v2: bool,
    no_exec: bool,
    rooted: bool,
    toybox: bool,
    compute_units: int | None,
    gpu: str,
    port: int,
    count: int,
    faults: Sequence[str],
    as_json: bool,
) -> None:
    """`farm emulate phone`."""
    parsed = tuple(Fault.parse(text) for text in faults)
    wanted = PhoneSettings(
        soc, model, serial, android, not no_shell_v2, rooted, toybox, compute_units, parsed, not no_exec, gpu
    )
    with contextlib.suppress(KeyboardInterrupt), _running() as (stack, thread):
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


def _tell(phone: EmulatedPhone, settings: PhoneSettings, as_json: bool) -> None:
    address = f"{ADDRESS}:{phone.port}"
    if as_json:
        about = {"address": address, "port": phone.port, "serial": phone.serial, "soc": settings.soc}
        click.echo(Document(members={**about, "model": phone.model, "root": str(phone.root)}).text(NAME))
    else:
        click.echo(safe_text.one_line(f"{phone.model} ({settings.soc}, {phone.serial}): adb connect {address}"))

"""`farm doctor`."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import click

from farm import doctor as machine
from farm.cli.envelope import CommandResult, Document
from farm.doctor import Check
from farm.farmrt import working_drivers
from farm.units import lookup
from farm.units.selection import Selection

MARKS = {
    "ok": click.style("ok", fg="green"),
    "advice": click.style("advice", fg="yellow"),
    "missing": click.style("missing", fg="red", bold=True),
    "not tried": click.style("-", dim=True),
}
MARK_WIDTH, NAME_WIDTH = 9, 16
FIRST_MODEL = "farm run zoo://squeezenet_v11"


def doctor(device: str | None, every: bool, as_json: bool) -> CommandResult:
    """`farm doctor`; returns the exit status."""
    if device and every:
        raise click.UsageError("--all is about the drivers of this machine, --device about a unit; name one of the two")
    checks: list[Check] = []
    for check in _of_unit(device) if device else machine.examine(working_drivers.device, every=every):
        checks.append(check)
        if not as_json:
            _print(check)
    missing = list(dict.fromkeys(check.name for check in checks if check.state == "missing"))
    if not as_json:
        click.echo(f"\n{_verdict(missing, checks, device)}")
        return int(bool(missing))
    unit = {"unit": device} if device else {}
    members = {**unit, "checks": [dataclasses.asdict(check) for check in checks]}
    return Document(int(bool(missing)), members=members)


def _of_unit(name: str) -> Iterator[Check]:
    from farm.jobs.fleet.unit_checks import examine_unit  # brings farmrt's answers, and NumPy with them

    yield from examine_unit(lookup.chosen_units(Selection(devices=(name,)))[0])


def _print(check: Check) -> None:
    mark = MARKS[check.state]
    gap = " " * (MARK_WIDTH - len(click.unstyle(mark)))
    click.echo(f"{mark}{gap}{check.name:<{NAME_WIDTH}}{check.found}")
    if check.advice:
        click.echo(f"{'':{MARK_WIDTH + NAME_WIDTH}}-> {check.advice}")


def _verdict(missing: Sequence[str], checks: Iterable[Check], device: str | None) -> str:
    """Whether networks run here, in one line, and what to do next."""
    again = f"farm doctor --device {device}" if device else "farm doctor"
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        return f"not ready: {', '.join(missing)} {verb} missing; do what the arrows say, then `{again}` again"
    advice = sum(check.state == "advice" for check in checks)
    noted = f" ({advice} {'hint' if advice == 1 else 'hints'} above)" if advice else ""
    target = f" --device {device}" if device else ""
    return f"ready{noted}; next: {FIRST_MODEL}{target}"

"""Options that several commands share, and how commands end: rows kept, printed, and told as an exit status."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from farm import safe_text, soc
from farm.cli import INTERRUPTED
from farm.cli.envelope import INTERRUPTION, OPTION, Document, Problem
from farm.config import deployment, inventory
from farm.config.deployment import Deployment
from farm.config.inventory import Inventory, Unit
from farm.jobs.run import LoadOptions
from farm.rows.row import Row, exit_status
from farm.rows.status import Status
from farm.store.recorder import Recorder
from farm.transport import connect
from farm.transport.adb_server import AdbServer
from farm.units import discovery, survey, usb
from farm.units.selection import ANY, SelectableUnit, Selection, describe_all, may_match, select
from farm.units.survey import AdbPhone, UnitEntry, UnitReport
from runtime.errors import FarmError, NoUnitError

Function = TypeVar("Function", bound=Callable[..., Any])
RowType = TypeVar("RowType", bound=Row)

MODEL_FILE = click.Path(path_type=Path)
FILE = click.Path(path_type=Path)

model_argument = click.argument("model_file", metavar="MODEL.yml", type=MODEL_FILE)
json_option = click.option(OPTION, "as_json", is_flag=True, help="Print JSON.")
rounds_option = click.option(
    "--round", "rounds", type=click.IntRange(1, 100_000), default=10, show_default=True, help="Measured rounds."
)
warmup_option = click.option(
    "--warmup", type=click.IntRange(0, 10_000), default=1, show_default=True, help="Rounds before those."
)


def unit_options(function: Function) -> Function:
    """Which units work; the function gets one Choice as `choice`."""

    @functools.wraps(function)
    def called(
        soc: tuple[str, ...],
        device: tuple[str, ...],
        tag: tuple[str, ...],
        every: bool,
        one_per_soc: bool,
        **others: Any,
    ) -> Any:
        return function(choice=Selection(soc, device, tag, every, one_per_soc), **others)

    return _with_options(  # type: ignore[no-any-return]
        called,
        click.option(
            "--soc", metavar="SOC", multiple=True, help="Only units with this SoC; repeat for any of several."
        ),
        click.option("--device", metavar="UNIT", multiple=True, help="Only this unit, by name or serial; repeatable."),
        click.option(
            "--tag", metavar="TAG", multiple=True, help="Only units with this tag of devices.yml; repeatable."
        ),
        click.option("--all", "every", is_flag=True, help="All units, whatever the deployment file is for."),
        click.option("--one-per-soc", is_flag=True, help="Of units with the same SoC only one, a ready one first."),
    )


def load_options(function: Function) -> Function:
    """How a model is loaded; the function gets one LoadOptions as `load`."""

    @functools.wraps(function)
    def called(tuned: Path | None, kernels: Path | None, memory: str | None, **others: Any) -> Any:
        return function(load=LoadOptions(tuned, kernels, memory), **others)

    default = "[default: the file that tuning left in build/, if any]"
    return _with_options(  # type: ignore[no-any-return]
        called,
        click.option("--tuned", metavar="FILE|none", type=FILE, help=f"Tuned parameters.  {default}"),
        click.option("--kernels", metavar="FILE|none", type=FILE, help=f"Compiled kernels.  {default}"),
        memory_option,
    )


def _with_options(function: Any, *options: Callable[[Any], Any]) -> Any:
    """The function with these options, listed in this order."""
    for option in reversed(options):
        function = option(function)
    return function


memory_option = click.option(
    "--memory", type=click.Choice(["buffer", "image"]), help="OpenCL memory.  [default: what suits the GPU]"
)


def load_deployment(path: Path) -> Deployment:
    """The deployment file of a command."""
    return deployment.load(path)


def units(choice: Selection) -> list[Unit]:
    """The units that the user means, of all that there are."""
    return select(candidates(choice), choice)


def select_units(choice: Selection, source: Deployment) -> list[Unit]:
    """Units that a command works on: those that the user names, else those that the deployment file is for."""
    there = candidates(choice)
    if choice.names_units:
        return select(there, choice)
    suitable = [candidate for candidate in there if _suits(candidate.unit, source)]
    if not suitable:
        wanted = ", ".join((*source.target_abis, *source.target_socs))
        raise NoUnitError(
            f"{source.path}: no unit is of its target_abis and target_socs ({wanted}); {describe_all(there)}"
        )
    return select(suitable, choice)


def candidates(choice: Selection = ANY) -> list[SelectableUnit]:
    """All units. Those that may be meant are asked what they are, where devices.yml does not say all of it."""

    def report(entry: UnitEntry) -> UnitReport:
        open_question = not entry.unit.abis or entry.unit.soc == soc.UNKNOWN or choice.one_per_soc
        is_asked = open_question and may_match(entry.unit, choice)
        return survey.identify(entry, connect) if is_asked else survey.report_from_cache(entry)

    return [SelectableUnit(report.unit, report.state) for report in survey.ask_all(present(), report)]


def present() -> list[UnitEntry]:
    """All units, none of them asked yet."""
    known = inventory.load_inventory()
    phones = {port: _phones(port, known) for port in survey.adb_server_ports(known)}
    return survey.list_entries(known, {port: plugged for port, plugged in phones.items() if plugged is not None})


def _phones(port: int | None, known: Inventory) -> Sequence[AdbPhone] | None:
    """The phones of an adb server, which is started only where there may be some; None where it cannot be asked."""
    listed = any(unit.transport == "adb" and unit.adb_server_port == port for unit in known.units)
    server = AdbServer(port)
    try:
        return discovery.adb_phones(port) if listed or usb.may_have_phone() or server.is_running() else ()
    except FarmError:
        return None


def _suits(unit: Unit, source: Deployment) -> bool:
    wanted = {soc.normalise(word) for word in source.target_socs}
    return bool(set(unit.abis) & set(source.target_abis)) and (not wanted or soc.normalise(unit.soc) in wanted)


def finish(
    rows: Iterable[RowType],
    as_json: bool,
    show: Callable[[Sequence[RowType]], None],
    keeper: Recorder | None = None,
    least_status: int = 0,
) -> int | Document:
    """Shows all rows, or makes a document of them, and says on stderr why any is not ok.

    The exit status is 1 where one is not ok or was not kept, and no less than `least_status`.
    """
    shown = list(rows)
    if not as_json:
        show(shown)
    tell_failures(shown)
    status = max(exit_status(shown), keeper.exit_status if keeper else 0, least_status)
    return Document(status, shown) if as_json else status


def interrupted(text: str, as_json: bool) -> int | Document:
    """Says on stderr how to go on after Ctrl-C; the exit status, or a document that says so too."""
    click.echo(text, err=True)
    return Document(INTERRUPTED, problem=Problem(text, INTERRUPTION)) if as_json else INTERRUPTED


def tell_failures(rows: Iterable[Row]) -> None:
    """Says on stderr why a row is not ok."""
    for row in rows:
        if row.status != Status.OK:
            reason = " ".join(row.reason.split())
            line = f"{row.model} on {row.unit} ({row.runtime}): {row.status}: {reason}"
            click.echo(safe_text.one_line(line), err=True)

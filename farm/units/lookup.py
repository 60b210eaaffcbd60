"""Finds units: all that there are, those that a user names, those that a deployment file is for."""

from __future__ import annotations

from collections.abc import Sequence

from farm import soc
from farm.config import inventory
from farm.config.deployment import Deployment
from farm.config.inventory import Inventory, Unit
from farm.transport import connect
from farm.transport.adb_server import AdbServer
from farm.units import discovery, roll_call, usb
from farm.units.roll_call import Plugged, Present, Report
from farm.units.selection import ANY, Candidate, Choice, may_fit, select, there_is
from runtime.errors import FarmError, NoUnitError


def chosen_units(choice: Choice) -> list[Unit]:
    """The units that the user means, of all that there are."""
    return select(candidates(choice), choice)


def units_for(deployment: Deployment, choice: Choice = ANY) -> list[Unit]:
    """The units to work on: those that the user names, else those that the deployment file is for."""
    there = candidates(choice)
    if choice.names_units:
        return select(there, choice)
    suitable = [each for each in there if _suits(each.unit, deployment)]
    if not suitable:
        wanted = ", ".join((*deployment.target_abis, *deployment.target_socs))
        raise NoUnitError(
            f"{deployment.path}: no unit is of its target_abis and target_socs ({wanted}); {there_is(there)}"
        )
    return select(suitable, choice)


def units_if_any(deployment: Deployment, choice: Choice = ANY) -> list[Unit]:
    """As `units_for`, but none where the user names none and the deployment file is for none that is there."""
    try:
        return units_for(deployment, choice)
    except NoUnitError:
        if choice.names_units:
            raise
        return []


def candidates(choice: Choice = ANY) -> list[Candidate]:
    """All units. Those that may be meant are asked what they are, where devices.yml does not say all of it."""

    def report(each: Present) -> Report:
        open_question = not each.unit.abis or each.unit.soc == soc.UNKNOWN or choice.one_per_soc
        asked = open_question and may_fit(each.unit, choice)
        return roll_call.identify(each, connect) if asked else roll_call.recall(each)

    return [Candidate(each.unit, each.state) for each in roll_call.call(present(), report)]


def present() -> list[Present]:
    """All units, none of them asked yet."""
    found = inventory.read()
    phones = {port: _phones(port, found) for port in roll_call.adb_ports(found)}
    return roll_call.present(found, {port: plugged for port, plugged in phones.items() if plugged is not None})


def _phones(port: int | None, found: Inventory) -> Sequence[Plugged] | None:
    """The phones of an adb server, which is started only where there may be some; None where it cannot be asked."""
    listed = any(unit.transport == "adb" and unit.adb_server_port == port for unit in found.units)
    server = AdbServer(port)
    try:
        return discovery.plugged(port) if listed or usb.may_have_phone() or server.is_running() else ()
    except FarmError:
        return None


def _suits(unit: Unit, deployment: Deployment) -> bool:
    wanted = {soc.normalise(word) for word in deployment.target_socs}
    return bool(set(unit.abis) & set(deployment.target_abis)) and (not wanted or soc.normalise(unit.soc) in wanted)

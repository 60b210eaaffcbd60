"""Finds units: all that there are, those that a user names, those that a deployment file is for."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Sequence

from farm import soc
from farm.config import inventory
from farm.config.adb_address import AdbAddress
from farm.config.deployment import Deployment
from farm.config.inventory import Inventory, Unit
from farm.config.suggestion import suggestion
from farm.transport import connect
from farm.transport.adb_server import AdbServer
from farm.units import discovery, duplicates, survey
from farm.units.selection import ANY, READY, SelectableUnit, Selection, describe_all, may_match, select
from farm.units.survey import AdbPhone, UnitEntry, UnitReport
from runtime.errors import FarmError, NoUnitError


def chosen_units(choice: Selection) -> list[Unit]:
    """The units that the user means, of all that there are."""
    return select(candidates(choice), choice)


def units_for(deployment: Deployment, choice: Selection = ANY) -> list[Unit]:
    """The units to work on: those that the user names, else those that the deployment file is for."""
    return units_among(candidates(choice), deployment, choice)


def units_among(there: Sequence[SelectableUnit], deployment: Deployment, choice: Selection = ANY) -> list[Unit]:
    """The same of units that are known already."""
    if choice.names_units:
        return select(there, choice)
    suitable = [candidate for candidate in there if _suits(candidate.unit, deployment)]
    if not suitable:
        wanted = ", ".join((*deployment.target_abis, *deployment.target_socs))
        raise NoUnitError(
            f"{deployment.path}: no unit is of its target_abis and target_socs ({wanted}); {describe_all(there)}"
        )
    return select(_any_one(suitable) if deployment.takes_one else suitable, choice)


def _any_one(candidates: Sequence[SelectableUnit]) -> list[SelectableUnit]:
    """One of them, a ready one where there is one, left to chance."""
    ready = [candidate for candidate in candidates if candidate.state == READY]
    return [random.choice(ready or candidates)]


def units_if_any(deployment: Deployment, choice: Selection = ANY) -> list[Unit]:
    """As `units_for`, but none where the user names none and the deployment file is for none that is there."""
    try:
        return units_for(deployment, choice)
    except NoUnitError:
        if choice.names_units:
            raise
        return []


def units_of_socs(choice: Selection, known: Collection[str]) -> list[Unit]:
    """The units of the SoCs that the user names, perhaps none; raises NoUnitError for one that is not known either.

    `known` are the keys of SoCs that are no mistake where no unit is of them.
    """
    there = candidates(choice)
    present = {soc.normalise(candidate.unit.soc) for candidate in there} - {soc.UNKNOWN}
    for word in choice.socs:
        if soc.normalise(word) not in present | {*known}:
            raise NoUnitError(f"--soc {word}: no such SoC is known{suggestion(word.lower(), present | {*known})}")
    here = tuple(word for word in choice.socs if soc.normalise(word) in present)
    return select(there, dataclasses.replace(choice, socs=here)) if here else []


def candidates(choice: Selection = ANY) -> list[SelectableUnit]:
    """All units. Those that may be meant are asked what they are, where devices.yml does not say all of it."""

    def report(entry: UnitEntry) -> UnitReport:
        open_question = not entry.unit.abis or entry.unit.soc == soc.UNKNOWN or choice.one_per_soc
        is_asked = open_question and may_match(entry.unit, choice)
        return survey.identify(entry, connect) if is_asked else survey.report_from_cache(entry)

    return [SelectableUnit(report.unit, report.state) for report in survey.ask_all(present(), report)]


def present_unit(name: str) -> Unit:
    """The unit of that name, serial or alias, without asking it anything; raises NoUnitError where there is none."""
    return select([SelectableUnit(entry.unit, entry.state) for entry in present()], Selection(devices=(name,)))[0]


def present() -> list[UnitEntry]:
    """All units, each once; none is asked yet what it is."""
    known = inventory.load_inventory()
    answers = {server: _phones(server, known) for server in survey.adb_servers(known)}
    phones = {server: plugged for server, plugged in answers.items() if plugged is not None}
    return duplicates.merge_duplicates(survey.list_entries(known, phones), duplicates.read_identities(phones))


def _phones(address: AdbAddress, known: Inventory) -> Sequence[AdbPhone] | None:
    """The phones of an adb server, which is started only where there may be some; None where it cannot be asked."""
    expected = not address.is_local or any(
        unit.kind.has_adb_server and unit.adb_server == address for unit in known.units
    )
    try:
        may_answer = expected or discovery.may_have_phone() or AdbServer(address).is_running()
        return discovery.adb_phones(address) if may_answer else ()
    except FarmError:
        return None


def _suits(unit: Unit, deployment: Deployment) -> bool:
    wanted = {soc.normalise(word) for word in deployment.target_socs}
    return bool(set(unit.abis) & set(deployment.target_abis)) and (not wanted or soc.normalise(unit.soc) in wanted)

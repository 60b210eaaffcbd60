"""Selects the units that a command works on. Pure.

Several values of one option select units that match any of them; different options select units that match all. A value
that matches no unit is an error: else a misspelt name would make a job quietly do less.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

from farm import soc
from farm.config.inventory import DEFAULT_FILE, Unit
from farm.config.suggestion import suggestion
from runtime.errors import NoUnitError

READY = "ready"
MAX_LISTED = 20


@dataclasses.dataclass(frozen=True)
class SelectableUnit:
    """A unit that may be selected, and the name of its state."""

    unit: Unit
    state: str = READY


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which units the user asked for; empty members select all.

    Attributes:
        socs: any of these SoCs, under whatever name the table in farm.soc knows them.
        devices: any of these units, by name, serial or alias.
        tags: any of these tags.
        every: all units, also those that the command would leave out by default.
        one_per_soc: only the first unit of each SoC that is ready, or the first where none is.
    """

    socs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    every: bool = False
    one_per_soc: bool = False

    @property
    def names_units(self) -> bool:
        """Whether the user named units, so that the command does not choose by itself."""
        return bool(self.socs or self.devices or self.tags or self.every)


ANY = Selection()


def select(candidates: Sequence[SelectableUnit], selection: Selection = ANY) -> list[Unit]:
    """Selects units, in the order of the inventory; raises NoUnitError, which lists all units, where none matches."""
    for option, wanted_names, names_of in _OPTIONS:
        _refuse_unknown(
            option, wanted_names(selection), [names_of(candidate.unit) for candidate in candidates], candidates
        )
    chosen = [candidate for candidate in candidates if _matches(candidate.unit, selection)]
    if not chosen:
        raise NoUnitError(f"no unit {_wanted(selection)}; {describe_all(candidates)}")
    return [candidate.unit for candidate in (one_per_soc(chosen) if selection.one_per_soc else chosen)]


def may_match(unit: Unit, selection: Selection) -> bool:
    """Whether a unit matches, or may do so once its SoC is known."""
    return _matches(unit, dataclasses.replace(selection, socs=()) if unit.soc == soc.UNKNOWN else selection)


def one_per_soc(candidates: Sequence[SelectableUnit]) -> list[SelectableUnit]:
    """Keeps of each SoC the first candidate that is ready, or the first where none is."""
    first: dict[str, SelectableUnit] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.state != READY):
        first.setdefault(soc.normalise(candidate.unit.soc), candidate)
    return [candidate for candidate in candidates if first[soc.normalise(candidate.unit.soc)] is candidate]


def describe_all(candidates: Sequence[SelectableUnit]) -> str:
    """Describes all units in one sentence, with how to add more."""
    shown = [_described(candidate) for candidate in candidates[:MAX_LISTED]]
    shown += [f"and {len(candidates) - MAX_LISTED} more"] if len(candidates) > MAX_LISTED else []
    here = "" if any(each.unit.kind.is_local for each in candidates) else " (this machine: `host: {transport: local}`)"
    return (
        f"there are: {', '.join(shown) or 'none'}; to add one, plug in a phone with USB debugging, or write an entry "
        f"with its transport and address into {DEFAULT_FILE}{here}"
    )


def _socs(unit: Unit) -> Collection[str]:
    return {soc.normalise(unit.soc)} - {soc.UNKNOWN}


def _names(unit: Unit) -> Collection[str]:
    return {unit.name, unit.serial, *unit.aliases} - {""}


def _tags(unit: Unit) -> Collection[str]:
    return unit.tags


# Option; the values that a selection gives it; the values of a unit that match it.
_WantedNames = Callable[[Selection], Sequence[str]]
_OPTIONS: tuple[tuple[str, _WantedNames, Callable[[Unit], Collection[str]]], ...] = (
    ("--soc", lambda choice: [soc.normalise(word) for word in choice.socs], _socs),
    ("--device", lambda choice: choice.devices, _names),
    ("--tag", lambda choice: choice.tags, _tags),
)


def _matches(unit: Unit, selection: Selection) -> bool:
    return all(
        not wanted_names(selection) or set(wanted_names(selection)) & set(names_of(unit))
        for _, wanted_names, names_of in _OPTIONS
    )


def _refuse_unknown(
    option: str,
    wanted_names: Iterable[str],
    names_of_units: Sequence[Collection[str]],
    candidates: Sequence[SelectableUnit],
) -> None:
    existing = {name for unit_names in names_of_units for name in unit_names}
    for name in wanted_names:
        if name not in existing:
            hint = suggestion(name, existing) if existing else ""
            near = hint if "did you mean" in hint else ""
            raise NoUnitError(f"{option} {name}: no such unit{near}; {describe_all(candidates)}")


def _wanted(selection: Selection) -> str:
    wanted_names = [
        f"{option} {' or '.join(wanted_names(selection))}"
        for option, wanted_names, _ in _OPTIONS
        if wanted_names(selection)
    ]
    return f"fits {' and '.join(wanted_names)} at once" if wanted_names else "is there"


def _described(candidate: SelectableUnit) -> str:
    unit = candidate.unit
    abi = [f"ABI {unit.abi}"] if unit.abis else []
    tags = [f"tags {' '.join(unit.tags)}"] if unit.tags else []
    return f"{unit.name} ({', '.join([f'SoC {unit.soc}', *abi, *tags, candidate.state])})"

"""Which units a command works on: a pure choice among those that there are.

Options of one kind add up (any of them), options of different kinds narrow down (all of them). A word that fits no unit
is an error and not a smaller choice, since a misspelt name must not make a job quietly do less.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

from farm import soc
from farm.config.inventory import DEFAULT_FILE, Unit
from farm.config.suggestion import suggestion
from runtime.errors import NoUnitError

READY = "ready"
MAX_LISTED = 20


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A unit, and the word for the state that it is in."""

    unit: Unit
    state: str = READY


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the user asked for.

    Attributes:
        socs: any of these SoCs, under whatever name the table in farm.soc knows them.
        devices: any of these units, by name or serial.
        tags: any of these tags.
        every: all units there are, also those that the command would not take by itself.
        one_per_soc: of each SoC the first unit that is ready, or the first where none is.
    """

    socs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    every: bool = False
    one_per_soc: bool = False

    @property
    def names_units(self) -> bool:
        """Whether the user said which units, so that the command does not choose among them."""
        return bool(self.socs or self.devices or self.tags or self.every)


ANY = Choice()


def select(candidates: Sequence[Candidate], choice: Choice = ANY) -> list[Unit]:
    """The units that are meant, in the order of the inventory; raises NoUnitError that says what there is."""
    for option, words, words_of in _OPTIONS:
        _check_words(option, words(choice), [words_of(each.unit) for each in candidates], candidates)
    chosen = [each for each in candidates if _fits(each.unit, choice)]
    if not chosen:
        raise NoUnitError(f"no unit {_wanted(choice)}; {there_is(candidates)}")
    return [each.unit for each in (one_per_soc(chosen) if choice.one_per_soc else chosen)]


def may_fit(unit: Unit, choice: Choice) -> bool:
    """Whether a unit can be meant, of which perhaps not even the SoC is known yet."""
    return _fits(unit, dataclasses.replace(choice, socs=()) if unit.soc == soc.UNKNOWN else choice)


def one_per_soc(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Of each SoC the first candidate that is ready, or the first where none is."""
    first: dict[str, Candidate] = {}
    for each in sorted(candidates, key=lambda each: each.state != READY):
        first.setdefault(soc.normalise(each.unit.soc), each)
    return [each for each in candidates if first[soc.normalise(each.unit.soc)] is each]


def there_is(candidates: Sequence[Candidate]) -> str:
    """All units in one sentence, and how to get more."""
    shown = [_described(each) for each in candidates[:MAX_LISTED]]
    shown += [f"and {len(candidates) - MAX_LISTED} more"] if len(candidates) > MAX_LISTED else []
    return (
        f"there are: {', '.join(shown) or 'none'}; to add one, plug in a phone with USB debugging, or write an entry "
        f"with its transport and address into {DEFAULT_FILE}"
    )


def _socs(unit: Unit) -> Collection[str]:
    return {soc.normalise(unit.soc)} - {soc.UNKNOWN}


def _names(unit: Unit) -> Collection[str]:
    return {unit.name, unit.serial} - {""}


def _tags(unit: Unit) -> Collection[str]:
    return unit.tags


# Option, its words in a choice, and those that a unit answers to.
_Words = Callable[[Choice], Sequence[str]]
_OPTIONS: tuple[tuple[str, _Words, Callable[[Unit], Collection[str]]], ...] = (
    ("--soc", lambda choice: [soc.normalise(word) for word in choice.socs], _socs),
    ("--device", lambda choice: choice.devices, _names),
    ("--tag", lambda choice: choice.tags, _tags),
)


def _fits(unit: Unit, choice: Choice) -> bool:
    return all(not words(choice) or set(words(choice)) & set(words_of(unit)) for _, words, words_of in _OPTIONS)


def _check_words(
    option: str, words: Iterable[str], known: Sequence[Collection[str]], candidates: Sequence[Candidate]
) -> None:
    there = {word for words_of_unit in known for word in words_of_unit}
    for word in words:
        if word not in there:
            hint = suggestion(word, there) if there else ""
            near = hint if "did you mean" in hint else ""
            raise NoUnitError(f"{option} {word}: no such unit{near}; {there_is(candidates)}")


def _wanted(choice: Choice) -> str:
    words = [f"{option} {' or '.join(words(choice))}" for option, words, _ in _OPTIONS if words(choice)]
    return f"fits {' and '.join(words)} at once" if words else "is there"


def _described(candidate: Candidate) -> str:
    unit = candidate.unit
    abi = [f"ABI {unit.abi}"] if unit.abis else []
    tags = [f"tags {' '.join(unit.tags)}"] if unit.tags else []
    return f"{unit.name} ({', '.join([f'SoC {unit.soc}', *abi, *tags, candidate.state])})"

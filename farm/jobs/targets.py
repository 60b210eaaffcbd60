"""Which ABIs and SoCs plans are made for without asking a unit, and what is known of them.

What is known comes from a file that the user names, else from what a unit of the SoC once said (target_files), else
from the table that farm ships (shipped_facts). A plan for the runtime cpu needs none of it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from farm import soc
from farm.config.deployment import Deployment
from farm.config.fields import Abi
from farm.config.inventory import HOST, Unit
from farm.farmrt.answers import ProbeAnswer
from farm.units import lookup, target_files
from farm.units.selection import ANY, Selection
from farm.units.shipped_facts import GPUS, shipped_probe
from runtime.errors import ConfigError, UnsupportedError
from runtime.native.abi import ABIS
from runtime.native.abi import HOST as HOST_ABI

Facts = Literal["unit", "file", "stored", "shipped", "none"]
ANY_SOC = "any"


@dataclasses.dataclass(frozen=True)
class TargetPair:
    """An ABI and a SoC that plans are wanted for; the SoC is ANY_SOC where nobody says which."""

    abi: Abi
    soc: str

    @property
    def unit(self) -> Unit:
        """Returns a stand-in for a unit of that SoC and ABI."""
        return Unit(name=self.soc, transport="file", soc=self.soc, model=self.soc, abis=(self.abi,))


@dataclasses.dataclass(frozen=True)
class TargetFacts:
    """What farmrt said, or would say, on a unit, and where that comes from."""

    probe: ProbeAnswer
    source: Facts


class TargetFiles:
    """The files that a user names with --target-file, by SoC; raises ConfigError where one is not what it should be."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.probes = dict(map(_read, paths))

    def pairs(self) -> Iterator[TargetPair]:
        """The ABI and SoC of each file."""
        for key, probe in self.probes.items():
            yield TargetPair(_abi_named(probe.abi), key)

    def find(self, key: str) -> ProbeAnswer | None:
        """Finds the facts of a SoC."""
        return self.probes.get(key)


def units_to_ask(deployment: Deployment, files: TargetFiles, choice: Selection = ANY) -> list[Unit]:
    """The units that plans are made for, perhaps none.

    They are those that the user names, else those that the deployment file is for; where it names this machine's ABI,
    this machine is one of them, whatever its target_socs are. Raises NoUnitError where a word fits no unit, and is no
    SoC that is known either.
    """
    if choice.socs and not names_single_units(choice):
        return lookup.units_of_socs(choice, known_socs(files))
    units = lookup.units_if_any(deployment, choice)
    has_host = any(HOST_ABI in unit.abis for unit in units)
    return units if choice.names_units or has_host or HOST_ABI not in deployment.target_abis else [HOST, *units]


def names_single_units(choice: Selection) -> bool:
    """Returns whether the selection names units that are here, so that no plan is made without a unit."""
    return bool(choice.devices or choice.tags)


def wanted_pairs(
    deployment: Deployment, files: TargetFiles, covered: Collection[TargetPair], socs: Sequence[str] = ()
) -> list[TargetPair]:
    """The pairs that no unit has covered: every ABI of the deployment file with each SoC.

    SoCs are those that the user names, else the file's target_socs, else all of which something is stored; where there
    is none of these and no unit has the ABI, it is ANY_SOC. This machine is a unit, so its ABI is never among them.
    """
    named = [soc.normalise(word) for word in socs or deployment.target_socs]
    pairs = list(files.pairs())
    for abi in deployment.target_abis:
        if abi != HOST_ABI:
            known = named or _known_socs(abi, files)
            nothing = [] if any(pair.abi == abi for pair in covered) else [ANY_SOC]
            pairs += [TargetPair(abi, key) for key in known or nothing]
    return [pair for pair in dict.fromkeys(pairs) if pair not in covered and pair.soc != HOST.soc]


def known_facts(pair: TargetPair, files: TargetFiles) -> TargetFacts | None:
    """What is known of a pair; None where nothing is."""
    sources: tuple[tuple[ProbeAnswer | None, Facts], ...] = (
        (files.find(pair.soc), "file"),
        (target_files.stored(pair.soc), "stored"),
        (shipped_probe(pair.soc, pair.abi), "shipped"),
    )
    for probe, source in sources:
        if probe is not None:
            return TargetFacts(probe.model_copy(update={"abi": ABIS[pair.abi].name}), source)
    return None


def known_socs(files: TargetFiles) -> set[str]:
    """The SoCs of which farm knows what their GPU can do, so that naming one is no mistake where no unit is of it."""
    return {*files.probes, *target_files.stored_socs(), *GPUS}


def nothing_known(pair: TargetPair) -> UnsupportedError:
    """The error for a GPU plan that nothing is known for."""
    if pair.soc == ANY_SOC:
        return UnsupportedError(
            f"{pair.abi}: no unit with this ABI is here, and no SoC is named; name some as target_socs, "
            "or give what `farmrt probe` prints on one with --target-file FILE"
        )
    return UnsupportedError(
        f"{pair.abi}: no unit of {pair.soc} is here, and its GPU is not known; run a job on one once, or give what "
        "`farmrt probe` prints there with --target-file FILE"
    )


def _read(path: Path) -> tuple[str, ProbeAnswer]:
    unit, probe = target_files.read_target_file(path)
    _abi_named(probe.abi, path)
    return soc.normalise(path.stem if unit.soc == soc.UNKNOWN else unit.soc), probe


def _abi_named(probed: str, path: Path | None = None) -> Abi:
    """The ABI that a farmrt of this name was built for."""
    for abi in get_args(Abi):
        if ABIS[abi].name == probed:
            return abi  # type: ignore[no-any-return]
    raise ConfigError(f"{path}: abi: {probed!r} is none of {', '.join(ABIS[abi].name for abi in get_args(Abi))}")


def _known_socs(abi: Abi, files: TargetFiles) -> list[str]:
    """The SoCs of which a unit of the same system (Android or Linux), be it of 32 or 64 bits, once said what it is."""
    stored = {key: target_files.stored(key) for key in target_files.stored_socs()}
    probes = {**files.probes, **{key: probe for key, probe in stored.items() if probe}}
    return [key for key, probe in probes.items() if ABIS[_abi_named(probe.abi)].is_android == ABIS[abi].is_android]

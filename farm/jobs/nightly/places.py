"""Where a night's models are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from farm.config import deployment
from farm.jobs.nightly.matrix import Places
from farm.nightly.configuration import NightlyConfiguration
from farm.units import lookup
from farm.units.selection import SelectableUnit, select


def places_of(
    nightly: NightlyConfiguration,
    trust_models: bool = False,
    candidates: Callable[[], Sequence[SelectableUnit]] = lookup.candidates,
) -> Places:
    """Each model's units of all that there are: those that nightly.yml names, else those that its own file is for."""
    deployments = [deployment.load(path, trust_models) for path in nightly.model_files]
    there = candidates()
    if not nightly.units:
        return [(source, lookup.units_among(there, source)) for source in deployments]
    chosen = [unit for selector in nightly.units for unit in select(there, selector.choice)]
    return [(source, list(dict.fromkeys(chosen))) for source in deployments]

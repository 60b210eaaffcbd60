"""Where a night's models are measured."""

from __future__ import annotations

from farm.config import deployment
from farm.jobs.nightly.matrix import Places
from farm.nightly.configuration import NightlyConfiguration
from farm.units import lookup
from farm.units.selection import select


def places_of(nightly: NightlyConfiguration, trust_models: bool = False) -> Places:
    """Each model's units: those that the file names, else those that the model's deployment file is for."""
    deployments = [deployment.load(path, trust_models) for path in nightly.model_files]
    if not nightly.units:
        return [(source, lookup.units_for(source)) for source in deployments]
    there = lookup.candidates()
    chosen = [unit for selector in nightly.units for unit in select(there, selector.choice)]
    return [(source, list(dict.fromkeys(chosen))) for source in deployments]

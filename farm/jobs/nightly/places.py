"""Where a night's models are measured."""

from __future__ import annotations

from farm.config import deployment
from farm.jobs.nightly.matrix import Places
from farm.nightly.file import Nightly
from farm.units import lookup
from farm.units.selection import select


def places_of(nightly: Nightly) -> Places:
    """Each model's units: those that the file names, else those that the model's deployment file is for."""
    found = [deployment.load(path) for path in nightly.model_files]
    if not nightly.units:
        return [(each, lookup.units_for(each)) for each in found]
    there = lookup.candidates()
    chosen = [unit for selector in nightly.units for unit in select(there, selector.choice)]
    return [(each, list(dict.fromkeys(chosen))) for each in found]

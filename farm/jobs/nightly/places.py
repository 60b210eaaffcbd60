"""Where a night's models are measured."""

from collections.abc import Callable, Sequence

from farm.config.given_model import GivenModel
from farm.jobs.nightly.matrix import Places
from farm.model import deployments
from farm.nightly.configuration import NightlyConfiguration
from farm.units import lookup
from farm.units.selection import SelectableUnit, select

ASKING = "with `farm init ... {}`, and list the deployment file that it writes"


def places_of(
    nightly: NightlyConfiguration,
    trust_models: bool = False,
    candidates: Callable[[], Sequence[SelectableUnit]] = lookup.candidates,
) -> Places:
    """Each model's units of all that there are: those that nightly.yml names, else those that its own file is for."""
    sources = [deployments.load(GivenModel(path, trusted=trust_models, asking=ASKING)) for path in nightly.model_files]
    there = candidates()
    if not nightly.units:
        return [(source, lookup.units_among(there, source)) for source in sources]
    chosen = [unit for selector in nightly.units for unit in select(there, selector.choice)]
    return [(source, list(dict.fromkeys(chosen))) for source in sources]

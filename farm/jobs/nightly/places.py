"""Where a night's models are measured."""

import itertools
from collections.abc import Callable, Sequence

from farm.config.deployment import Deployment, Runtime
from farm.config.given_model import GivenModel
from farm.jobs.nightly.matrix import Places, cases_of
from farm.model import deployments
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.series import Case
from farm.units import lookup
from farm.units.selection import SelectableUnit, select
from runtime.errors import ConfigError

ASKING = "with `farm init ... {}`, and list the deployment file that it writes"


def places_of(
    nightly: NightlyConfiguration,
    trust_models: bool = False,
    candidates: Callable[[], Sequence[SelectableUnit]] = lookup.candidates,
) -> Places:
    """Each model's units of all that there are: those that nightly.yml names, else those that its own file is for.

    Raises ConfigError also where that leaves nothing to measure, or would put two models into one series.
    """
    places = _places(nightly, trust_models, candidates)
    known: dict[Case, Deployment] = {}
    for source, units in places:
        for case in itertools.chain(*cases_of(nightly, [(source, units)]).values()):
            if (first := known.setdefault(case, source)) is not source:
                raise deployments.same_name(source, first, case.model)
    if not known:
        raise ConfigError(f"{nightly.path}: nothing to measure: {'; '.join(left_out(nightly, places))}")
    return places


def left_out(nightly: NightlyConfiguration, places: Places) -> list[str]:
    """Models of which nothing is measured, a line each that says why."""
    measured = {(case.library, case.model) for case in itertools.chain(*cases_of(nightly, places).values())}
    return [
        f"{source.path}: {name} is left out: {_why_left_out(nightly, model.runtimes)}"
        for source, _ in places
        for name, model in source.models.items()
        if (source.library_name, name) not in measured
    ]


def _why_left_out(nightly: NightlyConfiguration, own: Sequence[Runtime]) -> str:
    if set(own).isdisjoint(nightly.runtimes):
        return f"its runtime is {' and '.join(own)}, and {nightly.path} says runtimes: {', '.join(nightly.runtimes)}"
    return f"no engine of {nightly.path} takes it"


def _places(
    nightly: NightlyConfiguration, trust_models: bool, candidates: Callable[[], Sequence[SelectableUnit]]
) -> Places:
    sources = [deployments.load(GivenModel(path, trusted=trust_models, asking=ASKING)) for path in nightly.model_files]
    there = candidates()
    if not nightly.units:
        return [(source, lookup.units_among(there, source)) for source in sources]
    chosen = [unit for selector in nightly.units for unit in select(there, selector.choice)]
    return [(source, list(dict.fromkeys(chosen))) for source in sources]

"""The tuning of the demonstration on a GPU that is played: what a search gains where defaults are not this machine's.

The defaults for CPUs are measured and leave little; a phone's GPU is what tuning is for. Nothing is computed there, and
every time is that of a model (docs/emulation.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from farm.config.deployment import Deployment
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from farm.rows.tune import TuneRow
from runtime.errors import FarmError

PHONE = "played_phone"
SETTINGS = PhoneSettings(soc="kirin970", gpu="mali-g72:mode=timing,pace=yes")
LEAST_S = 30.0  # of wall time, so that enough processes prove what is found


def played_tunings(
    sources: Sequence[Deployment], progress: ProgressView, budget_s: float, say: Callable[[str], None]
) -> Iterator[TuneRow]:
    """Tunes models on an emulated phone whose GPU is played; says why, and yields nothing, where there can be none."""
    sources = [_on_gpu(each) for each in sources]
    say(f"tuning on a played {SETTINGS.gpu.partition(':')[0]}: its times are a model's, of no phone")
    try:
        with emulated_phone_unit(PHONE, SETTINGS) as unit:
            search = SearchOptions("quick", max(budget_s, LEAST_S), fresh=True, selection=False)
            yield from tune_job(sources, [unit], TuneOptions(search), progress=progress)
    except FarmError as error:
        say(f"no GPU is played here: {error}")


def _on_gpu(source: Deployment) -> Deployment:
    models = {name: model.model_copy(update={"runtime": "gpu"}) for name, model in source.models.items()}
    return source.model_copy(update={"models": models})

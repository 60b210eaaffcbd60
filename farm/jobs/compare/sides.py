"""What the two words of a comparison mean: stored runs, deployment files, or builds of farm."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from farm.config import samples
from farm.config.given_model import GivenModel, Shape
from farm.engines import registry
from farm.jobs.compare import contender
from farm.jobs.compare.contender import Contender
from farm.jobs.compare.runs import compare_runs, only_in_one
from farm.jobs.compare.stored_runs import PREFIX, stored_run
from farm.model import deployments
from farm.rows.compare import CompareRow
from runtime.errors import ConfigError
from runtime.frameworks.file_kinds import SAVED_MODEL

Kind = Literal["run", "model", "build", "engine"]
Shapes = tuple[tuple[str, Shape], ...]

MARGIN_PERCENT = 1.0
MARGIN_OF_RUNS_PERCENT = 4.0  # a phone's nights differ by so much when nothing has changed
KINDS: dict[Kind, str] = {"run": "a stored run", "model": "a model", "build": "a build of farm", "engine": "an engine"}


def common_kind(a: str, b: str, store: str | None) -> Kind:
    """Returns the kind that both sides have; raises ConfigError where their kinds differ."""
    of_a, of_b = _kind(a, store), _kind(b, store)
    if {of_a, of_b} == {"engine", "build"}:
        registry.named_engines([a, b])  # which says what a misspelt one is
    if of_a != of_b:
        raise ConfigError(f"{a} is {KINDS[of_a]}, {b} is {KINDS[of_b]}: compare like with like")
    return of_a


def _kind(text: str, store: str | None) -> Kind:
    path = Path(text)
    if text.startswith(PREFIX):
        return "run"
    if path.is_dir():
        return "model" if (path / SAVED_MODEL).is_file() else "build"
    if text.startswith(samples.SCHEME) or path.suffix in (".yml", ".yaml") or path.is_file():
        return "model"
    from farm.store import Store

    with Store.open(store) as opened:
        if text in opened.baselines():
            return "run"
    return "engine" if registry.base_name(text) in registry.names() else "build"


def compare_stored(
    a: str, b: str, store: str | None, margin_percent: float | None, tell: Callable[[str], None]
) -> list[CompareRow]:
    """The rows of two stored runs; `tell` hears of cases that only one of them has."""
    from farm.store import Store

    with Store.open(store) as opened:
        runs = stored_run(opened, a), stored_run(opened, b)
    for line in only_in_one(*runs):
        tell(line)
    rows = compare_runs(*runs, MARGIN_OF_RUNS_PERCENT if margin_percent is None else margin_percent)
    if not rows:
        raise ConfigError(f"{a} and {b} have no case in common")
    return rows


def contenders(
    kind: Kind, a: str, b: str, model_file: Path | None, shapes: Shapes = (), weights: Path | None = None
) -> tuple[Contender, Contender]:
    """Two models, or two builds or engines with what they run; `shapes` and `weights` are those of model files."""
    if kind == "model":
        if model_file:
            raise ConfigError(f"{model_file}: {a} and {b} are models themselves; leave it out")
        of_a, of_b = (deployments.load(GivenModel(samples.deployment_file(name), shapes, weights)) for name in (a, b))
        return contender.models(of_a, of_b, (a, b))
    if model_file is None:
        raise ConfigError(f"MODEL is missing: what shall the {kind}s {a} and {b} run?")
    source = deployments.load(GivenModel(model_file, shapes, weights))
    if kind == "engine":
        return contender.in_engines(a, b, source)
    return contender.build(a, source), contender.build(b, source)

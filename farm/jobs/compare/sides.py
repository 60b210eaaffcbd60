"""What the two words of a comparison mean: stored runs, deployment files, or builds of farm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from farm.config import samples
from farm.jobs.compare import contender
from farm.jobs.compare.contender import Contender
from farm.jobs.compare.runs import compare_runs, only_in_one
from farm.jobs.compare.stored_runs import PREFIX, stored_run
from farm.rows.compare import CompareRow
from farm.store import Store
from runtime.errors import ConfigError

Kind = Literal["run", "model", "build"]

MARGIN_PERCENT = 1.0
MARGIN_OF_RUNS_PERCENT = 4.0  # a phone's nights differ by so much when nothing has changed
KINDS: dict[Kind, str] = {"run": "a stored run", "model": "a deployment file", "build": "a build of farm"}


def common_kind(a: str, b: str, store: str | None) -> Kind:
    """What both are; raises ConfigError where they are of two kinds."""
    of_a, of_b = _kind(a, store), _kind(b, store)
    if of_a != of_b:
        raise ConfigError(f"{a} is {KINDS[of_a]}, {b} is {KINDS[of_b]}: compare like with like")
    return of_a


def _kind(text: str, store: str | None) -> Kind:
    path = Path(text)
    if text.startswith(PREFIX):
        return "run"
    if path.is_dir():
        return "build"
    if text.startswith(samples.SCHEME) or path.suffix in (".yml", ".yaml") or path.is_file():
        return "model"
    with Store.open(store) as opened:
        return "run" if text in opened.baselines() else "build"


def compare_stored(
    a: str, b: str, store: str | None, margin_percent: float | None, tell: Callable[[str], None]
) -> list[CompareRow]:
    """The rows of two stored runs; `tell` hears of cases that only one of them has."""
    with Store.open(store) as opened:
        runs = stored_run(opened, a), stored_run(opened, b)
    for line in only_in_one(*runs):
        tell(line)
    rows = compare_runs(*runs, MARGIN_OF_RUNS_PERCENT if margin_percent is None else margin_percent)
    if not rows:
        raise ConfigError(f"{a} and {b} have no case in common")
    return rows


def contenders(kind: Kind, a: str, b: str, model_file: Path | None) -> tuple[Contender, Contender]:
    """Two models, or two builds with the deployment file that they run."""
    if kind == "model":
        if model_file:
            raise ConfigError(f"{model_file}: {a} and {b} are deployment files themselves; leave it out")
        return contender.models(samples.deployment_file(a), samples.deployment_file(b), (a, b))
    if model_file is None:
        raise ConfigError(f"MODEL.yml is missing: what shall the builds {a} and {b} run?")
    return contender.build(a, model_file), contender.build(b, model_file)

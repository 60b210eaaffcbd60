"""What `farm compare` measures against each other: builds of farm, models, or engines."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from farm.config.deployment import FARMRT, Deployment, Runtime
from farm.engines.registry import named_engines
from farm.jobs.compare import checkout
from farm.jobs.compare.bundle import Bundle, UnitProbe, check_makes_bundles, make_bundle, make_bundle_with
from farm.jobs.compare.checkout import Checkout
from farm.rows.compare import Side
from runtime.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Contender:
    """One of the two.

    Attributes:
        side: what the user called it, and what it is.
        source: the deployment of its models.
        checkout: the farm that makes it; None: this one.
        names: its name for a model of A, where that is another.
        engine: what runs its models; empty: what the deployment file says.
    """

    side: Side
    source: Deployment
    checkout: Checkout | None = None
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    engine: str = ""

    def model_name(self, model: str) -> str:
        """Its name for a model of A."""
        return self.names.get(model, model)

    def engine_of(self, model: str) -> str:
        """What runs its version of a model of A: farmrt where the deployment file names it among others.

        Raises ConfigError where it names several others, or a build of farm is to run one of them.
        """
        name = self.model_name(model)
        engines = (self.engine,) if self.engine else self.source.models[name].engine
        if FARMRT in engines:
            return FARMRT
        if len(engines) == 1 and self.side.kind != "build":
            return engines[0]
        instead = "`farm engines` compares several" if len(engines) > 1 else "a build of farm runs farmrt alone"
        raise self.source.error(("models", name, "engine"), f"{', '.join(engines)}: {instead}")

    def bundle(self, model: str, runtime: Runtime, probed: UnitProbe, folder: Path) -> Bundle:
        """Makes all that a unit needs to run its version of a model of A; raises what making it raises."""
        name = self.model_name(model)
        if self.checkout is None:
            return make_bundle(self.source, name, runtime, probed, folder)
        return make_bundle_with(self.checkout, self.source, name, runtime, probed, folder)


def build(text: str, source: Deployment) -> Contender:
    """A build: the farm in a folder, else that of a commit, for which a worktree is made.

    Raises ConfigError where there is none, or it is too old.
    """
    folder = Path(text)
    if folder.is_dir():
        sources = checkout.in_folder(folder)
    else:
        root = checkout.repository()
        sources = checkout.at_commit(root, checkout.commit_of(root, text))
    check_makes_bundles(sources)
    return Contender(Side(name=text, kind="build", commit=sources.commit, changed=sources.changed), source, sources)


def models(a: Deployment, b: Deployment, called: tuple[str, str] | None = None) -> tuple[Contender, Contender]:
    """Two versions of a model: of one name, or the only one of each file; ConfigError where none belong together.

    `called` is what the user calls the files, such as `zoo://NAME`; None: by their paths.
    """
    names = _pairs(a, b)
    if not names:
        theirs = f"{a.path} has {', '.join(a.models)}, {b.path} has {', '.join(b.models)}"
        raise ConfigError(f"no model is in both files: {theirs}")
    a_called, b_called = called or (str(a.path), str(b.path))
    return (
        Contender(Side(name=a_called, kind="model"), a),
        Contender(Side(name=b_called, kind="model"), b, names=names),
    )


def _pairs(a: Deployment, b: Deployment) -> dict[str, str]:
    if len(a.models) == len(b.models) == 1:
        return {next(iter(a.models)): next(iter(b.models))}
    return {name: name for name in a.models if name in b.models}


def in_engines(a: str, b: str, source: Deployment) -> tuple[Contender, Contender]:
    """Two engines, or two versions of one, with the models that both run; ConfigError for a word that is none."""
    named_engines([a, b])
    of_a, of_b = (Contender(Side(name=word, kind="engine"), source, engine=word) for word in (a, b))
    return of_a, of_b

"""`farm build`: compiles farmrt for some ABIs, all of it or what some models need."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from farm.config.deployment import Deployment
from runtime.errors import BuildError, ConfigError
from runtime.native import shared_library
from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.features import EVERYTHING, Features
from runtime.native.toolchains import find_toolchain, why_missing


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """What to compile, and where to: `output` holds a folder for each ABI and choice of features."""

    features: Features = EVERYTHING
    shared: bool = False
    output: Path | None = None


@dataclasses.dataclass(frozen=True)
class Built:
    """One farmrt and its library; `seconds` is near 0 where it was there already.

    `operators` are the CPU operators where not all are kept; `shared` is empty where it was not asked for.
    """

    abi: str
    program: str
    size_bytes: int
    compiler: str
    seconds: float
    library: str
    header: str
    shared: str
    shared_bytes: int | None
    without: tuple[str, ...]
    operators: tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class BuildFailure:
    """An ABI for which farmrt could not be compiled here, and why."""

    abi: str
    reason: str


def abis_of(deployments: Sequence[Deployment]) -> list[str]:
    """The ABIs that deployment files name, each once; this machine's where there is no file."""
    named = [abi for deployment in deployments for abi in deployment.target_abis]
    return list(dict.fromkeys(named)) or [HOST]


def available_abis() -> tuple[list[str], list[BuildFailure]]:
    """The ABIs that a compiler is there for, and those that lack one."""
    missing = [BuildFailure(abi, reason) for abi in ABIS if (reason := why_missing(abi))]
    return [abi for abi in ABIS if abi not in {each.abi for each in missing}], missing


def build_job(
    abis: Sequence[str], options: BuildOptions, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Built | BuildFailure]:
    """A result for each ABI; what cannot be compiled does not keep the others from it."""
    for number, abi in enumerate(abis, 1):
        try:
            tell(f"{number}/{len(abis)} {abi} with {find_toolchain(abi).name}")
            yield build(abi, options)
        except (BuildError, ConfigError) as error:
            yield BuildFailure(abi, str(error))


def build(abi: str, options: BuildOptions) -> Built:
    """Compiles farmrt for one ABI; raises ConfigError or BuildError."""
    start_s = time.monotonic()
    features = options.features
    program = build_farmrt(abi, options.output, features=features, shared=options.shared)
    shared = program.with_name(shared_library.NAME)
    return Built(
        abi=abi,
        program=str(program),
        size_bytes=program.stat().st_size,
        compiler=find_toolchain(abi).name,
        seconds=round(time.monotonic() - start_s, 1),
        library=str(program.with_name("libfarmrt.a")),
        header=str(program.with_name("farmrt.h")),
        shared=str(shared) if options.shared else "",
        shared_bytes=shared.stat().st_size if options.shared else None,
        without=tuple(sorted(features.without)),
        operators=None if features.operators is None else tuple(sorted(features.operators)),
    )

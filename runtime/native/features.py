"""What a build of farmrt has: its two engines, and the operators of the CPU engine.

An engine is a folder of `src/`; one that is left out is replaced by a file of `src/without/`, which refuses the plans
that need it. The CPU engine's operators are the files `*.cpu.c` of `runtime/families`. One that is left out is missing
from the list in `cpu_call.c`; then nothing refers to its code, and the linker drops it.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from runtime.errors import ConfigError

ENGINES = ("opencl", "cpu")

FAMILIES = Path(__file__).parents[1] / "families"
_SOURCES = Path(__file__).parent / "src"
PROGRAM = tuple(_SOURCES / "serve" / name for name in ("main.c", "pocl_threads.c"))  # all others are the library
_OPERATOR_LIST = "cpu_call.c"  # the one file that reads it


@dataclasses.dataclass(frozen=True)
class Features:
    """Which parts of farmrt are built.

    Attributes:
        without: engines that are left out.
        operators: names of the CPU operators that are kept; None keeps all.
    """

    without: frozenset[str] = frozenset()
    operators: frozenset[str] | None = None

    @property
    def suffix(self) -> str:
        """What follows the ABI in the name of the build's folder; empty for all of farmrt."""
        engines = (f"-without-{engine}" for engine in ENGINES if engine in self.without)
        return "".join(engines) + ("" if self.operators is None else "-only-operators")

    def sources(self) -> list[Path]:
        """The C files of the library."""
        left_out = {"without", *self.without}
        found = [*_SOURCES.glob("*/*.c"), *([] if "cpu" in left_out else FAMILIES.glob("*/*.cpu.c"))]
        kept = sorted(path for path in found if path.parent.name not in left_out and path not in PROGRAM)
        return kept + [_SOURCES / "without" / f"{engine}.c" for engine in sorted(self.without)]

    def flags(self, source: Path) -> tuple[str, ...]:
        """What the compiler must be told for one of these files."""
        if self.operators is None or source.name != _OPERATOR_LIST:
            return ()
        return (f"-DRT_CPU_OPERATORS(X)={' '.join(f'X({name})' for name in sorted(self.operators))}",)


EVERYTHING = Features()


def chosen_features(without: Iterable[str], operators: frozenset[str] | None = None) -> Features:
    """The features of a build; raises ConfigError where no engine is left."""
    left_out = frozenset(without)
    if left_out == set(ENGINES):
        raise ConfigError("farmrt without opencl and without cpu could run no plan; leave out one of them")
    return Features(left_out, None if "cpu" in left_out else operators)

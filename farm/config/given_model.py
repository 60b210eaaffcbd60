"""A model as a user names it: a deployment file, or a model file with what its own content leaves open."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from runtime.errors import ConfigError

ONLY_INPUT = ""  # the name of a shape that is given without one
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class GivenModel:
    """What the command line or a script names.

    Attributes:
        path: a deployment file or a model file.
        shapes: input and shape, several of one input for a sweep; of a model file alone.
        weights: where the weights of a Caffe network lie, if not beside it under its name.
        runtimes: run on these instead of those of the deployment file.
        trusted: the user trusts the models' authors, so that models may hold code.
        asking: how a shape that is open is to be said, `{}` is what follows the option.
    """

    path: Path
    shapes: tuple[tuple[str, Shape], ...] = ()
    weights: Path | None = None
    trusted: bool = False
    runtimes: tuple[str, ...] = ()
    asking: str = "with {}"


def parsed_shape(word: str) -> tuple[str, Shape]:
    """Input and shape of `image=1,3,224,224`, or of a bare `1,3,224,224`; ValueError for anything else.

    A name may hold `=` itself; a scalar's shape is empty.
    """
    name, _, sizes = word.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        shape = (0,)
    if min(shape, default=1) < 1:
        raise ValueError(f"{word!r}: write INPUT=SIZES with sizes of at least 1, as in image=1,3,224,224")
    return name, shape


def given_shapes(shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None) -> tuple[tuple[str, Shape], ...]:
    """The same of a script's dictionary: a shape for each input, or several of them; raises ConfigError."""
    found = []
    for name, given in (shapes or {}).items():
        for shape in _each_shape(given):
            try:
                found.append(parsed_shape(f"{name}={','.join(map(str, shape))}"))
            except ValueError as error:
                raise ConfigError(f"shapes: {error}") from None
    return tuple(found)


def _each_shape(given: Sequence[int] | Sequence[Sequence[int]]) -> Iterable[Sequence[object]]:
    several = [shape for shape in given if isinstance(shape, Sequence)]
    return several if several and len(several) == len(given) else [given]

"""What the sliding windows of convolution and pooling share: sizes for both directions from Caffe's several fields."""

from collections.abc import Sequence
from typing import Any

from runtime.importers.caffe.layer_import import LayerImport

MAX_SIZE = 65535  # of a kernel, stride, pad or dilation

Pair = tuple[int, int]


def window_pair(layer: LayerImport, parameters: Any, name: str, both: Any, default: int = 0) -> Pair:
    """(vertical, horizontal): `<name>_h` and `<name>_w` where given, else `both`, one number or several."""
    if parameters.HasField(f"{name}_h") or parameters.HasField(f"{name}_w"):
        return getattr(parameters, f"{name}_h"), getattr(parameters, f"{name}_w")
    return spread(layer, name, [both] if isinstance(both, int) else both, default)


def spread(layer: LayerImport, name: str, values: Sequence[int], default: int) -> Pair:
    """(vertical, horizontal) of one number for both, one for each, or none."""
    if len(values) > 2:
        raise layer.unsupported(f"{name} is given {len(values)} times; supported: two spatial axes")
    found = list(values) or [default]
    return found[0], found[-1]


def check_window(layer: LayerImport, least: int = 1, **pairs: Pair) -> None:
    """Requires sizes from `least` on; none is absurd."""
    for name, pair in pairs.items():
        if not all(least <= size <= MAX_SIZE for size in pair):
            raise layer.error(f"{name} is {pair[0]},{pair[1]}; it must be from {least} to {MAX_SIZE}")

"""What quantised elements stand for, and what is left of that where operators only move them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]

EIGHT_BITS = ("int8", "uint8")
EXACT_IN_FLOATS = (*EIGHT_BITS, "int16", "uint16")
# Metadata of an ONNX model whose source rounds as TFLite does: a JSON list of the tensors that it has in floats.
FIXED_POINT_BUT = "farm.fixed_point_but"


@dataclasses.dataclass(frozen=True)
class Quantization:
    """The real values of integers: scale * (integer - zero_point).

    Attributes:
        scale, zero_point: one for all, or one for each index of `axis`.
        axis: None where one holds for all.
        integers: NumPy's name of the integers' type. A tensor of floats that is described so holds real values of such
            integers, which can be had back of them exactly.
        fixed_point: results are rounded to them as TFLite does it (fixed_point.py), else as ONNX defines it.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None
    integers: str
    fixed_point: bool = False

    def __post_init__(self) -> None:
        if len(self.scale) != len(self.zero_point) or (self.axis is None and len(self.scale) != 1):
            raise ValueError(f"{len(self.scale)} scale(s) and {len(self.zero_point)} zero point(s), axis {self.axis}")

    @property
    def is_whole(self) -> bool:
        """Whether one scale and zero point hold for all elements, wherever they are."""
        return self.axis is None

    def at(self, axis: int) -> Quantization:
        """The same along another axis."""
        return dataclasses.replace(self, axis=axis)

    def __str__(self) -> str:
        scales = [f"{value:.6g}" for value in dict.fromkeys((min(self.scale), max(self.scale)))]
        zeros = [str(value) for value in dict.fromkeys((min(self.zero_point), max(self.zero_point)))]
        along = "" if self.is_whole else f", {len(self.scale)} along axis {self.axis}"
        return f"{self.integers}, scale {' to '.join(scales)}, zero point {' to '.join(zeros)}{along}"


# What is known of the inputs, their shapes, the attributes -> what is known of the output.
QuantizationRule = Callable[[Sequence[Quantization | None], Sequence[Shape], Mapping[str, Any]], Quantization | None]
Known = Sequence[Quantization | None]


def not_carried(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """Of an operator that computes."""


def kept(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of an operator that changes nothing."""
    return known[0]


def moved(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of an operator that moves elements from anywhere to anywhere."""
    return known[0] if known[0] and known[0].is_whole else None


def kept_by_padding(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of what is padded with itself, or with zero, which every scale has."""
    keeps = attributes["mode"] != "constant" or attributes["value"] == 0
    return moved(known, shapes, attributes) if keeps else None


def transposed(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of another order of axes."""
    found = known[0]
    return found if found is None or found.axis is None else found.at(attributes["perm"].index(found.axis))


def reshaped(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of another shape: the axis is the one of its size with as many elements before it."""
    found, shape = known[0], attributes["shape"]
    if found is None or found.axis is None:
        return found
    before = int(np.prod(shapes[0][: found.axis]))
    fits = (axis for axis, size in enumerate(shape) if (int(np.prod(shape[:axis])), size) == (before, len(found.scale)))
    axis = next(fits, None)
    return None if axis is None else found.at(axis)


def sliced(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of ranges of some axes."""
    found = known[0]
    if found is None or found.axis is None or found.axis not in attributes["axes"]:
        return found
    place = attributes["axes"].index(found.axis)
    chosen = range(*(attributes[key][place] for key in ("starts", "ends", "steps")))
    scale = tuple(found.scale[index] for index in chosen)
    zero_point = tuple(found.zero_point[index] for index in chosen)
    return dataclasses.replace(found, scale=scale, zero_point=zero_point)


def joined(known: Known, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Quantization | None:
    """Of tensors one behind the other, where all are quantised alike and the axis has not become longer."""
    found = known[0]
    is_same = found is not None and all(each == found for each in known) and found.axis != attributes["axis"]
    return found if is_same else None

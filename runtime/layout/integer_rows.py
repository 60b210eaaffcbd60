"""Rows of weights as integers of few bits with their scales: found in floats, and packed for kernels that read them.

Weights that were quantised and dequantised are whole multiples of a scale. Transpositions, reshapes, slices, factors of
channels and folded constants leave them so, so the values tell it, whatever the model was written in.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

import numpy as np

from runtime.graph import Array

Found = TypeVar("Found")
LEAST = 1024  # weights, of which integers are worth a kernel of their own
GROUPS = (128, 64, 32, 16)  # columns that share a scale, where a row has several
_LARGEST = (127, 7, 128, 8, *range(126, 8, -1), *range(6, 0, -1))  # most rows' one is their bits'
_SAMPLE = 16  # columns by which most candidates are refused
_SIGNED, _ANY_ZERO = (-128, 127), (-255, 255)  # integers of eight bits without a zero point, and less one of these
_AT_A_TIME = 2**16  # weights
_found: dict[int, dict[Hashable, object]] = {}  # by the identity of an array, and what is asked of which view of it
_ROUNDING = 2.0**-21  # of a product, and of a scale that is found again
_WORD_BITS = 32
_OFFSET = 8  # what is added to integers of four bits, so that they are not negative


@dataclasses.dataclass(frozen=True)
class IntegerRows:
    """Weights [groups, rows, cols] as scale * integer.

    Attributes:
        integers: int8 [groups, rows, cols].
        scales: float32 [groups, rows, scales of a row].
        group: columns that share a scale; 0 where a row has one.
        bits: 8 or 4.
        offsets: int [groups, rows]: what is to be added to the integers of each row; None: nothing.
    """

    integers: Array
    scales: Array
    group: int
    bits: int
    offsets: Array | None = None

    def packed(self, block: int) -> Array:
        """Bytes of each block of rows, one block behind the other: scales [scales of a row][block] in float32, then
        integers [cols][block]. Of four bits, columns 2i and 2i + 1 share a byte, the first in its low half."""
        blocks = [_in_blocks(each, block) for each in (self.scales, self.integers)]
        if self.bits == 4:
            halves = np.pad(blocks[1] + _OFFSET, ((0, 0), (0, blocks[1].shape[1] % 2), (0, 0))).astype(np.uint8)
            blocks[1] = halves[:, 0::2] | halves[:, 1::2] << 4
        flat = [np.ascontiguousarray(each).view(np.int8).reshape(len(each), -1) for each in blocks]
        return np.concatenate(flat, axis=1).reshape(-1)

    def in_words(self, run: int) -> bool:
        """Whether `words` can be read in runs of so many columns, each of them whole words and whole groups."""
        return run % (self.group or _WORD_BITS // self.bits) == 0

    def words(self) -> Array:
        """Rows for GPUs, int32 [groups, rows, words]: each scale as the bits of a float32, before the integers that
        are multiplied by it; these several to a word, the first column in the lowest bits."""
        low, high = self.integers[..., 0::2], self.integers[..., 1::2]
        content = self.integers if self.bits == 8 else low & 15 | high << 4
        whole = np.ascontiguousarray(content).view("<i4").reshape(*self.scales.shape, -1)
        scales = np.ascontiguousarray(self.scales).view("<i4")[..., None]
        return np.concatenate([scales, whole], axis=3).reshape(*self.integers.shape[:2], -1)


def _in_blocks(rows: Array, block: int) -> Array:
    """[groups, rows, cols] as [blocks, cols, block], zeros behind the last row of a group."""
    _, count, cols = rows.shape
    padded = np.pad(rows, ((0, 0), (0, -count % block), (0, 0)))
    return padded.reshape(-1, block, cols).swapaxes(1, 2)


def integer_rows(weights: Array, has_offsets: bool = False) -> IntegerRows | None:
    """Floats [groups, rows, cols] as integers of eight bits or four; None where they are no such multiples.

    `has_offsets`: they may be few, and integers of rows that do not begin at -128, as of weights with zero points.
    """
    if weights.dtype != np.float32 or (weights.size < LEAST and not has_offsets):
        return None
    return judged_once(weights, has_offsets, lambda: (_offset_integers_of if has_offsets else _integers_of)(weights))


def judged_once(values: Array, key: Hashable, find: Callable[[], Found | None]) -> Found | None:
    """What `find` tells of values; it is asked once as long as the array is there that they are a view of, which cannot
    be written to any more, and again where it found nothing. `key`: the question."""
    owner = values.base if isinstance(values.base, np.ndarray) else values
    question = key, values.ctypes.data, values.shape, values.strides
    known = _found.get(id(owner), {})
    if question not in known and (found := find()) is not None:
        if not known:
            weakref.finalize(owner, _found.pop, id(owner), None)
        owner.flags.writeable = False
        _found[id(owner)] = known | {question: found}
        return found
    return cast("Found | None", known.get(question))


def _integers_of(weights: Array) -> IntegerRows | None:
    groups, rows, cols = weights.shape
    for group in (0, *(each for each in GROUPS if cols % each == 0 and cols > each)):
        if not _begins_whole(weights[0, 0, : group or cols]):
            continue  # as most weights, of which no copy is made in the order of rows
        found = _multiples(weights.reshape(-1, group or cols))
        if found is not None:
            integers, scales = (each.reshape(groups, rows, -1) for each in found)
            bits = 4 if integers.min() >= -_OFFSET and integers.max() < _OFFSET else 8
            return IntegerRows(integers, scales, group, bits)
    return None


def _offset_integers_of(weights: Array) -> IntegerRows | None:
    groups, rows, cols = weights.shape
    flat = weights.reshape(-1, cols)
    found = _multiples(flat, _ANY_ZERO) if _begins_whole(flat[0], _ANY_ZERO) else None
    if found is None:
        return None
    integers, scales = found
    least, most = integers.min(axis=1), integers.max(axis=1)
    if (most - least).max() > np.ptp(_SIGNED):
        return None
    offsets = np.minimum(least - _SIGNED[0], 0) + np.maximum(most - _SIGNED[1], 0)
    whole = (integers - offsets[:, None]).astype(np.int8)
    return IntegerRows(
        whole.reshape(weights.shape), scales.reshape(groups, rows, 1), 0, 8, offsets.reshape(groups, rows)
    )


def _multiples(rows: Array, limits: tuple[int, int] = _SIGNED) -> tuple[Array, Array] | None:
    """Integers and the scale of each row; None where a row has none. Some rows at a time, that stay in the cache."""
    integers = np.empty(rows.shape, np.int8 if limits == _SIGNED else np.int16)
    step = np.empty(len(rows), np.float32)
    count = max(1, _AT_A_TIME // rows.shape[1])
    for first in range(0, len(rows), count):
        some = slice(first, first + count)
        if not _find(rows[some], integers[some], step[some], limits):
            return None
    return integers, step


def _begins_whole(row: Array, limits: tuple[int, int] = _SIGNED) -> bool:
    """Whether the first columns of a row are multiples of any candidate."""
    step = np.abs(row).max() / np.arange(1, 1 - limits[0], dtype=np.float32)
    return bool(step[0] == 0 or _are_whole(row[None, :_SAMPLE], step).any())


def _find(rows: Array, integers: Array, step: Array, limits: tuple[int, int]) -> bool:
    """Fills the integers and the scales of rows; False where a row has none."""
    peak = np.abs(rows).max(axis=1)
    step[...] = np.where(peak > 0, np.nan, np.float32(1))
    for largest in _LARGEST if limits == _SIGNED else range(1, 1 - limits[0]):
        places = np.flatnonzero(np.isnan(step))
        if not len(places):
            break
        candidate = peak[places] / np.float32(largest)
        near = _are_whole(rows[places, :_SAMPLE], candidate)
        places, candidate = places[near], candidate[near]
        whole = _are_whole(rows[places], candidate) & (np.rint(rows[places].max(axis=1) / candidate) <= limits[1])
        step[places[whole]] = candidate[whole]
    found = np.rint(rows / step[:, None])
    if np.isnan(step).any() or found.min() < limits[0] or found.max() > limits[1]:
        return False
    integers[...] = found
    return True


def _are_whole(rows: Array, step: Array) -> Array:
    """Which rows are whole multiples of their step, but for rounding."""
    again = np.rint(rows / step[:, None]) * step[:, None]
    return np.asarray((np.abs(again - rows) <= _ROUNDING * np.abs(rows)).all(axis=1))

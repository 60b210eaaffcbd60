"""Plans memory: values that are not alive at the same time share arenas and images.

Buffers are placed largest first, each at the lowest offset where no value that lives at the same time overlaps it
(greedy by size; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from runtime.plan.container import align
from runtime.plan.plan import PIXEL_BYTES
from runtime.types import ImageFormat


@dataclasses.dataclass(frozen=True)
class BufferLifetime:
    """A block of memory that must exist from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int

    def overlaps(self, other: BufferLifetime) -> bool:
        """Whether both live at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclasses.dataclass(frozen=True)
class ArenaPlace:
    """Where a block of memory lies: the index of its arena, and the offset there in bytes."""

    arena: int
    offset: int


def plan_arenas(needs: Sequence[BufferLifetime], limit: int, reuse: bool = True) -> tuple[list[ArenaPlace], list[int]]:
    """Places every need in arenas of at most `limit` bytes; returns the places and the arenas' sizes.

    A need above the limit gets an arena of its own, which the caller must have refused before.
    """
    places: dict[int, ArenaPlace] = {}
    sizes: list[int] = []
    for index in sorted(range(len(needs)), key=lambda i: (-needs[i].size, needs[i].first)):
        place = _lowest_place(needs, index, places, limit, len(sizes), reuse)
        end = place.offset + align(needs[index].size)
        if place.arena == len(sizes):
            sizes.append(0)
        sizes[place.arena] = max(sizes[place.arena], end)
        places[index] = place
    return [places[index] for index in range(len(needs))], sizes


def _lowest_place(
    needs: Sequence[BufferLifetime], index: int, places: dict[int, ArenaPlace], limit: int, arenas: int, reuse: bool
) -> ArenaPlace:
    need = needs[index]
    for arena in range(arenas):
        offset = 0
        occupied = [
            (place.offset, place.offset + align(needs[other].size))
            for other, place in places.items()
            if place.arena == arena and (not reuse or need.overlaps(needs[other]))
        ]
        for start, end in sorted(occupied):
            if offset + align(need.size) <= start:
                break
            offset = max(offset, end)
        if offset + align(need.size) <= limit:
            return ArenaPlace(arena, offset)
    return ArenaPlace(arenas, 0)


@dataclasses.dataclass(frozen=True)
class ImageLifetime:
    """An image of width x height pixels that must exist from step `first` to step `last`, both included."""

    width: int
    height: int
    format: int
    first: int
    last: int


@dataclasses.dataclass(eq=False)
class _Slot:
    width: int
    height: int
    format: int
    free_after: int


def plan_images(
    needs: Sequence[ImageLifetime], limit: int, reuse: bool = True
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Assigns each need an image; an image serves several needs in turn and is as wide and high as they ask.

    None becomes larger by that than `limit` bytes, what a device allocates at once.

    Returns:
        The image of each need, and (width, height, format) of each image.
    """
    slots: list[_Slot] = []
    chosen = [0] * len(needs)
    for index in sorted(range(len(needs)), key=lambda i: needs[i].first):
        need = needs[index]
        most = limit // PIXEL_BYTES[ImageFormat(need.format)]
        free = [s for s in slots if reuse and s.format == need.format and s.free_after < need.first]
        free = [s for s in free if _pixels(s, need) <= most]
        slot = min(free, key=lambda s: _growth(s, need), default=None)
        if slot is None:
            slot = _Slot(need.width, need.height, need.format, need.last)
            slots.append(slot)
        slot.width, slot.height = max(slot.width, need.width), max(slot.height, need.height)
        slot.free_after = need.last
        chosen[index] = slots.index(slot)
    return chosen, [(slot.width, slot.height, slot.format) for slot in slots]


def _pixels(slot: _Slot, need: ImageLifetime) -> int:
    return max(slot.width, need.width) * max(slot.height, need.height)


def _growth(slot: _Slot, need: ImageLifetime) -> int:
    grown = _pixels(slot, need)
    return grown - slot.width * slot.height + (grown - need.width * need.height) // 8

"""The points of a series as the store's own text, compressed: years of ten thousand series fit into memory."""

import functools
import operator
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from pydantic_core import from_json

from farm.rows.series import Point

FASTEST = 1


class PackedPoints(Sequence[Point]):
    """Points, oldest first, made anew when they are asked for; those of the series asked for last stay at hand."""

    def __init__(self, runs: Sequence[int], members: str, commits: Mapping[int, str]) -> None:
        """`members`: the JSON objects of the points of these runs, in their order, with commas between them.

        `commits`: those of all runs, which series share.
        """
        self._runs, self._commits = tuple(runs), commits
        self._packed = zlib.compress(f"[{members}]".encode(), FASTEST)
        self.last_run = max(runs, default=0)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Point]:
        return iter(_unpacked(self))

    @overload
    def __getitem__(self, index: int) -> Point: ...

    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...

    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        return _unpacked(self)[index]

    def unpacked(self) -> list[Point]:
        """All of them, by run."""
        members = from_json(zlib.decompress(self._packed))
        points = [point_of(each, run, self._commits[run]) for each, run in zip(members, self._runs, strict=True)]
        return sorted(points, key=operator.attrgetter("run"))


@functools.lru_cache(maxsize=1)
def _unpacked(points: PackedPoints) -> list[Point]:
    return points.unpacked()


def point_of(members: dict[str, Any], run: int, commit: str) -> Point:
    """A point of its stored members, which become its own; those that it lacks are its class's defaults."""
    members["runs"] = tuple(map(float, members.get("runs", ())))
    if "arms" in members:
        members["arms"] = tuple(members["arms"])
    members["run"], members["commit"] = run, commit
    point = object.__new__(Point)  # a tenth of the time of its constructor, which sets a frozen class's members singly
    point.__dict__.update(members)
    return point

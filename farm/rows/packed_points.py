"""The points of a series as the store's own text, compressed: years of ten thousand series fit into memory."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from pydantic_core import from_json

from farm.rows.series import Point

FASTEST = 1


class PackedPoints(Sequence[Point]):
    """Points, oldest first, made anew when they are asked for; those of the series asked for last stay at hand."""

    def __init__(self, commits: Mapping[int, str], texts: Sequence[str]) -> None:
        """`texts`: the JSON object of each point, without its run and commit; `commits`: of each point's run."""
        beside = json.dumps([list(commits), list(commits.values())])
        self._packed = zlib.compress(f"[{beside},[{','.join(texts)}]]".encode(), FASTEST)
        self._count = len(texts)
        self.last_run = max(commits, default=0)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Point]:
        return iter(_unpacked(self._packed))

    @overload
    def __getitem__(self, index: int) -> Point: ...

    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...

    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        return _unpacked(self._packed)[index]


@functools.lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> list[Point]:
    (runs, commits), members = from_json(zlib.decompress(packed))
    return list(map(point_of, members, runs, commits))


def point_of(members: dict[str, Any], run: int, commit: str) -> Point:
    """A point of its stored members."""
    members["runs"] = tuple(map(float, members.get("runs", ())))
    if "arms" in members:
        members["arms"] = tuple(members["arms"])
    return Point(run=run, commit=commit, **members)

"""Names that are taken once."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """Gives each name once, with a number behind it where it is taken; in constant time however often it is."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """A name like `name` that is not taken yet."""
        unique = name
        while unique in self._taken:
            suffix = self._next.get(name, 1)
            self._next[name] = suffix + 1
            unique = f"{name}_{suffix}"
        self._taken.add(unique)
        return unique

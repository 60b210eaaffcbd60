"""Repeats a rewriting of a graph until it changes nothing, within a bound."""

import warnings
from collections.abc import Callable

MOST_ROUNDS = 100  # networks and drawn graphs take up to ten


class UnendingRewriting(ResourceWarning):
    """A rewriting still changed something in its last round.

    Python hides each `ResourceWarning` from users, who have the note among the changes. Tests take it as an error.
    """


def repeated(what: str, rewrite: Callable[[], bool], most: int = MOST_ROUNDS) -> list[str]:
    """Calls `rewrite` until it says that nothing changed; returns no line, or a note that the bound ended it."""
    if not all(rewrite() for _ in range(most)):
        return []
    note = f"{what} stopped after {most} rounds: the graph is right, but may hold more operators than it needs"
    warnings.warn(note, UnendingRewriting, stacklevel=2)
    return [note]

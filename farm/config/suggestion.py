"""The hint that follows an unknown word."""

import difflib
from collections.abc import Collection


def suggestion(word: str, known_words: Collection[str]) -> str:
    """`, did you mean 'x'?` for the nearest known word; the list of them when none is near."""
    matches = difflib.get_close_matches(word, known_words, n=1)
    return f", did you mean {matches[0]!r}?" if matches else f"; known are {', '.join(sorted(known_words))}"

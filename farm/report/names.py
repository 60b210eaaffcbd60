"""File names made from names that others chose: they stay in their folder, and no two are the same."""

import hashlib
import re

MAX_CHARACTERS = 60
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OTHER = re.compile(r"[^a-z0-9_]+")


class Names:
    """Gives each text a name of lower-case letters, digits, `_` and `-`, with a hash where the text was changed."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def of(self, *parts: str) -> str:
        """The name for these parts: the same each time, and nobody else's."""
        text = "\0".join(parts)
        name = slug(*parts)
        if self._taken.setdefault(name, text) != text:
            name = f"{name}-{_hash(text, 32)}"
            self._taken[name] = text
        return name


def slug(*parts: str) -> str:
    """The parts as a name; two texts that look alike differ in their hash."""
    joined = "-".join(parts)
    if len(parts) == 1 and len(joined) <= MAX_CHARACTERS and _PLAIN.fullmatch(joined):
        return joined
    readable = _OTHER.sub("-", joined.lower())[:MAX_CHARACTERS].strip("-")
    return f"{readable or 'x'}-{_hash(chr(0).join(parts), 10)}"


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]

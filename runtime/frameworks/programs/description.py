"""Walks the description of a model, JSON that frameworks write, without trusting its shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def objects(description: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object of a description, wherever it stands; however deep it is, the stack stays shallow."""
    pending = [description]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending += part.values()
        elif isinstance(part, list):
            pending += part

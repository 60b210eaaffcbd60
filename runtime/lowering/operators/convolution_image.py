"""Conv on image memory."""

from __future__ import annotations

from runtime.graph import Node
from runtime.lowering.builder import Builder


def lower(builder: Builder, node: Node) -> bool:
    """Emits the convolution on images where the target wants them and they fit; else returns False."""
    return False

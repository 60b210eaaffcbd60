"""What lowers each operator, collected from the rooms of the families; users' operators are added by runtime/custom."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.graph import Node
from runtime.lowering.blocks import BlockedOperator
from runtime.lowering.builder import Builder
from runtime.registry import collect

Lower = Callable[[Builder, Node], None]
LowerOnImages = Callable[[Builder, Node], str]  # emits the launches, or nothing and returns why images cannot serve

LOWERINGS: dict[str, Lower] = collect("buffer_lowering", "LOWERINGS")
IMAGE_LOWERINGS: dict[str, LowerOnImages] = collect("image_lowering", "LOWERINGS")
BLOCKED_OPERATORS: Mapping[str, BlockedOperator] = collect("block_lowering", "OPERATORS")
STRIDED_LOWERINGS: Mapping[str, Lower] = collect("strided_lowering", "LOWERINGS")

"""Lowers operators to steps on blocked activations, for plans of the CPU alone; one file for each operator family."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.lowering.blocked_operators import channels, convolution, elementwise, movement, pooling
from runtime.lowering.blocked_operators.operator import BlockedOperator

BLOCKED_OPERATORS: Mapping[str, BlockedOperator] = {
    **convolution.OPERATORS,
    **pooling.OPERATORS,
    **elementwise.OPERATORS,
    **channels.OPERATORS,
    **movement.OPERATORS,
}

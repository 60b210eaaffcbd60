"""What lowers each operator, collected from the rooms of the families; users' operators are added by runtime/custom."""

from collections.abc import Callable, Collection, Iterable, Mapping

from runtime.graph import Graph, Node
from runtime.lowering.blocks import BlockedOperator, QuantizedOperator
from runtime.lowering.builder import Builder
from runtime.registry import collect, collect_rows
from runtime.target import Target

Lower = Callable[[Builder, Node], None]
LowerOnImages = Callable[[Builder, Node], str]  # emits the launches, or nothing and returns why images cannot serve
ByteFusion = Callable[[Graph, Collection[str], int], Graph]  # given the tensors that stay, and the block

LOWERINGS: dict[str, Lower] = collect("BUFFER_LOWERINGS")
IMAGE_LOWERINGS: dict[str, LowerOnImages] = collect("IMAGE_LOWERINGS")
BLOCKED_OPERATORS: Mapping[str, BlockedOperator] = collect("BLOCKED_OPERATORS")
QUANTIZED_OPERATORS: Mapping[str, QuantizedOperator] = collect("QUANTIZED_OPERATORS")
BYTE_OPERATORS: Mapping[str, QuantizedOperator] = collect("BYTE_OPERATORS")
BYTE_FUSIONS: tuple[ByteFusion, ...] = collect_rows("BYTE_FUSIONS")
STRIDED_LOWERINGS: Mapping[str, Lower] = collect("STRIDED_LOWERINGS")
# Given the tensors that stay: outputs of nodes that the launch of one behind them computes too.
ROW_JOINS: tuple[Callable[[Builder, Collection[str]], Iterable[str]], ...] = collect_rows("ROW_JOINS")


def byte_operators(target: Target) -> Mapping[str, QuantizedOperator]:
    """What works on eight bits: in blocks on a CPU, in buffers on a GPU."""
    return QUANTIZED_OPERATORS if target.memory == "cpu" else BYTE_OPERATORS

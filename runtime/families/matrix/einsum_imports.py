"""Einsum: operands are joined two at a time, each time as one strided product."""

from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, value_text
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides

Labels = tuple[str, ...]


def _labels(node: OnnxNode, term: str, rank: int) -> Labels:
    """A label for each axis; those of an ellipsis are numbers, counted from the last one."""
    head, dots, tail = term.partition("...")
    missing = rank - len(head) - len(tail)
    if missing < 0 or (missing and not dots):
        raise ModelError(f"{node}: term '{term}' for an operand of {rank} axes")
    return (*head, *(f"{missing - index}" for index in range(missing)), *tail)


def _parsed(node: OnnxNode, equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Labels of each operand's axes, and of the result's."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    operands = terms.split(",")
    if len(operands) != len(ranks):
        raise ModelError(f"{node}: equation {value_text(equation)} for {len(ranks)} operand(s)")
    inputs = [_labels(node, term, rank) for term, rank in zip(operands, ranks, strict=True)]
    every = [label for labels in inputs for label in labels]
    broadcast = tuple(sorted({label for label in every if label.isdigit()}, key=int, reverse=True))
    if arrow:
        head, dots, tail = result.partition("...")
        return inputs, (*head, *(broadcast if dots else ()), *tail)
    once = sorted(label for label in set(every) if every.count(label) == 1 and not label.isdigit())
    return inputs, (*broadcast, *once)


def _strides(labels: Labels, shape: Sequence[int], loops: Sequence[str]) -> tuple[int, ...]:
    """Steps of an operand along loops; an axis of one element stands still, and a label twice is a diagonal."""
    steps = dict.fromkeys(loops, 0)
    for label, size, step in zip(labels, shape, row_major_strides(shape), strict=True):
        steps[label] += step if size > 1 else 0
    return tuple(steps[label] for label in loops)


def _einsum(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, operands = Emitter(node, builder), list(node.inputs)
    inputs, result = _parsed(node, node.text("equation", ""), [len(builder.shape(name)) for name in operands])
    sizes: dict[str, int] = {}
    for name, labels in zip(operands, inputs, strict=True):
        for label, size in zip(labels, builder.shape(name), strict=True):
            if sizes.setdefault(label, size) not in (size, 1) and size != 1:
                raise ModelError(f"{node}: axes '{label}' of {sizes[label]} and {size} elements")
            sizes[label] = max(sizes[label], size)
    if len(operands) == 1:
        operands.append(emit.constant(1, like=operands[0]))
        inputs.append(())
    a, left = operands[0], inputs[0]
    for index, (b, right) in enumerate(zip(operands[1:], inputs[1:], strict=True), start=1):
        needed = {label for labels in (*inputs[index + 1 :], result) for label in labels}
        last = index == len(operands) - 1
        kept = result if last else tuple(label for label in dict.fromkeys((*left, *right)) if label in needed)
        summed = tuple(label for label in dict.fromkeys((*left, *right)) if label not in kept)
        loops = (*kept, *summed)
        a = emit.op(
            "StridedProduct",
            a,
            b,
            output=node.output if last else None,
            shape=tuple(sizes[label] for label in kept),
            summed=tuple(sizes[label] for label in summed),
            a_strides=_strides(left, builder.shape(a), loops),
            b_strides=_strides(right, builder.shape(b), loops),
        )
        left = kept


HANDLERS: Mapping[str, Handler] = {"Einsum": _einsum}

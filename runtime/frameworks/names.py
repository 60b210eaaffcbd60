"""Tensor names of a deployment file against those of a model."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, TypeVar

import onnx

from runtime.errors import ModelError

MAX_LISTED = 12

Tensor = TypeVar("Tensor")


def find_tensor(
    kind: Literal["input", "output"], name: str, tensors: Mapping[str, Tensor], listed: Collection[str]
) -> Tensor:
    """The tensor of a name, with or without TensorFlow's `:0`.

    Raises:
        ModelError: there is none; the text suggests the nearest name, else the model's inputs or outputs (`listed`).
    """
    for spelling in (name, f"{name}:0", name.removesuffix(":0")):
        if spelling in tensors:
            return tensors[spelling]
    near = difflib.get_close_matches(name, [*listed, *tensors], n=1)
    hint = f", did you mean {near[0]!r}?" if near else f"; its {kind}s are {shown(listed)}"
    raise ModelError(f"{kind} tensor {name!r} is not in the model{hint}")


def shown(names: Collection[str]) -> str:
    """The first of the names, for a message."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(map(repr, list(names)[:MAX_LISTED])) or "none") + more


def rename(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    """Gives tensors of a model new names; an inner tensor that has one of these already gets another."""
    nodes = list(nodes_of(model.graph))
    taken = {name for node in nodes for name in (*node.input, *node.output)} - set(names)
    clashes = taken & set(names.values())
    names = {name: _free(name, taken | set(names.values())) for name in clashes} | dict(names)
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for named in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        named.name = names.get(named.name, named.name)
    del model.graph.value_info[:]


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of inner graphs included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes_of(inner)


def _free(name: str, taken: Collection[str]) -> str:
    """A name like this one that nothing has."""
    return next(found for count in range(len(taken) + 1) if (found := f"{name}:inner{count}") not in taken)

"""Bodies: steps inside of If, Loop and Scan that read outer tensors; and names as models in the field have them."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tests.random_models import steps
from tests.random_models.maker import Maker, Refused, value_info

INSIDE = (steps.binary, steps.activation, steps.slice_, steps.transpose, steps.concat, steps.reduction, steps.product)


class Body(Maker):
    """A model in the making that sees the tensors of another; what it makes is a body there."""

    def __init__(self, outer: Maker) -> None:
        super().__init__(outer.seed)
        self.rng, self.outer, self._count = outer.rng, outer, outer._count
        self.values, self.constants = dict(outer.values), dict(outer.constants)

    def graph(self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]) -> onnx.GraphProto:
        """The body; its own constants are its initializers."""
        own = [tensor for name, tensor in self.constants.items() if name not in self.outer.constants]
        self.outer._count = self._count
        found = [value_info(name, self.values[name]) for name in outputs]
        return helper.make_graph(self.nodes, self.name("body"), inputs, found, own)


def grown(make: Maker, x: str, count: int) -> str:
    """The tensor after some steps, or after nested bodies."""
    for _ in range(count):
        try:
            x = steps.grow(make, x, (choice,) if make.rng.random() < 0.2 else INSIDE)
        except Refused:
            continue
    return x


def choice(make: Maker, x: str) -> str:
    """An If on a constant, whose branches end in tensors of one shape."""
    branches = []
    for _ in range(2):
        body = Body(make)
        y = grown(body, x, make.rng.randint(1, 3))
        if body.shape(y) != make.shape(x) or not body.nodes or y not in body.nodes[-1].output:
            y = body.add("Add", x, make_scalar(body))
        branches.append(body.graph([], [y]))
    condition = make.constant(make.rng.random() < 0.5, np.bool_)
    return make.add("If", condition, then_branch=branches[0], else_branch=branches[1])


def make_scalar(make: Maker) -> str:
    """A constant of one element."""
    return make.constant(make.noise(()))


def loop(make: Maker, x: str) -> str:
    """A Loop of two or three turns that carries the tensor, and halves it so that it stays in bounds."""
    body = Body(make)
    carried, number, still = body.name("v"), body.name("i"), body.name("on")
    body.values |= {carried: make.values[x], number: np.asarray(0, np.int64), still: np.asarray(True)}
    y = grown(body, carried, make.rng.randint(1, 3))
    if body.shape(y) != make.shape(x) or y == carried:
        y = body.add("Add", carried, x)
    y = body.add("Mul", y, body.constant(0.5))
    on = body.name("on")
    body.nodes.append(helper.make_node("Identity", [still], [on]))
    body.values[on] = np.asarray(True)
    inputs = [value_info(name, body.values[name]) for name in (number, still, carried)]
    trips = make.constant(make.rng.randint(1, 3), np.int64)
    return make.add("Loop", trips, "", x, body=body.graph(inputs, [on, y]))


def scan(make: Maker, x: str) -> str:
    """A Scan over the first axis; its state is what was summed up."""
    shape = make.shape(x)
    if len(shape) < 2:
        raise Refused("nothing to scan")
    body = Body(make)
    state, row = body.name("s"), body.name("r")
    body.values |= {state: np.zeros(shape[1:], np.float32), row: make.values[x][0]}
    total = body.add("Add", state, row)
    outer = make.constant(make.noise(shape[1:]))
    body.values[outer], body.constants[outer] = make.values[outer], make.constants[outer]
    y = body.add("Mul", total, outer)
    inputs = [value_info(name, body.values[name]) for name in (state, row)]
    first = make.constant(np.zeros(shape[1:]))
    backwards = {"scan_input_directions": [make.rng.randint(0, 1)], "scan_output_directions": [make.rng.randint(0, 1)]}
    graph = body.graph(inputs, [total, y])
    return make.add_all("Scan", first, x, outputs=2, num_scan_inputs=1, body=graph, **backwards)[make.rng.randint(0, 1)]


SCOPES = (choice, choice, loop, loop, scan, steps.binary, steps.activation, steps.slice_, steps.concat)

# Names that a converter might give to helpers of its own, and names that need care in files and messages.
ENDINGS = ("/float32", "/Transpose", ":nchw", ":0", "_1", "/copy", "/padded", "/scale", "/bias", "/0", ".1", " 2", "/é")


def renamed(model: onnx.ModelProto, make: Maker) -> dict[str, str]:
    """Gives tensors of the main graph names made of other tensors' names; returns old -> new."""
    made = [name for each in model.graph.node for name in each.output]
    chosen = [name for name in (*make.inputs, *made) if make.rng.random() < 0.6]
    names: dict[str, str] = {}
    taken = {*make.values, *(each.name for each in model.graph.node)}
    for name in chosen:
        new = make.rng.choice([*made, *make.inputs, "x", *names.values()]) + make.rng.choice(ENDINGS)
        if new not in taken:
            names[name] = new
            taken.add(new)
    _rename(model.graph, names)
    for each in model.graph.node:
        if make.rng.random() < 0.3:
            each.name = make.rng.choice(["", each.output[0]])
    return names


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for tensor in (*graph.input, *graph.output, *graph.initializer):
        tensor.name = names.get(tensor.name, tensor.name)
    for each in graph.node:
        each.input[:] = [names.get(name, name) for name in each.input]
        each.output[:] = [names.get(name, name) for name in each.output]
        for attribute in each.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, names)

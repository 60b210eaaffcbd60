"""Lowers RNN, GRU and LSTM: one launch for all time steps of a narrow layer, a launch for each step of a wide one."""

import dataclasses
import math

from runtime.graph import Array, Node
from runtime.kernels.spec import CPU_BLOCK, MemoryType
from runtime.layout.buffer import pack_rows
from runtime.lowering.builder import Builder
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.semantics.recurrence import DIRECTIONS, GATES, RecurrentFunction, RecurrentKind
from runtime.types import Storage

# Beyond it one work group, which is what one compute unit holds, takes longer for a step than a launch does.
WIDEST_SEQUENCE = 256


@dataclasses.dataclass(frozen=True)
class _Layer:
    """A recurrent node with its tensors; an absent one is the hidden state, which the kernel then does not read."""

    builder: Builder
    node: Node
    x: Value
    r: Value
    h: Value
    c: Value
    p: Value
    y: Value
    in_blocks: bool  # r, as weight_blocks makes it

    @property
    def times(self) -> int:
        """Time steps."""
        return self.x.shape[0]

    @property
    def batch(self) -> int:
        """Sequences."""
        return self.x.shape[1]

    @property
    def hidden(self) -> int:
        """Hidden values."""
        return self.h.shape[1]

    @property
    def reversals(self) -> tuple[bool, ...]:
        """Of each direction: whether it runs backwards."""
        return DIRECTIONS[self.node.attrs["direction"]]

    @property
    def is_two_part(self) -> bool:
        """Whether a step needs a product of what it has computed itself."""
        return self.node.op == "GRU" and not self.node.attrs["linear_before_reset"]

    def defines(self) -> dict[str, int]:
        """What kernels are compiled for."""
        attrs = self.node.attrs
        codes = {key.upper(): int(RecurrentFunction[attrs[key].upper()]) for key in ("gate", "cell", "out")}
        codes |= {"RECURRENT": int(RecurrentKind[self.node.op]), "EXTRA": int(bool(self.node.input(4)))}
        codes |= {"BLOCK": CPU_BLOCK} if self.in_blocks else {}
        return codes | {
            "LINEAR": int(attrs.get("linear_before_reset", False)),
            "COUPLED": int(attrs.get("input_forget", False)),
        }

    def numbers(self) -> dict[str, float]:
        """The clip and the parameters of the functions."""
        attrs = self.node.attrs
        numbers = {"clip": attrs["clip"] or math.inf}
        for key in ("gate", "cell", "out"):
            numbers[f"{key}_a"], numbers[f"{key}_b"] = attrs[f"{key}_parameters"]
        return numbers


def lower_recurrent(builder: Builder, node: Node) -> None:
    """Lowers RNN, GRU or LSTM; on the CPU one operator runs all steps, however wide the layer is.

    So does a kernel where the driver does not build the one of single steps, which no CPU has.
    """
    x, h = (builder.read(name, Storage.FLAT) for name in (node.inputs[0], node.inputs[2]))
    c, p = (builder.read(node.input(i), Storage.FLAT) if node.input(i) else h for i in (3, 4))
    weights = node.inputs[1]
    in_blocks = builder.on_cpu and not builder.is_activation(weights)
    if in_blocks:
        r = builder.constant(f"{weights}:blocks", weight_blocks(builder.graph.constants[weights]))
    else:
        r = builder.read(weights, Storage.FLAT)
    layer = _Layer(builder, node, x, r, h, c, p, builder.write(node.output, Storage.FLAT), in_blocks)
    dims = {"batch": layer.batch, "hidden": layer.hidden}
    is_narrow = builder.on_cpu or layer.hidden <= WIDEST_SEQUENCE
    if is_narrow or builder.refusal("recurrent_step", MemoryType.BUFFER, dims):
        _sequence(layer)
    else:
        _steps(layer)


def weight_blocks(r: Array) -> Array:
    """Recurrent weights [D, H, G * H] as D * G matrices in blocks of rows; a row is what one gate of one value sums."""
    directions, hidden, width = r.shape
    rows = r.reshape(directions, hidden, width // hidden, hidden).transpose(0, 2, 3, 1)
    return pack_rows(rows.reshape(-1, hidden, hidden), CPU_BLOCK)


def _sequence(layer: _Layer) -> None:
    node = layer.node
    dims = {"times": layer.times, "batch": layer.batch, "hidden": layer.hidden, "gates": GATES[node.op]}
    dims |= {"directions": len(layer.reversals), "backwards": int(layer.reversals[0])}
    tensors = {"x": layer.x, "r": layer.r, "h": layer.h, "c": layer.c, "p": layer.p, "y": layer.y}
    shown = ProfileInfo(layer.y.shape)
    layer.builder.launch(
        "recurrent_sequence",
        node.name,
        node.op,
        tensors,
        dims,
        layer.numbers(),
        layer.defines() | {"STEPWISE": 0},
        shown,
    )


def _steps(layer: _Layer) -> None:
    for direction, reverse in enumerate(layer.reversals):
        before = None
        for time in reversed(range(layer.times)) if reverse else range(layer.times):
            for products in (2, 1) if layer.is_two_part else (GATES[layer.node.op],):
                _step(layer, direction, time, before, products)
            before = time


def _step(layer: _Layer, direction: int, time: int, before: int | None, products: int) -> None:
    """Emits a time step of a direction, or one of its two parts; every step has the same dims, so it is tuned once."""
    node, width = layer.node, GATES[layer.node.op] * layer.hidden
    directions, rows = len(layer.reversals), layer.batch * layer.hidden
    state = (layer.batch, layer.hidden)

    def at(row: int) -> Value:
        """The direction's states in a row of the output."""
        return _part(layer.y, state, (row * directions + direction) * rows)

    x = _part(layer.x, (layer.batch, width), (time * layer.batch * directions + direction) * width)
    r = _part(layer.r, (layer.hidden, width), direction * layer.hidden * width)
    h = _part(layer.h, state, direction * rows) if before is None else at(before)
    working = at(layer.times) if layer.y.shape[0] > layer.times else at(time)
    c = working if before is not None else _part(layer.c, state, direction * rows)
    p = _part(layer.p, layer.p.shape[1:], direction * layer.p.shape[1]) if node.input(4) else layer.h
    dims = {"batch": layer.batch, "hidden": layer.hidden, "products": products}
    dims |= {"x_step": directions * width, "s_step": directions * rows}
    tensors = {"x": x, "r": r, "h": h, "c": c, "p": p, "s": working, "y": at(time)}
    name = f"{node.name}:{direction}:{time}" + (f":{products}" if layer.is_two_part else "")
    defines = layer.defines() | {"STEPWISE": 1}
    shown = ProfileInfo(state)
    layer.builder.launch("recurrent_step", name, node.op, tensors, dims, layer.numbers(), defines, shown)


def _part(value: Value, shape: tuple[int, ...], offset: int) -> Value:
    """A run of a row-major tensor."""
    return Value(value.name, shape, Storage.FLAT, value.element, 0, value, offset)


BUFFER_LOWERINGS = dict.fromkeys(GATES, lower_recurrent)

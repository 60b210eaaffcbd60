"""The operators of the graph, one row each: inputs, attributes, shape function, activation, multiply-accumulates.

Every attribute of a row is present in every node of that operator; the only optional ones are the activation
attributes of a `fusible` operator (see `ACTIVATION_ATTRIBUTES`). A kind says what an attribute may be: `count` is an
int of at least 1, `pair` two counts, `sides` four ints that are not negative, a tuple of strings lists the values of
a str. Attributes:

    strides, dilations, kernel      (vertical, horizontal)
    pads of Conv and the pools      (top, left, bottom, right), >= 0; SAME, VALID and ceil_mode are resolved into them
    pads of ConvTranspose           (top, left, bottom, right) cut off the full result; a negative one adds zeros
    output_padding                  (bottom, right) added to the result: outputs that no pad has cut off
    gate, cell, out                 functions of a recurrent operator, and (alpha, beta) of each; clip of 0.0: none
    pads of Pad                     all begins, then all ends, one for each axis
    starts, ends, axes, steps       the indices range(start, end, step) are taken of each axis; clamped to the axis;
                                    axes ascending; with a negative step, end is -1 where index 0 is included
    axis, axes, perm                not negative; `axes` ascending
    sizes, scales of Resize         output (height, width); output/input scale of both as the model gave it

Activation parameters, both as attributes of the unary operator and of an operator that it is fused into:
clip: alpha = low, beta = high; leaky_relu, elu: alpha; hard_sigmoid: max(0, min(1, alpha * x + beta));
swish: x * sigmoid(alpha * x); selu: beta * elu(x; alpha); celu: alpha * elu(x / alpha; 1).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np

from runtime import shape_functions as shape_of
from runtime.attention import ATTRIBUTES as ATTENTION_ATTRIBUTES
from runtime.attention import attention_shape
from runtime.errors import ModelError, UnsupportedError
from runtime.functions import (
    CumulationFunction,
    ElementFunction,
    ReductionFunction,
    RegionFunction,
    UpdateFunction,
    function_names,
)
from runtime.generic import SHAPE_FUNCTIONS
from runtime.graph import ACTIVATIONS, Graph, Node, TensorInfo
from runtime.recurrence import DIRECTIONS, FUNCTION_NAMES
from runtime.shape_functions import Attributes, Shape, ShapeFunction
from runtime.types import ELEMENT_TYPES

AttributeKind = Literal["int", "count", "float", "bool", "ints", "pair", "sides", "floats"] | tuple[str, ...]
MacsFunction = Callable[[Sequence[Shape], Shape], int]

ACTIVATION_OF = {
    "Relu": "relu",
    "Clip": "clip",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "LeakyRelu": "leaky_relu",
    "Elu": "elu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "Gelu": "gelu",
    "GeluTanh": "gelu_tanh",
    "Swish": "swish",
    "Mish": "mish",
    "Selu": "selu",
    "Celu": "celu",
}
ACTIVATION_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "relu": (),
    "clip": ("alpha", "beta"),
    "sigmoid": (),
    "tanh": (),
    "leaky_relu": ("alpha",),
    "elu": ("alpha",),
    "hard_sigmoid": ("alpha", "beta"),
    "hard_swish": (),
    "gelu": (),
    "gelu_tanh": (),
    "swish": ("alpha",),
    "mish": (),
    "selu": ("alpha", "beta"),
    "celu": ("alpha",),
}
ACTIVATION_ATTRIBUTES: Mapping[str, AttributeKind] = {"activation": ACTIVATIONS, "alpha": "float", "beta": "float"}

BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
UNARY = (
    *(*ACTIVATION_OF, "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Floor", "Ceil", "Erf", "Identity"),
    *("Round", "Softplus", "Sin", "Cos"),
)
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")

PAD_MODES = ("constant", "reflect", "edge")
RESIZE_MODES = ("nearest", "linear")
RESIZE_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
RESIZE_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _is_ints(value: Any, least: int | None = None, length: int | None = None) -> bool:
    return (
        type(value) is tuple
        and all(type(item) is int and (least is None or item >= least) for item in value)
        and length in (None, len(value))
    )


_FITS: Mapping[AttributeKind, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "count": lambda value: type(value) is int and value >= 1,
    "float": lambda value: type(value) is float,
    "bool": lambda value: type(value) is bool,
    "ints": _is_ints,
    "pair": lambda value: _is_ints(value, 1, 2),
    "sides": lambda value: _is_ints(value, 0, 4),
    "floats": lambda value: type(value) is tuple and all(type(item) is float for item in value),
}


def fits_kind(kind: AttributeKind, value: Any) -> bool:
    """Whether a value may stand in an attribute of a kind."""
    return value in kind if isinstance(kind, tuple) else _FITS[kind](value)


def _no_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return 0


@dataclasses.dataclass(frozen=True)
class CustomOperator:
    """What the row of a user's operator has beyond those of ours (runtime/custom makes it).

    Attributes:
        domain, name: the operator in ONNX files.
        defaults: values of attributes that a node may leave out.
        input_types, output_type: element types; "" for the output is the first input's.
        input_ranges: where noise for an input lies when the operator is tried alone.
        data_format: `fixed`, `transposable` or `source`: what its axes mean (see farm.operators).
    """

    domain: str
    name: str
    defaults: Mapping[str, Any]
    input_types: tuple[str, ...]
    output_type: str
    input_ranges: tuple[tuple[float, float], ...]
    data_format: str


@dataclasses.dataclass(frozen=True)
class Operator:
    """What holds for every node of one operator.

    `inputs`: least and most inputs (None: no limit). `fusible`: takes activation attributes. `macs`: input shapes and
    output shape -> multiply-accumulates. `custom`: what a user's operator has beyond that.
    """

    inputs: tuple[int, int | None]
    shape: ShapeFunction
    attributes: Mapping[str, AttributeKind] = dataclasses.field(default_factory=dict)
    fusible: bool = False
    macs: MacsFunction = _no_macs
    custom: CustomOperator | None = None


def _recurrent_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(shapes[0]) * shapes[1][1]


def _conv_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * math.prod(shapes[1][1:])


def _conv_transpose_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(shapes[0]) * math.prod(shapes[1][1:])


def _matmul_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * shapes[0][-1]


_WINDOW: Mapping[str, AttributeKind] = {"kernel": "pair", "strides": "pair", "pads": "sides"}
_CONV: Mapping[str, AttributeKind] = {"strides": "pair", "pads": "sides", "dilations": "pair", "group": "count"}
_CONV_TRANSPOSE: Mapping[str, AttributeKind] = {**_CONV, "pads": "ints", "output_padding": "ints"}
_SLICE: Mapping[str, AttributeKind] = {"starts": "ints", "ends": "ints", "axes": "ints", "steps": "ints"}
_LRN: Mapping[str, AttributeKind] = {"alpha": "float", "beta": "float", "bias": "float", "size": "count"}
_LAYER_NORMALIZATION: Mapping[str, AttributeKind] = {"axes": "ints", "epsilon": "float", "centered": "bool"}
_GROUP_NORMALIZATION: Mapping[str, AttributeKind] = {"groups": "count", "epsilon": "float"}
_PAD: Mapping[str, AttributeKind] = {"pads": "ints", "value": "float", "mode": PAD_MODES}
_RESIZE: Mapping[str, AttributeKind] = {
    "mode": RESIZE_MODES,
    "coordinate_transformation_mode": RESIZE_COORDINATES,
    "nearest_mode": RESIZE_ROUNDING,
    "sizes": "pair",
    "scales": "floats",
}


_RECURRENT: Mapping[str, AttributeKind] = {
    "direction": tuple(DIRECTIONS),
    **dict.fromkeys(("gate", "cell", "out"), FUNCTION_NAMES),
    **dict.fromkeys(("gate_parameters", "cell_parameters", "out_parameters"), "floats"),
    "clip": "float",
}


def _unary(op: str) -> Operator:
    parameters = ACTIVATION_PARAMETERS[ACTIVATION_OF.get(op, "none")]
    return Operator((1, 1), shape_of.same, dict.fromkeys(parameters, "float"))


DTYPES = tuple(ELEMENT_TYPES)
_INDEXED: Mapping[str, AttributeKind] = {
    **dict.fromkeys(("shape", "strides", "index_strides", "limits", "limit_strides"), "ints"),
    "component_stride": "int",
}


def _generic(op: str, inputs: tuple[int, int | None], **kinds: AttributeKind) -> Operator:
    """A row of an operator of runtime/generic.py."""
    macs = _product_macs if op == "StridedProduct" else _no_macs
    return Operator(inputs, SHAPE_FUNCTIONS[op], kinds, macs=macs)


def _product_macs(shapes: Sequence[Shape], output: Shape) -> int:
    """An estimate for a product of matrices: the loops are not known from the shapes alone."""
    return math.prod(output) * (shapes[0][-1] if shapes[0] else 1)


_GENERIC: Mapping[str, Operator] = {
    "Elementwise": _generic(
        "Elementwise", (1, 3), function=function_names(ElementFunction), dtype=DTYPES, alpha="float", beta="float"
    ),
    "Strided": _generic("Strided", (1, 1), shape="ints", strides="ints", offset="int"),
    "Embedding": _generic("Embedding", (1, 1), shape="ints", starts="ints", steps="ints", value="float"),
    "Join": _generic("Join", (1, None), axis="int"),
    "StridedReduction": _generic(
        *("StridedReduction", (1, 1)),
        function=function_names(ReductionFunction),
        dtype=DTYPES,
        shape="ints",
        window="ints",
        strides="ints",
        offset="int",
    ),
    "StridedProduct": _generic(
        *("StridedProduct", (2, 2)), shape="ints", summed="ints", a_strides="ints", b_strides="ints"
    ),
    "Cumulation": _generic(
        "Cumulation", (1, 1), function=function_names(CumulationFunction), axis="int", exclusive="bool", reverse="bool"
    ),
    "IndexedRead": Operator((2, 2), SHAPE_FUNCTIONS["IndexedRead"], _INDEXED),
    "IndexedWrite": Operator(
        (3, 3), SHAPE_FUNCTIONS["IndexedWrite"], {**_INDEXED, "function": function_names(UpdateFunction)}
    ),
    "Sorting": _generic("Sorting", (1, 1), axis="int", count="count", largest="bool", positions="bool"),
    "Suppression": _generic("Suppression", (4, 4), count="count", centred="bool", dtype=DTYPES),
    "RegionPooling": _generic(
        *("RegionPooling", (3, 3)),
        function=function_names(RegionFunction),
        bins="pair",
        samples="int",
        scale="float",
        shift="float",
        smallest="float",
        grouped="bool",
    ),
}

# Users' operators are added by runtime/custom/registry.py.
OPERATORS: dict[str, Operator] = {
    **_GENERIC,
    "Conv": Operator((2, 4), shape_of.conv, _CONV, fusible=True, macs=_conv_macs),
    "ConvTranspose": Operator(
        (2, 4), shape_of.conv_transpose, _CONV_TRANSPOSE, fusible=True, macs=_conv_transpose_macs
    ),
    "FullyConnected": Operator((2, 3), shape_of.fully_connected, fusible=True, macs=_matmul_macs),
    "RNN": Operator((3, 3), shape_of.recurrent("RNN"), _RECURRENT, macs=_recurrent_macs),
    "GRU": Operator(
        (3, 5), shape_of.recurrent("GRU"), {**_RECURRENT, "linear_before_reset": "bool"}, macs=_recurrent_macs
    ),
    "LSTM": Operator((4, 5), shape_of.recurrent("LSTM"), {**_RECURRENT, "input_forget": "bool"}, macs=_recurrent_macs),
    "MatMul": Operator((2, 2), shape_of.matmul, macs=_matmul_macs),
    "BatchNormalization": Operator((3, 3), shape_of.scale_shift, fusible=True),
    "MaxPool": Operator((1, 1), shape_of.pool, _WINDOW),
    "AveragePool": Operator((1, 1), shape_of.pool, {**_WINDOW, "count_include_pad": "bool"}),
    **{op: Operator((2, 2), shape_of.broadcast, fusible=True) for op in BINARY},
    **{op: _unary(op) for op in UNARY},
    "PRelu": Operator((2, 2), shape_of.broadcast_to_first),
    "LRN": Operator((1, 1), shape_of.same, _LRN),
    **{op: Operator((1, 1), shape_of.same_with_axis, {"axis": "int"}) for op in ("Softmax", "LogSoftmax")},
    "LayerNormalization": Operator((1, 3), shape_of.layer_normalization, _LAYER_NORMALIZATION, fusible=True),
    "GroupNormalization": Operator((1, 3), shape_of.group_normalization, _GROUP_NORMALIZATION, fusible=True),
    "Attention": Operator((3, 4), attention_shape, ATTENTION_ATTRIBUTES),
    "Concat": Operator((1, None), shape_of.concat, {"axis": "int"}),
    "Slice": Operator((1, 1), shape_of.sliced, _SLICE),
    "Pad": Operator((1, 1), shape_of.pad, _PAD),
    "Transpose": Operator((1, 1), shape_of.transpose, {"perm": "ints"}),
    "Reshape": Operator((1, 1), shape_of.reshape, {"shape": "ints"}),
    "Resize": Operator((1, 1), shape_of.resize, _RESIZE),
    "ChannelShuffle": Operator((1, 1), shape_of.shuffle, {"group": "count"}),
    **{op: Operator((1, 1), shape_of.reduce, {"axes": "ints", "keepdims": "bool"}) for op in REDUCTIONS},
}


def infer_shape(op: str, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Infers an operator's output shape; an absent optional input has shape (). Raises ModelError for misfits."""
    operator = OPERATORS[op]
    least, most = operator.inputs
    if len(shapes) < least or (most is not None and len(shapes) > most):
        raise ModelError(f"{len(shapes)} input(s); {least} to {'any number' if most is None else most} are supported")
    return operator.shape(shapes, attributes)


def infer_dtype(op: str, dtypes: Sequence[np.dtype[Any]], attributes: Attributes) -> np.dtype[Any]:
    """Element type of an operator's output: what an attribute or a user says, else the first input's."""
    if custom := OPERATORS[op].custom:
        return np.dtype(custom.output_type) if custom.output_type else dtypes[0]
    if "dtype" in attributes:
        return np.dtype(attributes["dtype"])
    return np.dtype(np.int64) if attributes.get("positions") else dtypes[0]


def node_macs(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of one run of a node."""
    return OPERATORS[node.op].macs(input_shapes(graph, node), graph.shape(node.outputs[0]))


def input_shapes(graph: Graph, node: Node) -> list[Shape]:
    """Shapes of a node's inputs, () for an absent one."""
    return [graph.shape(name) if name else () for name in node.inputs]


def check_graph(graph: Graph) -> None:
    """Raises ModelError unless the graph keeps every rule: order, operators, attributes, shapes and constants."""
    defined = {*graph.inputs, *graph.constants}
    for name, value in graph.constants.items():
        if graph.tensors[name] != TensorInfo(tuple(value.shape), value.dtype):
            raise ModelError(f"constant '{name}' is not of the shape and type that the graph says")
    for node in graph.nodes:
        try:
            _check_node(graph, node, defined)
        except ModelError as error:
            raise type(error)(f"node '{node.name}' ({node.op}): {error}") from None
        defined.update(node.outputs)
    missing = [name for name in graph.outputs if name not in defined]
    if missing:
        raise ModelError(f"output '{missing[0]}' is computed by no node")
    for name in graph.outputs:
        _check_elements(graph, name)


def _check_node(graph: Graph, node: Node, defined: set[str]) -> None:
    if node.op not in OPERATORS:
        raise ModelError("no such operator in a graph")
    for name in node.inputs:
        if name and name not in defined:
            raise ModelError(f"nothing before it computes its input '{name}'")
    if node.output in defined:
        raise ModelError(f"tensor '{node.output}' is written twice")
    check_attributes(node.op, node.attrs)
    for name in filter(None, (*node.inputs, node.output)):
        _check_elements(graph, name)
    shape = infer_shape(node.op, input_shapes(graph, node), node.attrs)
    if shape != graph.shape(node.output):
        raise ModelError(f"output '{node.output}' has shape {graph.shape(node.output)}, not {shape}")
    dtype = infer_dtype(node.op, [graph.tensors[name].dtype for name in node.inputs if name], node.attrs)
    if dtype != graph.tensors[node.output].dtype:
        raise ModelError(f"output '{node.output}' holds {graph.tensors[node.output].dtype}, not {dtype}")


def _check_elements(graph: Graph, name: str) -> None:
    """Raises UnsupportedError for a tensor without elements: no device computes it."""
    if 0 in graph.shape(name):
        raise UnsupportedError(f"tensor '{name}' of shape {graph.shape(name)} has no elements; supported: at least one")


def check_attributes(op: str, attributes: Attributes) -> None:
    """Raises ModelError unless the attributes are exactly those of the operator, each of its kind."""
    expected = dict(OPERATORS[op].attributes)
    if OPERATORS[op].fusible and "activation" in attributes:
        parameters = ACTIVATION_PARAMETERS.get(attributes["activation"], ())
        expected |= {name: ACTIVATION_ATTRIBUTES[name] for name in ("activation", *parameters)}
    if expected.keys() != attributes.keys():
        raise ModelError(f"attributes are {sorted(attributes)}; {sorted(expected)} are expected")
    for name, kind in expected.items():
        value = attributes[name]
        if not fits_kind(kind, value):
            expects = ", ".join(kind) if isinstance(kind, tuple) else kind
            raise ModelError(f"attribute {name} is {value!r}; expected: {expects}")

"""Models of one operator on integers, whose source rounds by fixed point."""

import json
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runtime.graph import Array
from runtime.semantics.quantization import FIXED_POINT_BUT

X_STEP, X_ZERO, B_STEP, B_ZERO, Y_STEP, Y_ZERO = map(np.float32, (0.021, 5, 0.034, -9, 0.047, 11))
SHAPE = (1, 16, 8, 8)


def drawn_weights(*shape: int) -> dict[str, Array]:
    """Weights and biases of a convolution with their scales, for `model`."""
    random = np.random.default_rng(12)
    scales = random.uniform(0.004, 0.016, shape[0]).astype(np.float32)
    weights = random.integers(-127, 128, shape).astype(np.int8)
    return {"w": weights, "ws": scales, "c": random.integers(-4000, 4000, shape[0], np.int32), "cs": X_STEP * scales}


def model(
    op: str,
    weights: dict[str, Array],
    fixed: bool,
    shape: tuple[int, ...] = SHAPE,
    keeps_steps: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """An operator on int8 `x`, and on int8 `b` where it takes two, between their real values and int8 `y`.

    `weights`: and other constants by name, such as the step and zero point of y. `fixed`: the source rounds by fixed
    point. `keeps_steps`: y has those of x.
    """
    constants = {"xs": X_STEP, "xz": np.int8(X_ZERO), "bs": B_STEP, "bz": np.int8(B_ZERO)}
    constants |= {"ys": X_STEP if keeps_steps else Y_STEP, "yz": np.int8(X_ZERO if keeps_steps else Y_ZERO), **weights}
    names = ["x", "b"] if op in ("Add", "Sub", "Mul") else ["x"]
    nodes = [helper.make_node("DequantizeLinear", [n, f"{n}s", f"{n}z"], [f"{n}r"]) for n in names]
    nodes += [helper.make_node("DequantizeLinear", [n, f"{n}s"], [f"{n}r"], axis=0) for n in ("w", "c") if n in weights]
    reads = [f"{n}r" for n in (*names, *(n for n in ("w", "c") if n in weights))]
    nodes.append(helper.make_node(op, reads, ["r"], **attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["r", "ys", "yz"], ["y"]))
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT8, shape) for n in names]
    output = helper.make_tensor_value_info("y", TensorProto.INT8, None)
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    made = helper.make_model(
        helper.make_graph(nodes, op, inputs, [output], values),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    if fixed:
        made.metadata_props.add(key=FIXED_POINT_BUT, value=json.dumps([]))
    return made

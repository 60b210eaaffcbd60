"""Writes gated.onnx: two convolutions, one of which gates the other by com.acme::GatedActivation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIZE = 16, 24


def model() -> onnx.ModelProto:
    """The network, with seeded weights."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.normal(0, 0.3, (CHANNELS, 3, 3, 3)).astype(np.float32), name)
        for name in ("value_weights", "gate_weights")
    ]
    nodes = [
        helper.make_node("Conv", ["image", "value_weights"], ["value"], "value", pads=[1] * 4),
        helper.make_node("Conv", ["image", "gate_weights"], ["gate"], "gate", pads=[1] * 4),
        helper.make_node("GatedActivation", ["value", "gate"], ["gated"], "gated", domain="com.acme", alpha=1.5),
        helper.make_node("GlobalAveragePool", ["gated"], ["features"], "pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "gated",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, CHANNELS, 1, 1])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


if __name__ == "__main__":
    onnx.save(model(), str(Path(__file__).with_name("gated.onnx")))

"""Tiny ONNX models and deployment files for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def tiny_model(batch: str | int = "N", weights: np.ndarray | None = None, op: str = "Relu") -> onnx.ModelProto:
    """x [N,3,8,8] -> Conv (conv) -> `op` (act) -> global average pool -> flatten -> Gemm -> y [N,5]."""
    random = np.random.default_rng(3)
    filters = random.normal(0, 0.3, (4, 3, 3, 3)) if weights is None else weights
    constants = {
        "w": filters,
        "b": random.normal(0, 0.1, 4),
        "dense": random.normal(0, 1, (5, 4)),
        "shift": random.normal(0, 1, 5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(op, ["conv"], ["act"], "act"),
        helper.make_node("GlobalAveragePool", ["act"], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "dense", "shift"], ["y"], "gemm", transB=1),
    ]
    return model_of(
        nodes,
        [helper.make_tensor_value_info("x", FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", FLOAT, [batch, 5])],
        constants,
    )


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray] | None = None,
    ir_version: int = 8,
) -> onnx.ModelProto:
    """A model of opset 13."""
    values = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=ir_version)


def deployment_text(
    shape: str = "1,3,8,8", runtime: str = "gpu", data_type: str = "fp32_fp32", outputs: str = "[y]", **more: str
) -> str:
    """A deployment file of tiny.onnx beside it; `more` are keys of the model, or of the subgraph when they start so."""
    in_subgraph = ("input_", "output_", "check_", "validation_inputs")
    lines = "".join(f"\n        {key}: {value}" for key, value in more.items() if key.startswith(in_subgraph))
    keys = "".join(f"\n    {key}: {value}" for key, value in more.items() if not key.startswith(in_subgraph))
    return f"""library_name: tinylib
target_abis: [host]
models:
  tiny:
    platform: onnx
    model_file_path: tiny.onnx
    subgraphs:
      - input_tensors: [x]
        input_shapes: ["{shape}"]
        output_tensors: {outputs}{lines}
    runtime: {runtime}
    data_type: {data_type}{keys}
"""


def write_deployment(folder: Path, model: onnx.ModelProto | bytes | None = None, **keys: str) -> Path:
    """Writes tiny.onnx (unless it is empty bytes) and tiny.yml; returns the latter."""
    content = tiny_model() if model is None else model
    content = content if isinstance(content, bytes) else content.SerializeToString()
    if content:
        (folder / "tiny.onnx").write_bytes(content)
    path = folder / "tiny.yml"
    path.write_text(deployment_text(**keys))
    return path

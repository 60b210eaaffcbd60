"""One network in each form that ONNX has for a quantised one, written by ONNX Runtime and by farm."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType

from farm.model.reference_process import ReferenceProcess
from farm.quantization import layers, qdq
from tests.farm.model.tiny_model import FLOAT, model_of

SHAPE = (1, 3, 16, 16)
SAMPLES = 4


def network() -> onnx.ModelProto:
    """A network with one of each operator that ONNX Runtime's quantiser has an operator of its own for."""
    random = np.random.default_rng(4)
    constants = {
        "w": random.normal(0, 0.3, (8, 3, 3, 3)),
        "b": random.normal(0, 0.1, 8),
        "w1": random.normal(0, 0.3, (8, 16, 1, 1)),
        "dense": random.normal(0, 1, (5, 8)),
        "shift": random.normal(0, 1, 5),
    }
    steps: list[tuple[str, str, str, dict[str, Any]]] = [
        ("Conv", "x w b", "conv", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("Relu", "conv", "relu", {}),
        ("LeakyRelu", "conv", "leaky", {"alpha": 0.1}),
        ("Sigmoid", "conv", "gate", {}),
        ("Mul", "relu gate", "gated", {}),
        ("Add", "gated leaky", "sum", {}),
        ("Concat", "sum relu", "joined", {"axis": 1}),
        ("AveragePool", "joined", "pooled", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", "pooled w1", "mixed", {}),
        ("GlobalAveragePool", "mixed", "mean", {}),
        ("Flatten", "mean", "flat", {}),
        ("Gemm", "flat dense shift", "scores", {"transB": 1}),
        ("Softmax", "scores", "y", {"axis": 1}),
    ]
    nodes = [helper.make_node(op, reads.split(), [y], y, **attributes) for op, reads, y, attributes in steps]
    ends = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("x", SHAPE), ("y", (1, 5)))]
    return model_of(nodes, ends[:1], ends[1:], constants)


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Seeded images."""

    def __init__(self) -> None:
        random = np.random.default_rng(6)
        self._images = iter([{"x": random.uniform(-1, 1, SHAPE).astype(np.float32)} for _ in range(SAMPLES)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._images, None)


def _written(write: Callable[[str, str], None]) -> onnx.ModelProto:
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "float.onnx"), Path(folder, "made.onnx")
        onnx.save(network(), source)
        write(str(source), str(made))
        return onnx.load(made)


def _static(kind: QuantFormat, activations: QuantType, per_channel: bool = False) -> onnx.ModelProto:
    kinds = {"activation_type": activations, "weight_type": QuantType.QInt8, "per_channel": per_channel}
    return _written(lambda a, b: quantization.quantize_static(a, b, Samples(), quant_format=kind, **kinds))


def _weights_of_four_bits() -> onnx.ModelProto:
    model = layers.float_model(network(), ReferenceProcess(), layers.INT4_OPSET)
    return qdq.weights_only(model, layers.layers_of(model, layers.WEIGHTED), "int4")


FORMS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "qdq": lambda: _static(QuantFormat.QDQ, QuantType.QUInt8),
    "qdq_signed_per_channel": lambda: _static(QuantFormat.QDQ, QuantType.QInt8, per_channel=True),
    "qdq_sixteen_bits": lambda: _static(QuantFormat.QDQ, QuantType.QInt16),
    "qoperator": lambda: _static(QuantFormat.QOperator, QuantType.QUInt8),
    "dynamic": lambda: _written(lambda a, b: quantization.quantize_dynamic(a, b)),
    "weights_of_four_bits": _weights_of_four_bits,
}

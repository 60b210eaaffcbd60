"""Models that PT2E quantised: PyTorch's operators of it (`quantized_decomposed`), and what each is in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto
from onnxscript import opset18 as op
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - declares the operators, without which no file loads

from runtime.errors import ModelError

Tensor = Any

_EIGHT_BITS = (TensorProto.INT8, TensorProto.UINT8)  # all that QuantizeLinear of this opset writes


def _constant(value: float, kind: int = TensorProto.FLOAT) -> Tensor:
    return op.Constant(value=onnx.helper.make_tensor("", kind, (), [value]))


def _quantize(x: Tensor, scale: Tensor, zero: Tensor, least: int, most: int, kind: int) -> Tensor:
    """Limits that are narrower than the type clip the floats, so that nothing stands between integers and floats."""
    zero_f = op.Cast(zero, to=TensorProto.FLOAT)
    if kind not in _EIGHT_BITS:
        steps = op.Add(op.Round(op.Div(x, scale)), zero_f)
        return op.Cast(op.Clip(steps, _constant(least), _constant(most)), to=kind)
    limits = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(kind))
    if (least, most) != (limits.min, limits.max):
        x = op.Clip(x, *(op.Mul(op.Sub(_constant(end), zero_f), scale) for end in (least, most)))
    return op.QuantizeLinear(x, scale, op.Cast(zero, to=kind))


def _dequantize(x: Tensor, scale: Tensor, zero: Tensor, kind: int) -> Tensor:
    if kind in (*_EIGHT_BITS, TensorProto.INT32):
        return op.DequantizeLinear(x, scale, op.Cast(zero, to=kind))
    return op.Mul(op.Sub(op.Cast(x, to=TensorProto.FLOAT), op.Cast(zero, to=TensorProto.FLOAT)), scale)


def quantize_per_tensor(x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: int) -> Tensor:
    """By numbers that the file holds."""
    zero = _constant(zero_point, TensorProto.INT64)
    return _quantize(x, _constant(scale), zero, quant_min, quant_max, dtype)


def dequantize_per_tensor(
    x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: int, out_dtype: int = -1
) -> Tensor:
    """By numbers that the file holds."""
    return _dequantize(x, _constant(scale), _constant(zero_point, TensorProto.INT64), dtype)


def quantize_by_tensors(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: int
) -> Tensor:
    """By numbers that are computed."""
    scale = op.Cast(op.Squeeze(scale), to=TensorProto.FLOAT)
    return _quantize(x, scale, op.Squeeze(zero_point), quant_min, quant_max, dtype)


def dequantize_by_tensors(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: int, out_dtype: int = -1
) -> Tensor:
    """By numbers that are computed."""
    return _dequantize(x, op.Cast(op.Squeeze(scale), to=TensorProto.FLOAT), op.Squeeze(zero_point), dtype)


def quantize_per_channel(
    x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: int
) -> Tensor:
    """Each index of an axis by its own numbers."""
    scales = op.Cast(scales, to=TensorProto.FLOAT)
    whole = op.QuantizeLinear(x, scales, op.Cast(zero_points, to=dtype), axis=axis)
    return op.Clip(whole, _constant(quant_min, dtype), _constant(quant_max, dtype))


def dequantize_per_channel(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: int,
    out_dtype: int = -1,
) -> Tensor:
    """Each index of an axis by its own numbers."""
    given = [op.Cast(zero_points, to=dtype)] if zero_points is not None else []
    return op.DequantizeLinear(x, op.Cast(scales, to=TensorProto.FLOAT), *given, axis=axis)


def choose_qparams(x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: int) -> tuple[Tensor, Tensor]:
    """Scale and zero point of the range that a tensor has, with 0 in it."""
    low = op.Min(op.ReduceMin(x, keepdims=0), _constant(0.0))
    high = op.Max(op.ReduceMax(x, keepdims=0), _constant(0.0))
    scale = op.Max(op.Div(op.Sub(high, low), _constant(quant_max - quant_min)), _constant(eps))
    steps = op.Sub(_constant(quant_min), op.Round(op.Div(low, scale)))
    zero = op.Clip(steps, _constant(quant_min), _constant(quant_max))
    return scale, op.Cast(zero, to=TensorProto.INT64)


def check_steps(found: Any) -> None:
    """Raises ModelError where a scale or zero point that the program holds makes no sense; Cast would wrap it round."""
    signature, tensors = found.graph_signature, {**found.state_dict, **found.constants}
    held = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    for node in (node for node in found.graph.nodes if node.target in _WITH_STEPS):
        scale, zero = (_numbers(tensors, held, argument) for argument in node.args[1:3])
        info = torch.iinfo(node.args[6 if node.target in _PER_CHANNEL else 5])
        if (wrong := scale[~(np.isfinite(scale) & (scale > 0))]).size:
            raise ModelError(
                f"node '{node.name}': scale {wrong[0]:g}; a positive number is needed, so quantise it again"
            )
        if (wrong := zero[(zero < info.min) | (zero > info.max)]).size:
            text = f"zero point {wrong[0]:g} lies outside of {info.min} to {info.max}"
            raise ModelError(f"node '{node.name}': {text}, so quantise it again")


def _numbers(tensors: Mapping[str, Any], held: Mapping[str, str], argument: Any) -> Any:
    """What an argument holds; nothing where it is computed, or missing."""
    if isinstance(argument, int | float):
        return np.array([argument], np.float64)
    value = tensors.get(held.get(getattr(argument, "name", ""), ""))
    return np.zeros(0) if value is None else value.numpy(force=True).reshape(-1).astype(np.float64)


_OWN = torch.ops.quantized_decomposed
_PER_CHANNEL = (_OWN.quantize_per_channel.default, _OWN.dequantize_per_channel.default)
_WITH_STEPS = (*_PER_CHANNEL, _OWN.quantize_per_tensor.default, _OWN.dequantize_per_tensor.default)


def translations() -> Mapping[Any, Callable[..., Any]]:
    """What the exporter calls for each operator."""
    return {
        _OWN.quantize_per_tensor.default: quantize_per_tensor,
        _OWN.quantize_per_tensor.tensor: quantize_by_tensors,
        _OWN.quantize_per_tensor.tensor2: quantize_by_tensors,
        _OWN.dequantize_per_tensor.default: dequantize_per_tensor,
        _OWN.dequantize_per_tensor.tensor: dequantize_by_tensors,
        _OWN.dequantize_per_tensor.tensor2: dequantize_by_tensors,
        _OWN.quantize_per_channel.default: quantize_per_channel,
        _OWN.dequantize_per_channel.default: dequantize_per_channel,
        _OWN.choose_qparams.tensor: choose_qparams,
    }

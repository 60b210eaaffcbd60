"""Executes plans on blocked activations in NumPy, step by step on the plan's memory: the oracle of farmrt's operators.

It knows the blocked operators and the element-wise ones and copies between them, and computes in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime.errors import UnsupportedError
from runtime.graph import Array
from runtime.kernels.codes import Binary, Order, Pad, Pooling
from runtime.layout.blocked import blocked_shape, to_blocked
from runtime.layout.winograd import INPUT_TRANSFORM, OUTPUT_TRANSFORM
from runtime.plan.plan import Plan, Step
from runtime.plan.records import ArgKind, PoolKind
from runtime.semantics.unary import FUNCTIONS
from tests.runtime.unpacked import from_blocked, unpack_rows

Floats = Mapping[str, float]


class BlockedExecutor:
    """A plan of CPU steps, and its memory; what was never written is NaN."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        data = bytes(plan.data)
        self._pools = [
            np.frombuffer(data, np.float32, pool.size // 4, pool.data_offset)
            if pool.kind == PoolKind.WEIGHTS
            else np.full(-(-pool.size // 4), np.nan, np.float32)
            for pool in plan.pools
        ]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name for float32 inputs; raises UnsupportedError for a step that it does not know."""
        for tensor in self._plan.inputs:
            values = inputs[tensor.name].reshape(-1)
            self._pools[tensor.place][tensor.offset : tensor.offset + values.size] = values
        for step in self._plan.steps:
            if step.kernel.name not in _OPERATORS:
                raise UnsupportedError(f"step '{step.name}': {step.kernel.name} is not known to this executor")
            _OPERATORS[step.kernel.name](_Call(step, self._pools))
        return {
            tensor.name: self._pools[tensor.place][tensor.offset :][: math.prod(tensor.shape)].reshape(tensor.shape)
            for tensor in self._plan.outputs
        }


class _Call:
    """A step's arguments by name: tensors as all memory from their first element on."""

    def __init__(self, step: Step, pools: list[Array]) -> None:
        args = iter(step.args)
        self.memory: dict[str, Array] = {}
        for name, _ in step.kernel.tensors:
            pool, offset = next(args), next(args)
            assert pool.kind == ArgKind.POOL
            self.memory[name] = pools[int(pool.value)][int(offset.value) :]
        self.dims = step.dims
        self.floats = dict(
            zip(step.kernel.floats, [float(a.value) for a in step.args if a.kind == ArgKind.FLOAT], strict=True)
        )
        self.defines = step.defines
        self.block = step.defines.get("BLOCK", 0)

    def image(self, name: str, channels: int, height: int, width: int) -> Array:
        """A blocked tensor in origin order."""
        shape = (self.dims["batch"], channels, height, width)
        size = math.prod(blocked_shape(shape, self.block))
        return from_blocked(self.memory[name][:size], shape, self.block).astype(np.float64)

    def put(self, values: Array) -> None:
        """Writes the output in blocks, zeros behind the channels."""
        memory = to_blocked(values.astype(np.float32), self.block)
        self.memory["y"][: memory.size] = memory

    def finish(self, values: Array) -> None:
        """Bias, residual, activation."""
        dims, channels = self.dims, values.shape[1]
        values = values + self.memory["b"][:channels].astype(np.float64)[:, None, None]
        if self.defines["RESIDUAL"]:
            values = values + self.image("residual", channels, dims["out_h"], dims["out_w"])
        self.put(_activated(values, self.defines["ACTIVATION"], self.floats["act_a"], self.floats["act_b"]))


def _activated(v: Array, code: int, a: float, b: float) -> Array:
    return FUNCTIONS[code].computed(v, {"alpha": a, "beta": b})


def _windows(x: Array, dims: Mapping[str, int], fill: float) -> Array:
    """What lies under each tap of each window: [n, c, k_h, k_w, out_h, out_w]; `fill` in the padding."""
    n, c = x.shape[:2]
    found = np.full((n, c, dims["k_h"], dims["k_w"], dims["out_h"], dims["out_w"]), fill)
    for i, j in np.ndindex(dims["k_h"], dims["k_w"]):
        rows = np.arange(dims["out_h"]) * dims["stride_h"] - dims["pad_t"] + i * dims["dil_h"]
        columns = np.arange(dims["out_w"]) * dims["stride_w"] - dims["pad_l"] + j * dims["dil_w"]
        h, w = (rows >= 0) & (rows < x.shape[2]), (columns >= 0) & (columns < x.shape[3])
        found[:, :, i, j][:, :, *np.ix_(h, w)] = x[:, :, *np.ix_(rows[h], columns[w])]
    return found


def _input(call: _Call) -> Array:
    dims = call.dims
    channels = dims.get("groups", 1) * dims.get("in_c", dims.get("channels", 0))
    if not call.defines.get("FIRST"):
        return call.image("x", channels, dims["in_h"], dims["in_w"])
    shape = (dims["batch"], channels, dims["in_h"], dims["in_w"])
    return call.memory["x"][: math.prod(shape)].reshape(shape).astype(np.float64)


def _conv2d(call: _Call) -> None:
    dims, groups, in_c, out_c = call.dims, *(call.dims[name] for name in ("groups", "in_c", "out_c"))
    taps = dims["k_h"] * dims["k_w"]
    filters = _weights(call, groups, out_c, taps * in_c).reshape(groups, out_c, dims["k_h"], dims["k_w"], in_c)
    windows = _windows(_input(call), dims, 0.0)
    windows = windows.reshape(dims["batch"], groups, in_c, *windows.shape[2:])
    y = np.einsum("gokli,ngiklhw->ngohw", filters, windows)
    call.finish(y.reshape(dims["batch"], groups * out_c, dims["out_h"], dims["out_w"]))


def _weights(call: _Call, groups: int, rows: int, cols: int) -> Array:
    blocks = -(-rows // call.block)
    packed = call.memory["w"][: groups * blocks * cols * call.block].astype(np.float64)
    return unpack_rows(packed, groups, rows, cols, call.block)


def _winograd(call: _Call) -> None:
    dims, tile = call.dims, call.defines["WINO"]
    alpha, out = tile + 2, (dims["out_h"], dims["out_w"])
    filters = _weights(call, alpha * alpha, dims["out_c"], dims["in_c"]).reshape(alpha, alpha, dims["out_c"], -1)
    tiles = [-(-size // tile) for size in out]
    x = _input(call)
    padded = np.zeros((*x.shape[:2], *(count * tile + 2 for count in tiles)))
    height, width = (min(x.shape[2 + i], padded.shape[2 + i] - dims[p]) for i, p in enumerate(("pad_t", "pad_l")))
    padded[:, :, dims["pad_t"] : dims["pad_t"] + height, dims["pad_l"] : dims["pad_l"] + width] = x[
        :, :, :height, :width
    ]
    y = np.zeros((x.shape[0], dims["out_c"], *(count * tile for count in tiles)))
    before, after = INPUT_TRANSFORM[tile], OUTPUT_TRANSFORM[tile]
    for i, j in np.ndindex(*tiles):
        d = padded[:, :, i * tile : i * tile + alpha, j * tile : j * tile + alpha]
        products = np.einsum("aboc,ncab->noab", filters, before @ d @ before.T)
        y[:, :, i * tile : (i + 1) * tile, j * tile : (j + 1) * tile] = after @ products @ after.T
    call.finish(y[:, :, : out[0], : out[1]])


def _depthwise(call: _Call) -> None:
    dims = call.dims
    filters = _weights(call, 1, dims["channels"], dims["k_h"] * dims["k_w"])[0].reshape(-1, dims["k_h"], dims["k_w"])
    call.finish(np.einsum("ckl,ncklhw->nchw", filters, _windows(_input(call), dims, 0.0)))


def _separable(call: _Call) -> None:
    dims, x = call.dims, _input(call)

    def inner(filters: str, x: Array, cols: tuple[int, ...]) -> Array:
        sums = np.einsum(filters, _next_rows(call, dims["channels"], cols), x)
        bias = _next(call, "b", dims["channels"])[: dims["channels"], None, None]
        return _activated(sums + bias, call.defines["INNER"], call.floats["inner_a"], call.floats["inner_b"])

    if call.defines["EXPAND"]:
        x = inner("oi,nihw->nohw", x, (dims["in_c"],))
    deep = inner("ckl,ncklhw->nchw", _windows(x, dims, 0.0), (dims["k_h"], dims["k_w"]))
    call.finish(np.einsum("oi,nihw->nohw", _next_rows(call, dims["out_c"], (dims["channels"],)), deep))


def _next_rows(call: _Call, rows: int, cols: tuple[int, ...]) -> Array:
    packed = _next(call, "w", rows, math.prod(cols))
    return unpack_rows(packed, 1, rows, math.prod(cols), call.block).reshape(rows, *cols)


def _next(call: _Call, name: str, rows: int, cols: int = 1) -> Array:
    """Takes what belongs to so many rows from the beginning of a constant."""
    size = -(-rows // call.block) * call.block * cols
    taken, call.memory[name] = np.split(call.memory[name], [size])
    return taken.astype(np.float64)


def _pool(call: _Call) -> None:
    dims = call.dims
    if call.defines["POOL"] == Pooling.MAX:
        call.put(_windows(_input(call), dims, -np.inf).max((2, 3)))
        return
    x = _input(call)
    ones = np.ones_like(x)
    count = _windows(ones, dims, 1.0 if dims["count_include_pad"] else 0.0).sum((2, 3))
    call.put(_windows(x, dims, 0.0).sum((2, 3)) / count)


def _global_pool(call: _Call) -> None:
    mean = _input(call).mean((2, 3)).astype(np.float32).reshape(-1)
    call.memory["y"][: mean.size] = mean


def _normalization(call: _Call) -> None:
    batch, channels, groups, pixels = (call.dims[name] for name in ("batch", "channels", "groups", "pixels"))
    x = call.image("x", channels, pixels, 1)
    grouped = x.reshape(batch, groups, -1)
    centred = grouped - grouped.mean(axis=2, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + call.floats["epsilon"])
    scale, shift = (call.memory[name][:channels, None, None] for name in "st")
    y = normal.reshape(x.shape) * scale + shift
    call.put(_activated(y, call.defines["ACTIVATION"], call.floats["act_a"], call.floats["act_b"]))


def _reorder(call: _Call) -> None:
    shape = tuple(call.dims[name] for name in ("batch", "channels", "h", "w"))
    n, c, h, w = shape
    source = call.memory["x"]
    if call.defines["FROM"] == Order.BLOCKED:
        values = from_blocked(source[: math.prod(blocked_shape(shape, call.block))], shape, call.block)
    elif call.defines["FROM"] == Order.NCHW:
        values = source[: n * c * h * w].reshape(shape)
    else:
        values = source[: n * c * h * w].reshape(n, h, w, c).transpose(0, 3, 1, 2)
    if call.defines["TO"] == Order.BLOCKED:
        call.put(values)
        return
    laid = values if call.defines["TO"] == Order.NCHW else values.transpose(0, 2, 3, 1)
    call.memory["y"][: laid.size] = laid.reshape(-1)


def _nest(call: _Call, name: str, prefix: str, rank: int) -> Array:
    extents = [call.dims[f"d{axis}"] for axis in range(rank)]
    strides = [4 * call.dims[f"{prefix}{axis}"] for axis in range(rank)]
    return as_strided(call.memory[name], extents, strides)


def _copy(call: _Call) -> None:
    _nest(call, "y", "ys", 6)[...] = _nest(call, "x", "xs", 6).copy()


def _unary(call: _Call) -> None:
    x = _nest(call, "x", "xs", 4).astype(np.float64)
    y = _activated(x, call.defines["UNARY"], call.floats["alpha"], call.floats["beta"])
    _nest(call, "y", "ys", 4)[...] = y


def _pad(call: _Call) -> None:
    rows = [[call.dims[f"{prefix}{axis}"] for axis in range(4)] for prefix in ("d", "i", "p", "xs", "ys")]
    extents, given, before, x_strides, y_strides = rows
    x = as_strided(call.memory["x"], given, [4 * step for step in x_strides])
    sides = [(b, wide - b - size) for wide, b, size in zip(extents, before, given, strict=True)]
    mode = Pad(call.defines["PAD"])
    filled = (
        np.pad(x, sides, constant_values=call.floats["value"])
        if mode == Pad.CONSTANT
        else np.pad(x, sides, _PADS[mode])
    )
    as_strided(call.memory["y"], extents, [4 * step for step in y_strides])[...] = filled


_PADS: Mapping[int, Any] = {Pad.REFLECT: "reflect", Pad.EDGE: "edge"}
_BINARY: Mapping[int, Callable[[Array, Array], Array]] = {
    Binary.ADD: np.add,
    Binary.SUB: np.subtract,
    Binary.MUL: np.multiply,
    Binary.DIV: np.divide,
    Binary.MAX: np.maximum,
    Binary.MIN: np.minimum,
}


def _binary(call: _Call) -> None:
    a, b = (_nest(call, name, f"{name}s", 4).astype(np.float64) for name in "ab")
    with np.errstate(divide="ignore", invalid="ignore"):  # lanes behind the last channel may be 0 / 0
        values = _BINARY[call.defines["BINARY"]](a, b)
    y = _activated(values, call.defines["ACTIVATION"], call.floats["act_a"], call.floats["act_b"])
    _nest(call, "y", "ys", 4)[...] = y


_OPERATORS: Mapping[str, Callable[[_Call], None]] = {
    "blocked_conv2d": _conv2d,
    "blocked_winograd": _winograd,
    "blocked_depthwise": _depthwise,
    "blocked_separable": _separable,
    "blocked_pool": _pool,
    "blocked_global_pool": _global_pool,
    "blocked_normalization": _normalization,
    "reorder": _reorder,
    "copy": _copy,
    "unary": _unary,
    "binary": _binary,
    "pad": _pad,
}

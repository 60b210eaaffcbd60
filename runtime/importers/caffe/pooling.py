"""Pooling, with Caffe's rule for the border: sizes are rounded up, and a window that starts in padding is dropped."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.windows import Pair, check_window, window_pair

MAX, AVERAGE = 0, 1
FLOOR = 1


def _pooling(layer: LayerImport) -> None:
    parameters = layer.parameters("pooling_param")
    shape = layer.expect_image()
    layer.expect(1)
    if parameters.pool not in (MAX, AVERAGE):
        raise layer.unsupported("pool is STOCHASTIC; supported: MAX and AVE")
    if parameters.global_pooling:
        op = "GlobalMaxPool" if parameters.pool == MAX else "GlobalAveragePool"
        layer.result(op, layer.inputs, (*shape[:2], 1, 1))
        return
    kernel = window_pair(layer, parameters, "kernel", parameters.kernel_size)
    strides = window_pair(layer, parameters, "stride", parameters.stride)
    pads = window_pair(layer, parameters, "pad", parameters.pad)
    check_window(layer, kernel=kernel, stride=strides)
    check_window(layer, 0, pad=pads)
    if any(pad >= size for pad, size in zip(pads, kernel, strict=True)):
        raise layer.error(f"pad {pads[0]},{pads[1]} is not smaller than the kernel {kernel[0]},{kernel[1]}")
    layer.check_shape((*shape[:2], *(size + 2 * pad for size, pad in zip(shape[2:], pads, strict=True))))
    out = _outputs(layer, parameters, kernel, strides, pads)
    _emit(layer, parameters.pool == MAX, kernel, strides, pads, (*shape[:2], *out))


def _outputs(layer: LayerImport, parameters: Any, kernel: Pair, strides: Pair, pads: Pair) -> list[int]:
    """Output (height, width) by Caffe's rule, which drops a window only where any padding is given."""
    rounds_down = parameters.round_mode == FLOOR or not parameters.ceil_mode
    out = []
    for extent, window, stride, pad in zip(layer.shape()[2:], kernel, strides, pads, strict=True):
        room = extent + 2 * pad - window
        count = (room // stride if rounds_down else -(-room // stride)) + 1
        if any(pads) and (count - 1) * stride >= extent + pad:
            count -= 1
        if (count - 1) * stride >= extent + pad:
            raise layer.unsupported(f"its last window starts beyond the bottom of shape {layer.shape()}")
        out.append(count)
    return out


def _emit(layer: LayerImport, is_max: bool, kernel: Pair, strides: Pair, pads: Pair, shape: tuple[int, ...]) -> None:
    """The operator with explicit padding: the last windows reach `excess` beyond what the pads cover.

    An average divides by the elements of the window that lie in the bottom or its padding, not beyond.
    """
    x = layer.inputs[0]
    excess = [
        max(0, (count - 1) * stride + window - size - 2 * pad)
        for count, stride, window, size, pad in zip(shape[2:], strides, kernel, layer.shape()[2:], pads, strict=True)
    ]
    ends = [pad + more for pad, more in zip(pads, excess, strict=True)]
    window: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if is_max:
        layer.result("MaxPool", [x], shape, pads=[*pads, *ends], **window)
    elif not any(excess):
        layer.result("AveragePool", [x], shape, pads=[*pads, *pads], count_include_pad=1, **window)
    else:
        layer.result("AveragePool", [_padded(layer, x, pads)], shape, pads=[0, 0, *excess], **window)


def _padded(layer: LayerImport, tensor: str, pads: Sequence[int]) -> str:
    """The bottom with its zeros as elements, so that an average counts them."""
    if not any(pads):
        return tensor
    n, c, h, w = layer.shape_of(tensor)
    both = layer.constant("pads", [0, 0, *pads, 0, 0, *pads])
    return layer.step("Pad", [tensor, both], (n, c, h + 2 * pads[0], w + 2 * pads[1]))


LAYERS: Mapping[str, Handler] = {"Pooling": _pooling}

"""Interp (bilinear, corners aligned) and Upsample (nearest), layers of widely used forks."""

from collections.abc import Mapping
from typing import Any

from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.onnx_writer import MAX_ELEMENTS, Shape


def _interp(layer: LayerImport) -> None:
    """Bilinear resizing, after a crop by negative pads, to a given size, by factors, or to a second bottom's size."""
    parameters, shape = layer.parameters("interp_param"), layer.expect_image()
    layer.expect(2 if len(layer.inputs) == 2 else 1)
    if max(parameters.pad_beg, parameters.pad_end) > 0:
        raise layer.unsupported(f"pads are {parameters.pad_beg}, {parameters.pad_end}; supported: 0 or less, a crop")
    begin, end = -parameters.pad_beg, -parameters.pad_end
    size = (shape[2] - begin - end, shape[3] - begin - end)
    if min(size) < 1:
        raise layer.error(f"pads {parameters.pad_beg} and {parameters.pad_end} leave nothing of {shape}")
    x = layer.inputs[0] if (begin, end) == (0, 0) else _cropped(layer, begin, size)
    out = layer.shape(1)[2:] if len(layer.inputs) == 2 else _interpolated(layer, parameters, size)
    _resize(layer, x, out, mode="linear", coordinate_transformation_mode="align_corners")


def _cropped(layer: LayerImport, begin: int, size: tuple[int, int]) -> str:
    bounds = [[begin, begin], [begin + size[0], begin + size[1]], [2, 3]]
    names = [layer.constant(what, value) for what, value in zip(("starts", "ends", "axes"), bounds, strict=True)]
    return layer.step("Slice", [layer.inputs[0], *names], (*layer.shape()[:2], *size))


def _interpolated(layer: LayerImport, parameters: Any, size: tuple[int, int]) -> Shape:
    """Output (height, width): by the factors, of which shrinking comes first, or as given without any."""
    if min(parameters.zoom_factor, parameters.shrink_factor) < 1:
        raise layer.error("zoom_factor and shrink_factor must be at least 1")
    by_factor = parameters.HasField("zoom_factor") or parameters.HasField("shrink_factor")
    if not by_factor and parameters.height > 0 and parameters.width > 0:
        return parameters.height, parameters.width
    shrunk = [(extent - 1) // parameters.shrink_factor + 1 for extent in size]
    return tuple(extent + (extent - 1) * (parameters.zoom_factor - 1) for extent in shrunk)


def _upsample(layer: LayerImport) -> None:
    """Repeats each pixel `scale` times in both directions."""
    layer.expect(1)
    scale, shape = layer.parameters("upsample_param").scale, layer.expect_image()
    if scale < 1:
        raise layer.error(f"scale is {scale}; at least 1 is needed")
    out = (shape[2] * scale, shape[3] * scale)
    mode: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    _resize(layer, layer.inputs[0], out, mode="nearest", **mode)


def _resize(layer: LayerImport, tensor: str, size: Shape, **attributes: Any) -> None:
    shape = (*layer.shape()[:2], *size)
    if max(shape) > MAX_ELEMENTS or len(shape) != 4:
        raise layer.error(f"it cannot resize to {shape}")
    layer.result("Resize", [tensor, "", "", layer.constant("sizes", list(shape))], shape, **attributes)


LAYERS: Mapping[str, Handler] = {"Interp": _interp, "Upsample": _upsample}

"""The layers of detectors: PriorBox, whose boxes hang on shapes alone, and DetectionOutput."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from runtime.graph import Array
from runtime.importers.caffe.detection_output import detection_output
from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.windows import Pair

MAX_BOX_ELEMENTS = 2**24  # 4 million boxes; SSD has nine thousand in all
SAME_RATIO = 1e-6


def _prior_box(layer: LayerImport) -> None:
    """Boxes of (x low, y low, x high, y high) around each pixel, as parts of the image, and the variances of each."""
    layer.expect(2)
    parameters = layer.parameters("prior_box_param")
    height, width = layer.expect_image()[2:]
    sizes = list(_box_sizes(layer, parameters))
    if height * width * len(sizes) * 8 > MAX_BOX_ELEMENTS:
        raise layer.error(f"{len(sizes)} boxes for each pixel of a bottom of shape {layer.shape()} are too many")
    image = _image_size(layer, parameters)
    steps = _steps(parameters, image, (height, width))
    boxes = _boxes((height, width), steps, image, sizes, parameters.offset)
    if parameters.clip:
        boxes = np.clip(boxes, 0, 1)
    values = np.stack([boxes.reshape(-1), np.tile(_variances(layer, parameters), boxes.size // 4)])
    layer.result("Identity", [layer.constant("boxes", values[np.newaxis])])


def _box_sizes(layer: LayerImport, parameters: Any) -> Iterator[tuple[float, float]]:
    """(width, height) of the boxes of one pixel, in pixels of the image, in Caffe's order."""
    larger = list(parameters.max_size)
    if not parameters.min_size or min(parameters.min_size) <= 0:
        raise layer.error("min_size is missing or not positive")
    if larger and (len(larger) != len(parameters.min_size) or any(map(float.__le__, larger, parameters.min_size))):
        raise layer.error(f"max_size {larger} do not exceed min_size {list(parameters.min_size)}, one for one")
    ratios = _ratios(layer, parameters)
    for index, size in enumerate(parameters.min_size):
        yield size, size
        if larger:
            yield math.sqrt(size * larger[index]), math.sqrt(size * larger[index])
        for ratio in ratios:
            yield size * math.sqrt(ratio), size / math.sqrt(ratio)


def _ratios(layer: LayerImport, parameters: Any) -> list[float]:
    """The aspect ratios but 1, without doubles; each is followed by its inverse where `flip` says so."""
    found = [1.0]
    for ratio in parameters.aspect_ratio:
        if not 0 < ratio < math.inf:
            raise layer.error(f"aspect_ratio is {ratio:g}; a positive number is needed")
        if all(abs(ratio - other) >= SAME_RATIO for other in found):
            found += [ratio, 1 / ratio] if parameters.flip else [ratio]
    return found[1:]


def _image_size(layer: LayerImport, parameters: Any) -> Pair:
    """(height, width) of the image that the boxes are parts of: as given, or of the second bottom."""
    if parameters.img_h and parameters.img_w:
        return parameters.img_h, parameters.img_w
    if parameters.img_size:
        return parameters.img_size, parameters.img_size
    if len(layer.shape(1)) != 4:
        raise layer.error(f"its second bottom has shape {layer.shape(1)}; an image of four axes is needed")
    return layer.shape(1)[2:4]  # type: ignore[return-value]


def _steps(parameters: Any, image: Pair, size: Pair) -> tuple[float, float]:
    """(vertical, horizontal) distance of two pixels of the bottom in pixels of the image."""
    if parameters.step_h > 0 and parameters.step_w > 0:
        return parameters.step_h, parameters.step_w
    if parameters.step > 0:
        return parameters.step, parameters.step
    return image[0] / size[0], image[1] / size[1]


def _boxes(
    size: Pair, steps: tuple[float, float], image: Pair, sizes: list[tuple[float, float]], offset: float
) -> Array:
    """[height, width, boxes, 4]."""
    y = ((np.arange(size[0]) + offset) * steps[0])[:, np.newaxis, np.newaxis]
    x = ((np.arange(size[1]) + offset) * steps[1])[np.newaxis, :, np.newaxis]
    half = np.asarray(sizes) / 2
    corners = (x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1])
    shape = (*size, len(sizes))
    parts = [np.broadcast_to(corner, shape) / image[1 - at % 2] for at, corner in enumerate(corners)]
    return np.stack(parts, axis=-1)


def _variances(layer: LayerImport, parameters: Any) -> Array:
    given = list(parameters.variance) or [0.1]
    if len(given) not in (1, 4):
        raise layer.error(f"{len(given)} variances; one or four are needed")
    return np.asarray(given * 4 if len(given) == 1 else given)


LAYERS: Mapping[str, Handler] = {"DetectionOutput": detection_output, "PriorBox": _prior_box}

"""The layers of detectors: PriorBox, whose boxes hang on shapes alone, and DetectionOutput."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.graph import Array
from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.onnx_writer import Shape
from runtime.importers.caffe.windows import Pair

# DetectionOutput: decodes boxes, suppresses those that overlap a better one, and keeps the best of each image.
#
# Caffe writes as many rows as there are detections. Here there are `keep_top_k` for each image, or as many as there
# could be, and the rows behind the last detection hold -1. The nodes give that in ONNX Runtime too, where the number
# of boxes that NonMaxSuppression finds is what a run finds.


CORNER, CENTER_SIZE, CORNER_SIZE = 1, 2, 3
NOTHING = -3e38  # the score of no detection: below all others
BEHIND = 2**40  # the place of no detection: behind all others
COLUMNS = 7  # image, label, score, corners


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Images, boxes of each, the labels that count, and how many boxes are kept before and after suppression."""

    images: int
    boxes: int
    classes: int
    labels: tuple[int, ...]
    candidates: int
    kept: int

    @property
    def groups(self) -> int:
        """Suppressions: one for each label of each image."""
        return self.images * len(self.labels)


def detection_output(layer: LayerImport) -> None:
    """Writes the layer's nodes."""
    layer.expect(3)
    parameters = layer.parameters("detection_output_param")
    sizes = _sizes(layer, parameters)
    nodes = _Nodes(layer)
    groups = (sizes.groups, sizes.boxes)
    scores = nodes.reshape(layer.inputs[1], (sizes.images, sizes.boxes, sizes.classes))
    scores = nodes.reshape(_of_labels(nodes, nodes.transpose(scores, (0, 2, 1)), sizes), groups)
    boxes = nodes.reshape(_decoded(nodes, parameters, sizes), (*groups, 4))
    if sizes.candidates < sizes.boxes:
        boxes, scores = _best(nodes, boxes, scores, sizes)
    _select(nodes, boxes, scores, parameters, sizes)


def _sizes(layer: LayerImport, parameters: Any) -> Sizes:
    (images, locations), confidences, priors = layer.shape(0)[:2], layer.shape(1)[1:2], layer.shape(2)
    boxes, classes = priors[-1] // 4, parameters.num_classes
    shared = 1 if parameters.share_location else classes
    fits = len(priors) == 3 and priors[1] == 2 and len(layer.shape(0)) == 2 and classes > 0
    if not fits or locations != boxes * shared * 4 or confidences != (boxes * classes,):
        raise layer.error(f"bottoms of shapes {layer.shape(0)}, {layer.shape(1)} and {priors} for {classes} classes")
    if parameters.nms_param.eta != 1:
        raise layer.unsupported(f"eta of its nms_param is {parameters.nms_param.eta:g}; supported: 1")
    labels = tuple(label for label in range(classes) if label != parameters.background_label_id)
    candidates = _limited(parameters.nms_param.top_k, boxes)
    if not labels:
        raise layer.error("its only class is the background")
    kept = _limited(parameters.keep_top_k, candidates * len(labels))
    return Sizes(images, boxes, classes, labels, candidates, kept)


def _limited(count: int, most: int) -> int:
    """A number of boxes as Caffe says it: all where it is not positive."""
    return min(count, most) if count > 0 else most


class _Nodes:
    """Short forms of the nodes that the layer needs."""

    def __init__(self, layer: LayerImport) -> None:
        self.layer = layer

    def shape(self, x: str) -> Shape:
        return self.layer.shape_of(x)

    def number(self, value: float) -> str:
        return self.layer.constant("number", value)

    def whole(self, *values: int) -> str:
        return self.layer.constant("whole", list(values))

    def binary(self, op: str, a: str, b: str) -> str:
        return self.layer.step(op, [a, b], np.broadcast_shapes(self.shape(a), self.shape(b)))

    def where(self, condition: str, a: str, b: str) -> str:
        shape = np.broadcast_shapes(*(self.shape(name) for name in (condition, a, b)))
        return self.layer.step("Where", [condition, a, b], shape)

    def reshape(self, x: str, shape: Shape) -> str:
        return self.layer.reshape(x, shape)

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        shape = self.shape(x)
        return self.layer.step("Transpose", [x], tuple(shape[axis] for axis in perm), perm=list(perm))

    def last(self, x: str, start: int, end: int) -> str:
        """A range of the last axis."""
        bounds = [self.whole(value) for value in (start, end, -1)]
        return self.layer.step("Slice", [x, *bounds], (*self.shape(x)[:-1], end - start))

    def gather(self, x: str, indices: str, axis: int = 0) -> str:
        shape = self.shape(x)
        chosen = (*shape[:axis], *self.shape(indices), *shape[axis + 1 :])
        return self.layer.step("Gather", [x, indices], chosen, axis=axis)

    def concat(self, parts: Sequence[str], axis: int) -> str:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.layer.step("Concat", parts, tuple(shape), axis=axis)

    def top(self, x: str, count: int, largest: bool = True) -> tuple[str, str]:
        """The greatest or least of the last axis in order, and where they stood."""
        shape = (*self.shape(x)[:-1], count)
        best, places = self.layer.steps("TopK", [x, self.whole(count)], [shape, shape], largest=int(largest))
        return best, places

    def cast(self, x: str, kind: int) -> str:
        return self.layer.step("Cast", [x], to=kind)


def _of_labels(nodes: _Nodes, x: str, sizes: Sizes) -> str:
    """The labels that count, of an axis of all classes behind that of images."""
    return x if len(sizes.labels) == sizes.classes else nodes.gather(x, nodes.whole(*sizes.labels), 1)


def _decoded(nodes: _Nodes, parameters: Any, sizes: Sizes) -> str:
    """Corners [images, labels, boxes, 4] of all boxes."""
    layer, each = nodes.layer, 1 if parameters.share_location else sizes.classes
    moves = nodes.reshape(layer.inputs[0], (sizes.images, sizes.boxes, each, 4))
    moves = nodes.transpose(moves, (0, 2, 1, 3))
    both = nodes.reshape(layer.inputs[2], (2, sizes.boxes, 4))
    priors, variances = (nodes.reshape(nodes.gather(both, nodes.whole(at)), (sizes.boxes, 4)) for at in (0, 1))
    if not parameters.variance_encoded_in_target:
        moves = nodes.binary("Mul", moves, variances)
    boxes = _moved(nodes, parameters.code_type, priors, moves)
    shape = (sizes.images, len(sizes.labels), sizes.boxes, 4)
    if parameters.share_location:
        return layer.step("Expand", [boxes, nodes.whole(*shape)], shape)
    return _of_labels(nodes, boxes, sizes)


def _moved(nodes: _Nodes, code: int, priors: str, moves: str) -> str:
    low, high = nodes.last(priors, 0, 2), nodes.last(priors, 2, 4)
    size = nodes.binary("Sub", high, low)
    if code == CORNER:
        return nodes.binary("Add", priors, moves)
    if code == CORNER_SIZE:
        return nodes.binary("Add", priors, nodes.binary("Mul", moves, nodes.concat([size, size], 1)))
    centre = nodes.binary("Mul", nodes.binary("Add", low, high), nodes.number(0.5))
    centre = nodes.binary("Add", nodes.binary("Mul", nodes.last(moves, 0, 2), size), centre)
    wide = nodes.binary("Mul", nodes.layer.step("Exp", [nodes.last(moves, 2, 4)]), size)
    half = nodes.binary("Mul", wide, nodes.number(0.5))
    return nodes.concat([nodes.binary("Sub", centre, half), nodes.binary("Add", centre, half)], 3)


def _best(nodes: _Nodes, boxes: str, scores: str, sizes: Sizes) -> tuple[str, str]:
    """The boxes of each group with the best scores."""
    best, places = nodes.top(scores, sizes.candidates)
    chosen = (sizes.groups, sizes.candidates)
    indices = nodes.reshape(places, (*chosen, 1))
    return nodes.layer.step("GatherND", [boxes, indices], (*chosen, 4), batch_dims=1), best


def _select(nodes: _Nodes, boxes: str, scores: str, parameters: Any, sizes: Sizes) -> None:
    """Suppresses, and writes the best rows of each image, by label and then by score."""
    layer, count = nodes.layer, sizes.groups * sizes.candidates
    limits = parameters.nms_param.nms_threshold, parameters.confidence_threshold
    least = limits[1] if parameters.HasField("confidence_threshold") else NOTHING
    each = nodes.reshape(scores, (sizes.groups, 1, sizes.candidates))
    settings = [nodes.whole(sizes.candidates), nodes.number(limits[0]), nodes.number(least)]
    found = layer.step("NonMaxSuppression", [boxes, each, *settings], (count, 3))
    group, box = nodes.last(found, 0, 1), nodes.last(found, 2, 3)
    place = nodes.concat([group, box], 1)
    score = layer.step("GatherND", [scores, place], (count,))
    corners = layer.step("GatherND", [boxes, place], (count, 4))
    group = _flat(nodes, group, count)
    is_found = nodes.binary("GreaterOrEqual", group, nodes.whole(0))
    image = nodes.binary("Div", group, nodes.whole(len(sizes.labels)))
    label = nodes.gather(nodes.whole(*sizes.labels), nodes.binary("Mod", group, nodes.whole(len(sizes.labels))))
    parts = [*(nodes.cast(column, _FLOAT) for column in (image, label)), score]
    table = nodes.concat([*(_column(nodes, part, count) for part in parts), corners], 1)
    rows = layer.constant("rows", np.full((sizes.kept, COLUMNS), -1.0))
    table = nodes.concat([table, rows], 0)
    chosen = []
    for number in range(sizes.images):
        counts = nodes.binary("And", is_found, nodes.binary("Equal", image, nodes.whole(number)))
        chosen.append(
            nodes.gather(table, _places(nodes, nodes.where(counts, score, nodes.number(NOTHING)), sizes.kept))
        )
    shape = (1, 1, sizes.images * sizes.kept, COLUMNS)
    layer.result_reshaped(nodes.concat(chosen, 0), shape)


_FLOAT = 1  # of ONNX's element types


def _flat(nodes: _Nodes, x: str, count: int) -> str:
    """All elements along one axis, however many a run finds."""
    return nodes.layer.step("Reshape", [x, nodes.whole(-1)], (count,))


def _column(nodes: _Nodes, x: str, count: int) -> str:
    return nodes.layer.step("Reshape", [x, nodes.whole(-1, 1)], (count, 1))


def _places(nodes: _Nodes, scores: str, kept: int) -> str:
    """Where the best stand, in the order of the table; -1, its last row, for those that are missing."""
    missing = nodes.layer.constant("missing", np.full(kept, NOTHING))
    best, places = nodes.top(nodes.concat([scores, missing], 0), kept)
    is_found = nodes.binary("Greater", best, nodes.number(NOTHING))
    ordered, _ = nodes.top(nodes.where(is_found, places, nodes.whole(BEHIND)), kept, largest=False)
    return nodes.where(nodes.binary("Less", ordered, nodes.whole(BEHIND)), ordered, nodes.whole(-1))


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

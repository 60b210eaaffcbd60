"""Operators of the project's own domain that models may use, against their definitions written out."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from farm.model.oracle import expected_outputs
from runtime.convert import convert
from runtime.errors import ModelError
from runtime.families.regions.farm_domain import anchors
from runtime.graph import Array
from runtime.importers.farm_domain import DOMAIN, VERSION
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.target import Target
from tests.runtime.onnx_models import one_op, random_array

ROIS = [
    [0, 1, 2, 9, 7],
    [1, 0, 0, 12, 8],
    [1, -3, -2, 4, 5],
    [0, 5.5, 3.5, 6.5, 3.75],
    [1, 9, 6, 30, 21],
    [0, 3, 3, 3, 3],
]


def model_of(op: str, inputs: dict[str, Any], outputs: tuple[str, ...] = ("y",), **attributes: Any) -> onnx.ModelProto:
    constants = attributes.pop("constants", None)
    model = one_op(op, inputs, constants, outputs=outputs, **attributes)
    model.graph.node[0].domain = DOMAIN
    model.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    return model


def computed(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    graph, _ = convert(model)
    lower(graph, Target("host", "host", memory="cpu"))
    values = evaluate(graph, inputs)
    return [values[name] for name in graph.outputs]


@pytest.mark.parametrize(("block", "pads"), [((2, 2), (0, 0, 0, 0)), ((2, 3), (1, 0, 1, 2)), ((1, 5), (0, 2, 0, 1))])
def test_space_goes_to_the_batch_and_back(block: tuple[int, int], pads: tuple[int, ...]) -> None:
    x = random_array((3, 2, 4, 7 if block[1] != 2 else 8))
    padded = np.pad(x, ((0, 0), (0, 0), pads[::2], pads[1::2]))
    (down, across), (height, width) = block, padded.shape[2:]
    if width % across:
        pads = (*pads[:3], pads[3] + across - width % across)
        padded = np.pad(x, ((0, 0), (0, 0), pads[::2], pads[1::2]))
    model = model_of("SpaceToBatch", {"x": x.shape}, block=list(block), pads=list(pads))
    (found,) = computed(model, {"x": x})
    for at in range(down * across):
        part = padded[:, :, at // across :: down, at % across :: across]
        np.testing.assert_array_equal(found[at * len(x) : (at + 1) * len(x)], part)
    back = model_of("BatchToSpace", {"x": found.shape}, block=list(block), crops=list(pads))
    np.testing.assert_array_equal(computed(back, {"x": found})[0], x)
    assert height > 0


@pytest.mark.parametrize("scale", [1.0, 0.375])
def test_each_bin_pools_channels_of_its_own(scale: float) -> None:
    x, size = random_array((2, 18, 9, 12)), 3
    model = model_of("PSROIPooling", {"x": x.shape}, constants={"r": ROIS}, group_size=size, spatial_scale=scale)
    (found,) = computed(model, {"x": x})
    assert found.shape == (len(ROIS), 2, 3, 3)
    for region, (image, *ends) in enumerate(ROIS):
        rounded = [np.sign(end) * np.floor(abs(end) + 0.5) for end in ends]
        low, high = np.asarray(rounded[:2]) * scale, (np.asarray(rounded[2:]) + 1) * scale
        extent = np.maximum(high - low, np.float32(0.1)) / size
        for c, i, j in np.ndindex(2, size, size):
            first = np.clip(np.floor(low + [j, i] * extent), 0, (12, 9)).astype(int)
            last = np.clip(np.ceil(low + (np.asarray([j, i]) + 1) * extent), 0, (12, 9)).astype(int)
            part = x[int(image), (c * size + i) * size + j, first[1] : last[1], first[0] : last[0]]
            np.testing.assert_allclose(found[region, c, i, j], part.mean() if part.size else 0, rtol=1e-5, atol=1e-6)


def test_each_bin_samples_channels_of_its_own() -> None:
    """As RoiAlign does those of all bins."""
    x, size = random_array((2, 8, 9, 12)), 2
    rois = np.asarray(ROIS[:3], np.float32)
    attributes = {"sampling_ratio": 2, "spatial_scale": 0.5}
    model = model_of("PSROIAlign", {"x": x.shape}, constants={"r": rois}, group_size=size, **attributes)
    (found,) = computed(model, {"x": x})
    constants = {"r": rois[:, 1:], "b": rois[:, 0].astype(np.int64)}
    more = attributes | {"output_height": size, "output_width": size, "coordinate_transformation_mode": "half_pixel"}
    shifted = {**constants, "r": rois[:, 1:] + 1}  # RoiAlign takes half a pixel off
    wide = computed(one_op("RoiAlign", {"x": x.shape}, shifted, **more), {"x": x})[0]
    for c, i, j in np.ndindex(2, size, size):
        np.testing.assert_allclose(found[:, c, i, j], wide[:, (c * size + i) * size + j, i, j], rtol=1e-4, atol=1e-5)


def test_the_anchors_are_those_of_faster_r_cnn() -> None:
    own = anchors(16, (0.5, 1.0, 2.0), (8.0, 16.0, 32.0))
    np.testing.assert_array_equal(own[0], [-84, -40, 99, 55])
    np.testing.assert_array_equal(own[4], [-120, -120, 135, 135])


def proposals(scores: Array, moves: Array, image: Array, form: dict[str, Any]) -> list[list[float]]:
    """Faster R-CNN's own way, box by box: score and corners."""
    own = anchors(form["base_size"], tuple(form["ratios"]), tuple(form["scales"]))
    height, width, scale = image[0]
    found = []
    for row, column in np.ndindex(*scores.shape[2:]):
        for a, anchor in enumerate(own):
            x0, y0, x1, y1 = anchor + np.asarray([column, row, column, row]) * form["feature_stride"]
            w, h = x1 - x0 + 1, y1 - y0 + 1
            dx, dy, dw, dh = moves[0, 4 * a : 4 * a + 4, row, column].astype(float)
            x, y, w, h = dx * w + x0 + w / 2, dy * h + y0 + h / 2, np.exp(dw) * w, np.exp(dh) * h
            ends = np.clip([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 0, [width - 1, height - 1] * 2)
            if min(ends[2] - ends[0], ends[3] - ends[1]) + 1 >= form["smallest"] * scale:
                found.append([float(scores[0, len(own) + a, row, column]), *ends])
    found = sorted(found, key=lambda box: -box[0])[: form["before"]]
    kept: list[list[float]] = []
    for box in found:
        if all(_overlap(box[1:], other[1:]) <= form["threshold"] for other in kept):
            kept.append(box)
    return kept[: form["after"]]


def _overlap(a: list[float], b: list[float]) -> float:
    width, height = (min(a[at + 2], b[at + 2]) - max(a[at], b[at]) + 1 for at in (0, 1))
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    return width * height / (sum(areas) - width * height) if min(width, height) > 0 else 0.0


@pytest.mark.parametrize(("before", "after"), [(20, 8), (6000, 300)])
def test_proposals_are_those_of_faster_r_cnn(before: int, after: int) -> None:
    form: dict[str, Any] = {"base_size": 8, "ratios": [0.5, 1.0], "scales": [1.0, 2.0, 3.0], "feature_stride": 8}
    form |= {"before": before, "after": after, "threshold": 0.5, "smallest": 6}
    inputs = {"s": random_array((1, 12, 4, 5)), "m": random_array((1, 24, 4, 5), 1, -0.5, 0.5)}
    inputs["i"] = np.asarray([[33, 41, 1.5]], np.float32)
    model = model_of("Proposal", {name: value.shape for name, value in inputs.items()}, ("rois", "scores"), **form)
    rois, scores = computed(model, inputs)
    expected = np.asarray(proposals(inputs["s"], inputs["m"], inputs["i"], form))
    count = len(expected)
    assert 3 < count <= len(rois)
    np.testing.assert_allclose(rois[:count, 1:], expected[:, 1:], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scores[:count], expected[:, 0], rtol=1e-5)
    assert not rois[count:].any() and not scores[count:].any() and not rois[:, 0].any()


def test_the_oracle_of_such_a_model_is_numpy() -> None:
    x = random_array((1, 2, 4, 4))
    model = model_of("SpaceToBatch", {"x": x.shape}, block=[2, 2])
    np.testing.assert_array_equal(expected_outputs(model, {"x": x})["y"], computed(model, {"x": x})[0])


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "text"),
    [
        ("SpaceToBatch", {"x": (1, 2, 5, 4)}, {"block": [2, 2]}, "do not split into blocks of 2 x 2"),
        ("SpaceToBatch", {"x": (1, 2, 4)}, {"block": [2, 2]}, "channels, height, width] is needed"),
        ("SpaceToBatch", {"x": (1, 2, 4, 4)}, {"block": [2]}, "two numbers, at least 1"),
        ("SpaceToBatch", {"x": (1, 2, 4, 4)}, {"block": [2, 2], "pads": [-1, 0, 1, 0]}, "four numbers, not negative"),
        ("SpaceToBatch", {"x": (1, 2, 4, 4)}, {"block": [2, 2], "odd": 1}, "no attribute of this name"),
        ("BatchToSpace", {"x": (3, 2, 4, 4)}, {"block": [2, 2]}, "do not fit"),
        ("BatchToSpace", {"x": (4, 2, 4, 4)}, {"block": [2, 2], "crops": [4, 0, 4, 0]}, "do not fit"),
        ("PSROIPooling", {"x": (1, 7, 4, 4), "r": (2, 5)}, {"group_size": 2}, "do not fit images of shape"),
        ("Proposal", {"s": (1, 18, 4, 4), "m": (1, 36, 4, 5), "i": (1, 3)}, {}, "do not fit 9 anchors of one image"),
    ],
)
def test_what_does_not_fit(op: str, shapes: dict[str, Any], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        convert(model_of(op, shapes, **attributes))

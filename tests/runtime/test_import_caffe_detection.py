"""DetectionOutput: against Caffe's definition written out, ONNX Runtime on what the import made, and OpenCV."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from tests.runtime.caffe_networks import CaffeNet

IMAGES, BOXES, CLASSES = 2, 23, 4
FORMS: dict[str, dict[str, Any]] = {
    "as SSD has it": {},
    "few candidates": {"top_k": 5, "keep_top_k": 6},
    "all boxes": {"top_k": 0, "keep_top_k": 0},
    "no background": {"background_label_id": -1},
    "another background": {"background_label_id": 2},
    "corners": {"code_type": "CORNER"},
    "corners by size": {"code_type": "CORNER_SIZE"},
    "boxes of each class": {"share_location": False},
    "variances in the boxes": {"variance_encoded_in_target": True},
    "a strict threshold": {"confidence_threshold": 0.9},
    "nothing found": {"confidence_threshold": 2.0},
}
DEFAULTS: dict[str, Any] = {
    "share_location": True,
    "background_label_id": 0,
    "code_type": "CENTER_SIZE",
    "keep_top_k": 10,
    "variance_encoded_in_target": False,
    "confidence_threshold": 0.2,
    "nms_threshold": 0.3,
    "top_k": 20,
}


def inputs_of(form: dict[str, Any], images: int = IMAGES) -> dict[str, Array]:
    random = np.random.default_rng(3)
    each = 1 if form["share_location"] else CLASSES
    low = random.uniform(0, 0.6, (BOXES, 2))
    corners = np.concatenate([low, low + random.uniform(0.1, 0.4, (BOXES, 2))], axis=1)
    priors = np.stack([corners.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], BOXES)])
    found = {
        "loc": random.normal(0, 0.3, (images, BOXES * each * 4)),
        "conf": random.uniform(0, 1, (images, BOXES * CLASSES)),
        "boxes": priors[np.newaxis],
    }
    return {name: value.astype(np.float32) for name, value in found.items()}


def net_of(form: dict[str, Any], inputs: dict[str, Array], more: str = "") -> CaffeNet:
    net = CaffeNet()
    for name, value in inputs.items():
        net.input(name, value.shape)
    inner = " ".join(f"{name}: {form[name]}" for name in ("nms_threshold", "top_k"))
    outer = " ".join(f"{name}: {value}" for name, value in form.items() if name not in ("nms_threshold", "top_k"))
    text = f"num_classes: {CLASSES} {outer.replace('True', 'true').replace('False', 'false')} "
    net.layer(
        "DetectionOutput",
        "out",
        list(inputs),
        ["out"],
        f"detection_output_param {{ {text} nms_param {{ {inner} {more} }} }}",
    )
    return net


def decoded(moves: Array, prior: Array, variance: Array, form: dict[str, Any]) -> list[float]:
    """One box."""
    if not form["variance_encoded_in_target"]:
        moves = moves * variance
    (x0, y0, x1, y1), (w, h) = prior, prior[2:] - prior[:2]
    if form["code_type"] == "CORNER":
        return list(prior + moves)
    if form["code_type"] == "CORNER_SIZE":
        return list(prior + moves * [w, h, w, h])
    x, y = moves[0] * w + (x0 + x1) / 2, moves[1] * h + (y0 + y1) / 2
    half = np.exp(moves[2]) * w / 2, np.exp(moves[3]) * h / 2
    return [x - half[0], y - half[1], x + half[0], y + half[1]]


def overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def detections(inputs: dict[str, Array], form: dict[str, Any], image: int) -> list[list[float]]:
    """The rows of one image, as Caffe computes them."""
    each = 1 if form["share_location"] else CLASSES
    loc = inputs["loc"][image].astype(float).reshape(BOXES, each, 4)
    conf = inputs["conf"][image].reshape(BOXES, CLASSES)
    priors, variances = inputs["boxes"][0].astype(float).reshape(2, BOXES, 4)
    rows = []
    for label in set(range(CLASSES)) - {form["background_label_id"]}:
        boxes = [decoded(loc[at, label % each], priors[at], variances[at], form) for at in range(BOXES)]
        order = sorted(range(BOXES), key=lambda at: -conf[at, label])
        order = [at for at in order if conf[at, label] > form["confidence_threshold"]][: form["top_k"] or None]
        kept: list[int] = []
        for at in order:
            if all(overlap(boxes[at], boxes[other]) <= form["nms_threshold"] for other in kept):
                kept.append(at)
        rows += [[image, label, float(conf[at, label]), *boxes[at]] for at in kept]
    best = sorted(rows, key=lambda row: -row[2])[: form["keep_top_k"] or None]
    return sorted(best, key=lambda row: (row[1], -row[2]))


@pytest.mark.parametrize("name", FORMS)
def test_it_finds_what_caffe_finds(name: str, tmp_path: Path) -> None:
    form = DEFAULTS | FORMS[name]
    inputs = inputs_of(form)
    net = net_of(form, inputs)
    by_graph, by_onnx_runtime = net.run_graph(tmp_path, inputs)["out"], net.run(tmp_path, inputs)["out"]
    assert by_graph.shape == by_onnx_runtime.shape
    np.testing.assert_allclose(by_graph, by_onnx_runtime, rtol=1e-5, atol=1e-6)
    room = by_graph.reshape(IMAGES, -1, 7)
    for image in range(IMAGES):
        expected = detections(inputs, form, image)
        np.testing.assert_allclose(room[image, : len(expected)], np.reshape(expected, (-1, 7)), rtol=1e-4, atol=1e-5)
        assert (room[image, len(expected) :] == -1).all()


def net_outputs(net: CaffeNet, inputs: dict[str, Array]) -> dict[str, Array]:
    """OpenCV's rows: by score, whatever the label, with zeros behind them."""
    return {"out": net.run_opencv(inputs, "out")}


@pytest.mark.parametrize("name", ["as SSD has it", "few candidates", "corners", "boxes of each class"])
def test_it_finds_what_opencv_finds(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    form = DEFAULTS | FORMS[name]
    inputs = inputs_of(form, images=1)
    net = net_of(form, inputs)
    found, expected = (out["out"][0, 0] for out in (net.run_graph(tmp_path, inputs), net_outputs(net, inputs)))
    found, expected = (rows[rows[:, 2] > 0] for rows in (found, expected))
    assert len(expected) > 5
    np.testing.assert_allclose(found[np.argsort(-found[:, 2])], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (
            {"loc": (1, 8), "conf": (1, 8), "boxes": (1, 2, 12)},
            r"bottoms of shapes \(1, 8\), \(1, 8\) and \(1, 2, 12\)",
        ),
        ({"loc": (1, 8), "conf": (1, 9), "boxes": (1, 2, 8)}, "for 4 classes"),
        ({"loc": (1, 8), "conf": (1, 8), "boxes": (8, 2)}, "for 4 classes"),
    ],
)
def test_bottoms_that_do_not_fit(shapes: dict[str, tuple[int, ...]], text: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=text):
        net_of(DEFAULTS, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}).load(tmp_path)


def test_adaptive_suppression_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"eta of its nms_param is 0\.5; supported: 1"):
        net_of(DEFAULTS, inputs_of(DEFAULTS), "eta: 0.5").load(tmp_path)

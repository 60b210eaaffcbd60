"""Caffe's files: three generations of layers, blobs written in place, phases, inputs; and what is wrong with a file."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.importers.caffe import onnx_writer
from runtime.importers.caffe.caffe_importer import CaffeModel, load_caffe
from runtime.importers.caffe.prototxt import MAX_BYTES
from runtime.importers.caffe.schema import WeightsParameter
from runtime.importers.onnx_importer import import_onnx
from tests.runtime.caffe_networks import CaffeNet
from tests.runtime.onnx_models import one_op
from tests.time_limit import within

FILTER, BIAS = np.linspace(-1, 1, 4 * 3 * 9, dtype=np.float32), np.linspace(0, 1, 4, dtype=np.float32)
X = np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
NEW = """
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  param { lr_mult: 1 } convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "norm" type: "LRN" bottom: "pool" top: "norm" lrn_param { local_size: 3 alpha: 0.1 } }
"""
V1 = """
name: "net"
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
layers { name: "pool" type: POOLING bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layers { name: "norm" type: LRN bottom: "pool" top: "norm" lrn_param { local_size: 3 alpha: 0.1 } }
"""
V0 = """
name: "net"
input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layers { layer { name: "padding" type: "padding" pad: 1 } bottom: "data" top: "padded" }
layers { layer { name: "conv" type: "conv" num_output: 4 kernelsize: 3 } bottom: "padded" top: "conv" }
layers { layer { name: "relu" type: "relu" } bottom: "conv" top: "conv" }
layers { layer { name: "pool" type: "pool" pool: MAX kernelsize: 3 stride: 2 } bottom: "conv" top: "pool" }
layers { layer { name: "norm" type: "lrn" local_size: 3 alpha: 0.1 } bottom: "pool" top: "norm" }
"""


def weights(generation: str, blobs: Sequence[Array] = (FILTER, BIAS), name: str = "conv") -> bytes:
    """The convolution's blobs as each generation of Caffe writes them."""
    network = WeightsParameter()
    for blob, shape in zip(blobs, ((4, 3, 3, 3), (1, 1, 1, 4)), strict=False):
        if generation == "new":
            layer = network.layer[0] if network.layer else network.layer.add(name=name)
            layer.blobs.add(data=[blob.tobytes()]).shape.dim.extend(shape if shape[0] > 1 else shape[3:])
            continue
        old = network.layers[0] if network.layers else network.layers.add()
        layer = old if generation == "V1" else old.layer
        layer.name = name
        sizes = dict(zip(("num", "channels", "height", "width"), shape, strict=True))
        layer.blobs.add(data=[blob.tobytes()], **sizes)
    return bytes(network.SerializeToString())


def load(
    folder: Path,
    text: str | bytes = NEW,
    content: bytes | None = None,
    inputs: dict[str, tuple[int, ...]] | None = None,
    outputs: Sequence[str] | None = None,
) -> CaffeModel:
    network, model = folder / "net.prototxt", folder / "net.caffemodel"
    network.write_bytes(text.encode() if isinstance(text, str) else text)
    model.write_bytes(weights("new") if content is None else content)
    return load_caffe(network, model, inputs, outputs)


def run(model: onnx.ModelProto, **inputs: Array) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([info.name for info in session.get_outputs()], session.run(None, inputs), strict=True))


def refusal(folder: Path, *arguments: object, **options: object) -> str:
    """The error's text without the folder: one line."""
    with pytest.raises(ModelError) as caught:
        load(folder, *arguments, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


def test_all_generations_say_the_same(tmp_path: Path) -> None:
    expected = run(load(tmp_path).model, data=X)["norm"]
    assert expected.shape == (1, 4, 4, 4) and np.ptp(expected) > 0
    for text, content in ((V1, weights("V1")), (V0, weights("V0")), (V1, weights("new")), (NEW, weights("V1"))):
        assert np.array_equal(run(load(tmp_path, text, content).model, data=X)["norm"], expected)


def test_doubles_are_read_as_floats(tmp_path: Path) -> None:
    network = WeightsParameter()
    layer = network.layer.add(name="conv")
    for blob, shape in ((FILTER, (4, 3, 3, 3)), (BIAS, (4,))):
        layer.blobs.add(double_data=[blob.astype("<f8").tobytes()]).shape.dim.extend(shape)
    actual = run(load(tmp_path, NEW, bytes(network.SerializeToString())).model, data=X)
    assert np.array_equal(actual["norm"], run(load(tmp_path).model, data=X)["norm"])


def test_what_is_written_in_place_keeps_its_name_in_the_last_version(tmp_path: Path) -> None:
    both = load(tmp_path, outputs=["conv", "norm"]).model
    assert [node.output[0] for node in both.graph.node] == ["conv/conv", "conv", "pool", "norm"]
    assert run(both, data=X)["conv"].min() == 0


def test_an_input_keeps_its_name_where_a_layer_writes_it_in_place(tmp_path: Path) -> None:
    scaled = NEW.replace('layer { name: "conv"', 'layer { name: "twice" type: "Power" bottom: "data" top: "data" '
                         'power_param { scale: 2 } }\nlayer { name: "conv"')  # fmt: skip
    actual = run(load(tmp_path, scaled).model, data=X)["norm"]
    assert np.allclose(actual, run(load(tmp_path).model, data=2 * X)["norm"], atol=1e-6)


def test_the_deployed_shape_replaces_that_of_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, inputs={"data": (2, 3, 6, 10)})
    assert import_onnx(found.model).shape("norm") == (2, 4, 3, 5)
    assert found.notes == ("input 'data': 2,3,6,10 as deployed, not 1,3,8,8",)


def test_an_intermediate_blob_may_be_an_input_or_an_output(tmp_path: Path) -> None:
    model = load(tmp_path, inputs={"conv": (1, 4, 8, 8)}, outputs=["pool"]).model
    assert [value.name for value in model.graph.input] == ["conv"]
    assert [node.op_type for node in model.graph.node] == ["MaxPool"]


TRAINING = """
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { batch_size: 9 } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST } transform_param { crop_size: 8 } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "relu" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "relu" bottom: "label" top: "acc" exclude { phase: TRAIN } }
"""


def test_layers_of_training_are_left_out_with_a_note(tmp_path: Path) -> None:
    found = load(tmp_path, TRAINING, inputs={"data": (1, 3, 8, 8)})
    assert [node.op_type for node in found.model.graph.node] == ["Relu"]
    assert found.notes == (
        "layer 'data' (Data): its tops are inputs of the model",
        "layer 'loss' (SoftmaxWithLoss): left out, only training needs it",
        "layer 'accuracy' (Accuracy): left out, only training needs it",
        "weights of layers that the network lacks: conv",
    )


def test_a_data_layer_says_no_shape(tmp_path: Path) -> None:
    assert refusal(tmp_path, TRAINING).endswith("reads the input 'data', which has no shape; name it in input_tensors")


def test_unknown_types_are_listed_with_counts_and_first_names(tmp_path: Path) -> None:
    text = NEW
    for index, kind in enumerate(("Foo", "Bar", "Foo")):
        text += f'layer {{ name: "l{index}" type: "{kind}" bottom: "norm" top: "t{index}" foo_param {{ x: 1 }} }}\n'
    message = refusal(tmp_path, text)
    assert message.startswith(
        "net.prototxt: unsupported layers: Foo (2, first 'l0'), Bar (1, first 'l1'); supported are:"
    )
    assert load(tmp_path, text, outputs=["norm"]).model.graph.node, "what the outputs do not need does not count"


def test_two_layers_of_one_name_are_two_nodes(tmp_path: Path) -> None:
    net = CaffeNet()
    net.layer("ReLU", "same", [net.input("x", (1, 2))], ["a"])
    net.layer("Sigmoid", "same", ["a"], ["b"])
    assert net.run(tmp_path, {"x": np.ones((1, 2), np.float32)})["b"].shape == (1, 2)


REFUSALS = {
    "unknown field": ("kernel_size: 3 pad: 1", "kernel_sise: 3", r"net.prototxt:5: ConvolutionParameter has no field"),
    "unknown field of the head": ('name: "net"', "nam: 3", "net.prototxt:2: NetParameter has no field 'nam' "),
    "misspelt word": ("pool: MAX", "pool: MAXIMUM", "net.prototxt:7: .*has no value named MAXIMUM"),
    "no number": ("num_output: 4", "num_output: four", "net.prototxt:5: .*four"),
    "number beyond its type": ("dim: 3", "dim: 99999999999999999999", "net.prototxt:3: .*99999999999999999999"),
    "unclosed": ("alpha: 0.1 } }", "alpha: 0.1 }", "net.prototxt:8: "),
    "closed twice": ("alpha: 0.1 } }", "alpha: 0.1 } } }", "net.prototxt:8: "),
    "circle": (
        'bottom: "data" top: "conv"',
        'bottom: "norm" top: "conv"',
        "net.prototxt:4: layer 'conv' .Convolution.: "
        "reads 'norm', which only layer 'norm' .LRN. below writes: out of order, or a circle",
    ),
    "unknown bottom": (
        'bottom: "pool"',
        'bottom: "pol"',
        "'norm' .LRN.: reads 'pol', which no layer writes, did you mean 'pool'",
    ),
    "written twice": ('top: "norm"', 'top: "data"', "net.prototxt:8: layer 'norm' .LRN.: writes 'data', which was"),
    "absurd shape": (
        "dim: 8 dim: 8",
        "dim: 1099511627776 dim: 8",
        r"input 'data': a tensor of shape \(1, 3, 1099511627776, 8. exceeds",
    ),
    "empty shape": (
        "dim: 8 dim: 8",
        "dim: 0 dim: 8",
        r"input 'data': a tensor of shape \(1, 3, 0, 8\) has no elements",
    ),
    "negative shape": (
        "dim: 8 dim: 8",
        "dim: -8 dim: 8",
        r"input 'data': a tensor of shape \(1, 3, -8, 8\) has no elem",
    ),
    "absurd pad": ("pad: 1", "pad: 4000000000", "layer 'conv' .Convolution.: pad is 4000000000,4000000000; it must be"),
    "no kernel": ("kernel_size: 3 pad", "pad", "layer 'conv' .Convolution.: kernel is 0,0; it must be from 1"),
    "no stride": ("stride: 2", "stride: 0", "layer 'pool' .Pooling.: stride is 0,0; it must be from 1"),
    "kernel of pool": (
        "kernel_size: 3 stride",
        "kernel_size: 30 stride",
        r"net.prototxt:7: layer 'pool' .Pooling.: a tensor of shape",
    ),
    "other channels": (
        "num_output: 4",
        "num_output: 5",
        r"layer 'conv' .Convolution.: blob 0 of the weights file has shape "
        r"\(4, 3, 3, 3\); a filter of \(5, 3, 3, 3\) is needed",
    ),
    "groups": ("num_output: 4", "num_output: 4 group: 2", "3 channels to 4 do not split into 2 group"),
    "even window": ("local_size: 3", "local_size: 4", "layer 'norm' .LRN.: local_size is 4; an odd number"),
    "stochastic": ("pool: MAX", "pool: STOCHASTIC", "layer 'pool' .Pooling.: pool is STOCHASTIC; supported: MAX"),
    "another name": (
        'name: "conv"',
        'name: "convolution"',
        "layer 'convolution' .Convolution.: its weights are missing",
    ),
    "two bottoms": ('bottom: "pool"', 'bottom: "pool" bottom: "conv"', r"layer 'norm' .LRN.: 2 bottom\(s\) and 1 top"),
    "no type": ('type: "LRN"', "", "net.prototxt:8: a name, type, bottom or top of a layer is empty"),
    "control character": (
        'top: "norm"',
        r'top: "no\033rm"',
        "net.prototxt:8: a name, type, bottom or top of a layer is empty",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_wrong_network_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    old, new, message = REFUSALS[name]
    assert old in NEW
    assert re.search(message, refusal(tmp_path, NEW.replace(old, new, 1)))


NO_NETWORKS = {
    "empty": (b"", "net.prototxt: no Caffe network: it has no layer"),
    "only a name": (b'name: "x"', "net.prototxt: no Caffe network: it has no layer"),
    "binary": (weights("new"), "net.prototxt: binary, not the text of a .prototxt; weights belong to weight_file_path"),
    "ONNX": (one_op("Relu", {"x": (1,)}).SerializeToString(), "net.prototxt:1: |net.prototxt: binary"),
    "not UTF-8": (NEW.encode() + b"# \xff", "net.prototxt:9: not the text of a .prototxt: a byte is not UTF-8"),
    "deep": (b"layer { " * 100_000, "net.prototxt:1: "),
    "deep in unknown fields": (b"layer { " + b"a { " * 100_000, "net.prototxt:1: its messages are nested too deeply"),
    "large": (b"#" * (MAX_BYTES + 1), "net.prototxt: larger than 4194304 bytes; weights belong to"),
}


@pytest.mark.parametrize("name", NO_NETWORKS)
def test_what_is_no_prototxt_is_refused(tmp_path: Path, name: str) -> None:
    content, message = NO_NETWORKS[name]
    assert re.match(message, refusal(tmp_path, content))


def with_unknown_field() -> bytes:
    """A blob as NVIDIA's fork writes it: raw data in field 12."""
    network = WeightsParameter()
    network.ParseFromString(weights("new"))
    network.layer[0].blobs[0].MergeFromString(b"\x62\x02ab")
    return bytes(network.SerializeToString())


NO_WEIGHTS = {
    "empty": (b"", "net.caffemodel: not a .caffemodel, or truncated: no layer in it has weights"),
    "truncated": (weights("new")[:-9], "net.caffemodel: not a .caffemodel, or truncated; get the file again"),
    "text": (NEW.encode(), "net.caffemodel: text; weight_file_path names the binary .caffemodel, and"),
    "ONNX": (one_op("Relu", {"x": (1,)}).SerializeToString(), "net.caffemodel: an ONNX model; write platform: onnx"),
    "too few numbers": (weights("new", (FILTER[1:], BIAS)), "net.caffemodel: layer 'conv': blob 0: damaged: 428 bytes"),
    "no bias": (
        weights("new", (FILTER,)),
        "layer 'conv' .Convolution.: its weights are missing: the weights file has 1",
    ),
    "another layer": (weights("new", name="other"), "layer 'conv' .Convolution.: its weights are missing"),
    "a name that no terminal shows": (weights("new", name="\x1b[2J"), r"net.caffemodel: layer '\\x1b\[2J': damaged"),
    "unknown field": (with_unknown_field(), r"net.caffemodel: layer 'conv': blob 0: its fields \[12\] are unknown"),
}


@pytest.mark.parametrize("name", NO_WEIGHTS)
def test_wrong_weights_are_refused(tmp_path: Path, name: str) -> None:
    content, message = NO_WEIGHTS[name]
    assert re.search(message, refusal(tmp_path, NEW, content))


def test_weights_are_needed_only_where_a_layer_has_some(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NEW)
    assert load_caffe(path, None, {"conv": (1, 4, 8, 8)}, ["norm"]).model.graph.node
    with pytest.raises(ModelError, match=r"'conv' \(Convolution\): its weights are missing: .*weight_file_path"):
        load_caffe(path, None)


def test_a_wrong_tensor_name_brings_the_nearest(tmp_path: Path) -> None:
    assert refusal(tmp_path, outputs=["nrm"]) == "output tensor 'nrm' is not in the network, did you mean 'norm'?"
    text = NEW.replace('top: "norm"', 'top: "out"')
    assert refusal(tmp_path, text, outputs=["norm"]) == (
        "output tensor 'norm' is not in the network; layer 'norm' (LRN) writes 'out'"
    )
    assert refusal(tmp_path, inputs={"dta": (1, 3, 8, 8)}).endswith("'dta' is not in the network, did you mean 'data'?")


LINEAR = {
    "unclosed strings": '"' + '\\"' * 1_000_000,
    "a long word": "a" * 1_000_000 + "! {",
    "braces": "{" * 1_000_000,
    "closed messages": "a {} " * 20_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_a_hostile_text_is_refused_in_time(tmp_path: Path, name: str) -> None:
    with within(10):
        refusal(tmp_path, LINEAR[name])


@pytest.mark.slow
def test_ten_thousand_layers_of_one_name_in_place_take_a_moment(tmp_path: Path) -> None:
    layer = 'layer { name: "a" type: "ReLU" bottom: "x" top: "x" }\n'
    text = 'input: "x" input_dim: 1 input_dim: 1 input_dim: 1 input_dim: 1\n' + layer * 10_000
    with within(30):
        assert len(load(tmp_path, text).model.graph.node) == 10_000


def test_weights_that_many_layers_share_are_bounded_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file could otherwise name one blob in thousands of layers."""
    monkeypatch.setattr(onnx_writer, "MAX_CONSTANT_BYTES", 800)
    assert load(tmp_path).model.graph.node
    again = 'layer { name: "conv" type: "Convolution" bottom: "data" top: "again" convolution_param { num_output: 4 '
    message = refusal(tmp_path, f"{NEW}{again} kernel_size: 3 }} }}")
    assert message == "constant 'conv/filter_1': all constants together exceed 800 bytes"


def test_what_a_layer_lacks_is_unsupported_and_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        load(tmp_path, NEW.replace("MAX", "STOCHASTIC"))

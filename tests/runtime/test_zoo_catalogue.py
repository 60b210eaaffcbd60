"""Zoo URLs give the network that they name or an error that helps; each network has a sample deployment file."""

import onnx
import pytest
import yaml

from farm.config import samples
from runtime import zoo
from runtime.errors import ConfigError

MODELS = samples.FOLDER


@pytest.mark.slow
def test_url_options_reach_the_model():
    from_url = zoo.from_url("zoo://squeezenet_v11?width=0.25&size=40&classes=7&seed=2")
    built = zoo.build("squeezenet_v11", width=0.25, size=40, classes=7, seed=2)
    assert from_url.SerializeToString() == built.SerializeToString()
    assert [dim.dim_value for dim in built.graph.input[0].type.tensor_type.shape.dim][1:] == [3, 40, 40]
    assert built.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 7
    assert "weights are random numbers from seed 2" in built.graph.doc_string


@pytest.mark.slow
def test_options_default_to_the_published_network():
    model = zoo.from_url("zoo://squeezenet_v11?size=32")
    weights = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert weights["fire9/expand3x3.weight"] == [256, 64, 3, 3]
    assert weights["conv10.bias"] == [1000]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("zoo://mobilnet_v1", "zoo://mobilnet_v1: unknown zoo model 'mobilnet_v1', did you mean 'mobilenet_v1'?"),
        (
            "zoo://gpt",
            "zoo://gpt: unknown zoo model 'gpt', "
            "there are: mobilenet_v1, mobilenet_v2, squeezenet_v11, resnet50, inception_v3, mobilenet_v3_large, "
            "efficientnet_lite0, vit_tiny, bert_mini, llama_small_prefill, llama_small_decode",
        ),
        ("http://resnet50", "http://resnet50: not a zoo URL, write zoo://NAME or zoo://NAME?width=0.25&size=64"),
        ("zoo://", "zoo://: not a zoo URL, write zoo://NAME or zoo://NAME?width=0.25&size=64"),
        ("zoo://resnet50/x", "zoo://resnet50/x: not a zoo URL, write zoo://NAME or zoo://NAME?width=0.25&size=64"),
        ("zoo://[resnet50", "zoo://[resnet50: Invalid IPv6 URL"),
        ("zoo://resnet50?widht=1", "zoo://resnet50?widht=1: unknown option 'widht', did you mean 'width'?"),
        ("zoo://resnet50?width=wide", "zoo://resnet50?width=wide: width: 'wide' is not a number"),
        ("zoo://resnet50?size=64.5", "zoo://resnet50?size=64.5: size: '64.5' is not a whole number"),
        ("zoo://resnet50?size=", "zoo://resnet50?size=: size: '' is not a whole number"),
        ("zoo://resnet50?size=64&size=32", "zoo://resnet50?size=64&size=32: size is given twice"),
        (
            "zoo://resnet50?size=16",
            "zoo://resnet50?size=16: resnet50: size: 16 is out of range, give 32 to 1024",
        ),
        (
            "zoo://resnet50?width=nan",
            "zoo://resnet50?width=nan: resnet50: width: nan is out of range, give more than 0 and at most 4",
        ),
        (
            "zoo://resnet50?classes=1",
            "zoo://resnet50?classes=1: resnet50: classes: 1 is out of range, give 2 to 100000",
        ),
        ("zoo://resnet50?seed=-1", "zoo://resnet50?seed=-1: resnet50: seed: -1 is negative, give 0 or more"),
        (
            "zoo://resnet50?width=4&classes=100000",
            "zoo://resnet50?width=4&classes=100000: resnet50: 1194678176 parameters do not fit into an ONNX file, "
            "reduce width or classes",
        ),
    ],
)
def test_wrong_url_is_one_line_that_says_what_to_do(url, message):
    with pytest.raises(ConfigError) as caught:
        zoo.from_url(url)
    assert str(caught.value) == message


@pytest.mark.parametrize("function", [zoo.build, zoo.describe])
def test_unknown_name_suggests_the_nearest(function):
    with pytest.raises(ConfigError, match="unknown zoo model 'resnet', did you mean 'resnet50'"):
        function("resnet")


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
@pytest.mark.parametrize("width", [0.1, 0.33])
def test_smallest_size_and_odd_widths_build(name, width):
    smallest = 75 if name == "inception_v3" else 32
    onnx.checker.check_model(zoo.build(name, width=width, size=smallest, classes=2), full_check=True)


def test_each_network_has_a_deployment_file():
    assert {path.stem for path in MODELS.glob("*.yml")} >= set(zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_deployment_file_agrees_with_the_network(name):
    deployment = yaml.safe_load((MODELS / f"{name}.yml").read_text())
    model = deployment["models"][name]
    (subgraph,) = model["subgraphs"]
    description = zoo.describe(name)
    assert model["model_file_path"] == f"zoo://{name}"
    assert subgraph["input_shapes"][0] == ",".join(map(str, description.input_shape))
    assert subgraph["output_shapes"][0] == f"1,{description.classes}"
    assert (subgraph["input_tensors"][0], subgraph["output_tensors"][0]) == ("input", "prob")

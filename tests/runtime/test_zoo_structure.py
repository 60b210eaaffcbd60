"""The zoo's networks have the published layers, parameters and multiply-accumulates, and are valid ONNX."""

import importlib
import math
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml

from farm.config import samples
from runtime import zoo
from runtime.errors import ConfigError
from runtime.zoo.network import Network

SMALL = {
    "mobilenet_v1": 33,
    "mobilenet_v2": 50,
    "squeezenet_v11": 41,
    "resnet50": 47,
    "inception_v3": 80,
    "mobilenet_v3_large": 50,
    "efficientnet_lite0": 45,
}

# Trained parameters with 1000 classes, as the models' releases count them: Keras' (MobileNets v1 and v2), torchvision's
# (others), TensorFlow's (EfficientNet-Lite).
PARAMETERS = {
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "squeezenet_v11": 1_235_496,
    "resnet50": 25_557_032,
    "inception_v3": 23_834_568,
    "mobilenet_v3_large": 5_483_032,
    "efficientnet_lite0": 4_652_008,
}

# Millions of multiply-accumulates: TensorFlow's MobileNet tables; torchvision (SqueezeNet, Inception, MobileNet v3);
# Keras (ResNet). EfficientNet-Lite0 has those of torchvision's B0, less 0.6 million of its gates.
MEGA_MACS = [
    ("mobilenet_v1", {}, 569),
    ("mobilenet_v1", {"width": 0.25, "size": 128}, 13.6),
    ("mobilenet_v1", {"width": 0.5, "size": 160}, 76.5),
    ("mobilenet_v2", {}, 300),
    ("mobilenet_v2", {"width": 1.4}, 582),
    ("mobilenet_v2", {"width": 0.5}, 97),
    ("mobilenet_v2", {"width": 0.35}, 59),
    ("squeezenet_v11", {"size": 224}, 349),
    ("resnet50", {}, 3860),
    ("inception_v3", {}, 5713),
    ("mobilenet_v3_large", {}, 217),
    ("efficientnet_lite0", {}, 385.4),
]


def small(name, **options):
    return zoo.build(name, **({"width": 0.25, "size": SMALL[name], "classes": 10} | options))


# As DeiT's and BERT's releases count them, BERT's with two classes on top; a LLaMA's add up by its paper.
TRANSFORMERS = {
    "vit_tiny": 5_717_416,
    "bert_mini": 11_170_560 + 2 * 256 + 2,
    "llama_small_prefill": 2 * 4096 * 512 + 8 * (2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1376 + 2 * 512) + 512,
}
TRANSFORMERS["llama_small_decode"] = TRANSFORMERS["llama_small_prefill"]


@pytest.mark.slow
def test_names_are_convolutional_networks_and_transformers():
    assert zoo.names() == [*PARAMETERS, *TRANSFORMERS]


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_count_is_the_published_one(name):
    assert zoo.describe(name, classes=1000).parameters == PARAMETERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_has_the_published_number_of_parameters(name):
    assert zoo.describe(name).parameters == TRANSFORMERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_onnx_accepts_a_transformer_whose_products_are_those_that_were_counted(name):
    options = {"width": 0.25, "size": 32, "classes": 10}
    model = zoo.build(name, **options)
    onnx.checker.check_model(model, full_check=True)
    inputs = {value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in model.graph.input}
    assert tuple(inputs["input"]) == zoo.describe(name, **options).input_shape
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {
        info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in (*graph.value_info, *graph.output)
    }
    shapes |= inputs | {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    macs = sum(math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1] for node in products)
    patches = [
        math.prod(shapes[n.output[0]]) * math.prod(shapes[n.input[1]][1:]) for n in graph.node if n.op_type == "Conv"
    ]
    assert macs + sum(patches) == zoo.describe(name, **options).macs


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "mega_macs"), MEGA_MACS)
def test_macs_are_the_published_ones(name, options, mega_macs):
    assert zoo.describe(name, **options).macs / 1e6 == pytest.approx(mega_macs, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("mobilenet_v1", {"Conv": 27, "BatchNormalization": 27, "Clip": 27, "Gemm": 1}),
        ("mobilenet_v2", {"Conv": 53, "BatchNormalization": 52, "Clip": 35, "Add": 10}),
        ("squeezenet_v11", {"Conv": 26, "Relu": 26, "Concat": 8, "MaxPool": 3}),
        ("resnet50", {"Conv": 53, "BatchNormalization": 53, "Relu": 49, "Add": 16, "MaxPool": 1, "Gemm": 1}),
        (
            "inception_v3",
            {"Conv": 94, "BatchNormalization": 94, "Relu": 94}
            | {"MaxPool": 4, "AveragePool": 9, "Concat": 15, "Gemm": 1},
        ),
        (
            "mobilenet_v3_large",
            {"Conv": 64, "BatchNormalization": 46, "Relu": 19, "HardSigmoid": 29, "Mul": 29, "Add": 10}
            | {"GlobalAveragePool": 9},
        ),
        ("efficientnet_lite0", {"Conv": 49, "BatchNormalization": 49, "Clip": 33, "Add": 9, "Gemm": 1}),
    ],
)
def test_layers_are_the_published_ones(name, nodes):
    net = Network(224)
    importlib.import_module(f"runtime.zoo.{name}").assemble(net, 1.0, 1000)
    counts = Counter(node.op_type for node in net.nodes)
    assert counts == {"GlobalAveragePool": 1, "Flatten": 1, "Softmax": 1} | nodes


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMETERS)
def test_onnx_accepts_the_model_and_infers_the_shapes_that_the_builder_counted_with(name):
    model = small(name)
    onnx.checker.check_model(model, full_check=True)
    description = zoo.describe(name, width=0.25, size=SMALL[name], classes=10)
    assert macs_by_shape_inference(model) == description.macs
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    trained = [size for tensor, size in sizes.items() if not tensor.endswith((".mean", ".var", ".min", ".max"))]
    assert sum(trained) == description.parameters


def macs_by_shape_inference(model):
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    dims = {info.name: info.type.tensor_type.shape.dim for info in [*graph.value_info, *graph.output]}
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    macs = 0
    for node in graph.node:
        if node.op_type == "Conv":
            pixels = math.prod(dim.dim_value for dim in dims[node.output[0]][2:])
            macs += pixels * math.prod(weights[node.input[1]])
        elif node.op_type == "Gemm":
            macs += math.prod(weights[node.input[1]])
    return macs


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMETERS)
def test_batch_is_symbolic_and_images_do_not_influence_each_other(name):
    model = small(name)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    size = SMALL[name]
    assert [i.shape for i in session.get_inputs()] == [["N", 3, size, size]]
    images = np.random.default_rng(1).uniform(-1, 1, (3, 3, size, size)).astype(np.float32)
    (together,) = session.run(None, {"input": images})
    alone = [session.run(None, {"input": image[None]})[0][0] for image in images]
    assert together.shape == (3, 10)
    np.testing.assert_allclose(together, alone, atol=1e-4)


@pytest.mark.slow
def test_default_size_and_classes_are_the_published_ones():
    shapes = {name: (zoo.describe(name).input_shape, zoo.describe(name).classes) for name in zoo.names()}
    assert shapes == {
        "mobilenet_v1": ((1, 3, 224, 224), 1001),
        "mobilenet_v2": ((1, 3, 224, 224), 1001),
        "squeezenet_v11": ((1, 3, 227, 227), 1000),
        "resnet50": ((1, 3, 224, 224), 1000),
        "inception_v3": ((1, 3, 299, 299), 1000),
        "mobilenet_v3_large": ((1, 3, 224, 224), 1001),
        "efficientnet_lite0": ((1, 3, 224, 224), 1000),
        "vit_tiny": ((1, 3, 224, 224), 1000),
        "bert_mini": ((1, 128), 2),
        "llama_small_prefill": ((1, 128), 4096),
        "llama_small_decode": ((1, 1), 4096),
    }


@pytest.mark.slow
def test_mobilenet_pads_as_tensorflow_does():
    """With stride 2 on an even size, TensorFlow puts the single padding pixel at the end."""
    pads = {
        node.name: list(attribute.ints)
        for node in small("mobilenet_v1", size=64).graph.node
        for attribute in node.attribute
        if attribute.name == "pads"
    }
    assert pads["conv0"] == [0, 0, 1, 1]
    assert pads["block1/depthwise"] == [1, 1, 1, 1]


@pytest.mark.slow
def test_resnet_halves_in_the_first_convolution_of_a_block():
    strides = {
        node.name: list(attribute.ints)
        for node in small("resnet50").graph.node
        for attribute in node.attribute
        if attribute.name == "strides"
    }
    assert strides["conv3_1/reduce"] == [2, 2]
    assert strides["conv3_1/conv"] == [1, 1]


MODELS = samples.FOLDER


@pytest.mark.slow
def test_url_options_reach_the_model():
    from_url = zoo.from_url("zoo://squeezenet_v11?width=0.25&size=40&classes=7&seed=2")
    built = zoo.build("squeezenet_v11", width=0.25, size=40, classes=7, seed=2)
    assert from_url.SerializeToString() == built.SerializeToString()
    assert [dim.dim_value for dim in built.graph.input[0].type.tensor_type.shape.dim][1:] == [3, 40, 40]
    assert built.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 7
    assert "weights are random numbers from seed 2" in built.graph.doc_string


@pytest.mark.parametrize(("name", "shape"), [("bert_mini", [3, 128]), ("squeezenet_v11", [3, 3, 227, 227])])
def test_a_batch_is_fixed(name, shape):
    graph = zoo.from_url(f"zoo://{name}?width=0.1&batch=3").graph
    assert [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == shape
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_value == 3


def test_a_text_may_be_longer_than_the_published_ones():
    model = onnx.shape_inference.infer_shapes(zoo.build("bert_mini", width=0.1, size=600), strict_mode=True)
    shapes = {value.name: value.type.tensor_type.shape.dim for value in model.graph.value_info}
    assert [dim.dim_value for dim in shapes["placed"]] == [1, 600, 32]


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
        ("zoo://resnet50?size=16", "zoo://resnet50?size=16: resnet50: size: 16 is out of range, give 32 to 1024"),
        (
            "zoo://resnet50?width=nan",
            "zoo://resnet50?width=nan: resnet50: width: nan is out of range, give more than 0 and at most 4",
        ),
        (
            "zoo://resnet50?classes=1",
            "zoo://resnet50?classes=1: resnet50: classes: 1 is out of range, give 2 to 100000",
        ),
        ("zoo://resnet50?batch=0", "zoo://resnet50?batch=0: resnet50: batch: 0 is out of range, give 1 to 1024"),
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

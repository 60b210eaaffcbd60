"""Names and scopes: bodies that read outer tensors, equal names inside and outside, functions, sparse constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from farm.config.deployment import Input, Output
from farm.model.boundary import cut_at_boundary
from runtime.convert import convert
from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import onnx_model, random_array, run_onnxruntime
from tests.time_limit import within

X = {"x": (2, 3)}
VALUE = Input("x", (2, 3), "float32", "NONE", (-1.0, 1.0))
Y = Output("y", None, "NONE")
node = helper.make_node


def value(name: str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, None if kind == TensorProto.FLOAT else ())


def constant(name: str, content: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(content, np.float32), name)


def branch(*nodes: onnx.NodeProto, constants: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    return helper.make_graph(nodes, "branch", [], [value("out")], constants)


def turn(*nodes: onnx.NodeProto, to: tuple[str, str], carried: str = "v", k: float | None = None) -> onnx.GraphProto:
    """A loop's body that reads `i`, `on` and what is carried, and may have a constant `k`."""
    inputs = [value("i", TensorProto.INT64), value("on", TensorProto.BOOL), value(carried)]
    outputs = [value(to[0], TensorProto.BOOL), value(to[1])]
    still = node("Identity", ["on"], [to[0]])
    return helper.make_graph([still, *nodes], "body", inputs, outputs, [] if k is None else [constant("k", k)])


HALVED = branch(node("Mul", ["x", "half"], ["t"]), node("Add", ["t", "w"], ["out"]))
RELU = node("Relu", ["x"], ["half"])
TURNS = {"two": 2, "three": 3}


def branches(name: str, condition: str, k: float) -> onnx.NodeProto:
    """An If whose two branches name their tensors alike, and as those of every other one."""
    sides = [
        branch(node("Mul", ["x", "half"], ["t"]), node("Add", ["t", "w"], ["out"]), constants=[constant("w", [k + n])])
        for n in range(2)
    ]
    return node("If", [condition], [name], name, then_branch=sides[0], else_branch=sides[1])


def bodies_that_read_what_nothing_else_reads() -> onnx.ModelProto:
    choice = node("If", ["yes"], ["y"], "if", then_branch=HALVED, else_branch=HALVED)
    return onnx_model([RELU, choice], X, ["y"], {"yes": True, "w": np.ones(3)})


def siblings_with_equal_names() -> onnx.ModelProto:
    both = [branches("a", "yes", 1.0), branches("b", "no", 3.0)]
    sums = [node("Sub", ["a", "b"], ["ab"]), node("Add", ["ab", "w"], ["y"])]
    return onnx_model([RELU, *both, *sums], X, ["y"], {"yes": True, "no": False, "w": np.full(3, 9.0)})


def loops_with_equal_names() -> onnx.ModelProto:
    steps = node("Mul", ["v", "k"], ["t3"]), node("Add", ["t3", "half"], ["v3"])
    inner = node("Loop", ["three", "on", "t2"], ["u"], "inner", body=turn(*steps, to=("on3", "v3"), k=0.5))
    body = turn(node("Neg", ["v"], ["t2"]), inner, node("Add", ["u", "k"], ["v2"]), to=("on2", "v2"), k=2.0)
    outer = node("Loop", ["two", "", "half"], ["last"], "outer", body=body)
    return onnx_model([RELU, outer, node("Add", ["last", "k"], ["y"])], X, ["y"], {**TURNS, "k": 7.0})


def an_outer_tensor_named_as_an_inner_input() -> onnx.ModelProto:
    """The outer loop carries `q`, which is the tensor `v` at first; `v` is what the inner one carries."""
    body = turn(node("Add", ["v", "q"], ["v3"]), to=("on3", "v3"))
    inner = node("Loop", ["three", "on", "q"], ["v2"], "inner", body=body)
    outer = node("Loop", ["two", "", "v"], ["y"], "outer", body=turn(inner, to=("on2", "v2"), carried="q"))
    return onnx_model([node("Relu", ["x"], ["v"]), outer], X, ["y"], TURNS)


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    return helper.make_function("own", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 17)], ["alpha"])


def functions_of_the_model() -> onnx.ModelProto:
    leaky = node("LeakyRelu", ["t"], ["b"])
    alpha = onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    leaky.attribute.append(alpha)
    calls = [node("Twice", [a], [b], domain="own", alpha=slope) for a, b, slope in (("x", "t", 0.3), ("t", "u", 0.1))]
    model = onnx_model([*calls, node("Add", ["u", "t"], ["y"])], X, ["y"])
    model.functions.append(function("Twice", node("Add", ["a", "a"], ["t"]), leaky))
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def sparse_constants() -> onnx.ModelProto:
    model = onnx_model([node("Add", ["x", "w"], ["wide"]), node("Mul", ["wide", "v"], ["y"])], X, ["y"])
    for name, places in (("w", [1, 5]), ("v", [[0, 2], [1, 0]])):
        values = constant(name, [1.0, 2.0])
        model.graph.sparse_initializer.append(
            helper.make_sparse_tensor(values, numpy_helper.from_array(np.asarray(places, np.int64)), [2, 3])
        )
    return model


MODELS = (
    *(bodies_that_read_what_nothing_else_reads, siblings_with_equal_names, loops_with_equal_names),
    *(an_outer_tensor_named_as_an_inner_input, functions_of_the_model, sparse_constants),
)


def computed(model: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    graph, _ = convert(model)
    return evaluate(graph, inputs)["y"]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_model_cut_at_its_own_tensors_computes_what_it_did(make: Any) -> None:
    inputs = {"x": random_array((2, 3))}
    cut = cut_at_boundary(make(), [VALUE], [Y])
    (expected,) = run_onnxruntime(make(), inputs)
    np.testing.assert_allclose(run_onnxruntime(cut, inputs)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(computed(cut, inputs), expected, rtol=1e-5)


def test_what_a_body_reads_may_be_an_input_in_its_place() -> None:
    half = Input("half", (2, 3), "float32", "NONE", (-1.0, 1.0))
    cut = cut_at_boundary(bodies_that_read_what_nothing_else_reads(), [VALUE, half], [Y])
    inputs = {"x": random_array((2, 3)), "half": random_array((2, 3), 1)}
    np.testing.assert_allclose(computed(cut, inputs), inputs["x"] * inputs["half"] + 1, rtol=1e-6)


def test_a_body_that_reads_an_image_in_another_order_reads_the_models_own() -> None:
    image = Input("x", (1, 4, 5, 2), "float32", "NHWC", (-1.0, 1.0))
    slope = branch(node("Add", ["x", "x:nchw"], ["out"]))
    choice = node("If", ["yes"], ["y"], "if", then_branch=slope, else_branch=slope)
    constants = {"yes": True, "x:nchw": np.ones((2, 1, 1))}
    cut = cut_at_boundary(onnx_model([choice], {"x": (1, 2, 4, 5)}, ["y"], constants), [image], [Y])
    inputs = {"x": random_array((1, 4, 5, 2))}
    np.testing.assert_allclose(computed(cut, inputs), inputs["x"].transpose(0, 3, 1, 2) + 1, rtol=1e-6)


def test_a_body_hides_an_outer_tensor_from_its_own_nodes_alone() -> None:
    """ONNX Runtime refuses such a model, NumPy says what it means."""
    choice = node("If", ["yes"], ["halved"], "if", then_branch=HALVED, else_branch=HALVED)
    ends = [RELU, node("Neg", ["x"], ["t"]), choice, node("Add", ["halved", "t"], ["y"])]
    x = random_array((2, 3))
    found = computed(onnx_model(ends, X, ["y"], {"yes": True, "w": np.ones(3)}), {"x": x})
    np.testing.assert_allclose(found, x * np.maximum(x, 0) + 1 - x, rtol=1e-6)


def test_a_function_that_calls_itself_is_refused() -> None:
    model = functions_of_the_model()
    model.functions[0].node[0].CopyFrom(node("Twice", ["a"], ["t"], domain="own"))
    with pytest.raises(ModelError, match="the function Twice is part of itself"):
        convert(model)


@pytest.mark.parametrize(("places", "dims"), [([1, 6], [2, 3]), ([1, -1], [2, 3]), ([1, 5], [2, -3]), ([1], [2, 3])])
def test_a_sparse_constant_whose_places_do_not_fit_is_refused(places: list[int], dims: list[int]) -> None:
    model = sparse_constants()
    tensor = model.graph.sparse_initializer[0]
    tensor.indices.CopyFrom(numpy_helper.from_array(np.asarray(places, np.int64)))
    tensor.dims[:] = dims
    if len(places) == 1:
        tensor.values.CopyFrom(constant("w", [1.0, 2.0, 3.0]))
    with pytest.raises(ModelError, match="tensor 'w': "):
        convert(model)


def test_a_tensor_named_as_a_helper_would_be_keeps_its_value() -> None:
    """A float16 input gets a float32 twin; the model has a tensor of the name that the twin would have."""
    model = onnx_model(
        [
            node("Cast", ["x"], ["x/float32"], to=TensorProto.FLOAT),
            node("Mul", ["x/float32", "two"], ["y/float32"]),
            node("Cast", ["y/float32"], ["low"], to=TensorProto.FLOAT16),
            node("Add", ["low", "x"], ["y"]),
        ],
        X,
        ["y"],
        {"two": 2.0},
    )
    for info in (model.graph.input[0], model.graph.output[0]):
        info.type.tensor_type.elem_type = TensorProto.FLOAT16
    x = random_array((2, 3)).astype(np.float16)
    np.testing.assert_allclose(computed(model, {"x": x}), run_onnxruntime(model, {"x": x})[0], rtol=2e-3)


def info(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def loop_body(*nodes: onnx.NodeProto, outputs: tuple[str, ...]) -> onnx.GraphProto:
    """Reads the turn, whether it goes on, and one value; `bound` and `one` are constants of its own."""
    inputs = [info("turn", TensorProto.INT64, ()), info("on", TensorProto.BOOL, ()), info("value")]
    constants = [
        onnx.numpy_helper.from_array(np.asarray(3, np.int64), "bound"),
        onnx.numpy_helper.from_array(np.asarray(1, np.float32), "one"),
    ]
    kinds = (TensorProto.BOOL, *(TensorProto.FLOAT,) * 9)
    return helper.make_graph(
        nodes, "body", inputs, [info(name, kind) for name, kind in zip(outputs, kinds, strict=False)], constants
    )


STEP = (
    helper.make_node("Add", ["value", "x"], ["wide"]),
    helper.make_node("Mul", ["wide", "factor"], ["next"]),
    helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
)


def loop(body: onnx.GraphProto, count: int | None, condition: str = "", opset: int = 17) -> onnx.ModelProto:
    """A loop over x, whose body reads the outer `factor` too."""
    outputs = ["last", "sums"][: len(body.output) - 1]
    inputs = ["count" if count is not None else "", condition, "x"]
    node = helper.make_node("Loop", inputs, outputs, "the_loop", body=body)
    constants = {"factor": 0.5, "true": np.asarray(True)} | ({} if count is None else {"count": count})
    return onnx_model([node], X, outputs, constants, opset)


def assert_right(model: onnx.ModelProto) -> None:
    inputs = {name: random_array(tuple(d.dim_value for d in value.type.tensor_type.shape.dim)) for name, value in {
        value.name: value for value in model.graph.input
    }.items()}  # fmt: skip
    graph, _ = convert(model)
    values = evaluate(graph, inputs)
    for name, expected in zip(graph.outputs, run_onnxruntime(model, inputs), strict=True):
        assert values[name].shape == expected.shape
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [11, 17])
def test_a_loop_of_so_many_turns(opset: int) -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), *STEP]
    assert_right(loop(loop_body(*nodes, outputs=("still", "next", "sum")), 5, opset=opset))


@pytest.mark.parametrize("count", [None, 2, 9])
def test_a_loop_that_counts_by_itself(count: int | None) -> None:
    nodes = [helper.make_node("Less", ["turn", "bound"], ["still"]), *STEP]
    assert_right(loop(loop_body(*nodes, outputs=("still", "next", "sum")), count, "true"))


def test_no_turn_at_all() -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), *STEP]
    assert_right(loop(loop_body(*nodes, outputs=("still", "next")), 0))
    with pytest.raises(UnsupportedError, match="no turns, so that 'sums' has no elements"):
        convert(loop(loop_body(*nodes, outputs=("still", "next", "sum")), 0))


def test_a_loop_whose_end_a_run_decides() -> None:
    nodes = [*STEP, helper.make_node("Less", ["sum", "one"], ["still"])]
    with pytest.raises(UnsupportedError, match=r"node 'the_loop' \(Loop\): its condition .* is computed at run time"):
        convert(loop(loop_body(*nodes, outputs=("still", "next")), 5))


def test_an_operator_in_a_loop_that_is_not_supported() -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Det", ["value"], ["next"])]
    with pytest.raises(UnsupportedError, match=r"operator ai\.onnx\.Det is not supported"):
        convert(loop(loop_body(*nodes, outputs=("still", "next")), 2))


@pytest.mark.slow
@pytest.mark.parametrize("count", [None, 1 << 40])
def test_a_loop_without_end_is_refused(count: int | None) -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), *STEP]
    with within(60), pytest.raises(UnsupportedError, match="more than 1024 turns"):
        convert(loop(loop_body(*nodes, outputs=("still", "next")), count))


@pytest.mark.slow
def test_loops_in_loops_in_loops_are_refused() -> None:
    body = loop_body(*STEP, outputs=("on", "next"))
    for _ in range(3):
        inner = helper.make_node("Loop", ["thousand", "on", "value"], ["next"], "inner", body=body)
        body = loop_body(inner, outputs=("on", "next"))
    model = loop(body, 1000)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(1000), "thousand"))
    with within(60), pytest.raises(UnsupportedError, match="its turns need more than 20000 nodes"):
        convert(model)


def test_a_body_with_other_inputs() -> None:
    body = loop_body(*STEP, outputs=("on", "next"))
    del body.input[2:]
    with pytest.raises(ModelError, match="its body has 2 inputs, not 3"):
        convert(loop(body, 2))


@pytest.mark.parametrize(("source", "result"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("opset", [11, 17])
def test_scans(source: int, result: int, axis: int, opset: int) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum_in", "part"], ["sum_out"]),
            helper.make_node("Mul", ["sum_out", "part"], ["scanned"]),
        ],
        "body",
        [info("sum_in"), info("part")],
        [info("sum_out"), info("scanned")],
    )
    attributes: dict[str, Any] = {"scan_input_axes": [axis], "scan_output_axes": [1], "num_scan_inputs": 1}
    attributes |= {"scan_input_directions": [source], "scan_output_directions": [result]}
    node = helper.make_node("Scan", ["start", "x"], ["last", "all"], "scan", body=body, **attributes)
    assert_right(onnx_model([node], {"x": (4, 4), "start": (4,)}, ["last", "all"], None, opset))

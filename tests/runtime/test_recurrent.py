"""RNN, GRU and LSTM: from ONNX to the graph's operators, in every execution, and where they stay unrolled."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from farm.model.oracle import Oracle
from runtime.errors import ModelError, UnsupportedError
from runtime.exporters.onnx_exporter import export_onnx
from runtime.families.recurrent import buffer_lowering as recurrent
from runtime.graph import Array, Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.lowering.lower import lower
from runtime.lowering.trials import trial_plan
from runtime.operators.table import check_graph, node_macs
from runtime.oracle.evaluate import evaluate
from runtime.passes.pipeline import run_passes
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.semantics.recurrence import GATES
from runtime.target import Target
from runtime.types import Precision
from tests import opencl
from tests.runtime.onnx_models import assert_matches_onnxruntime, inputs_of, one_op, random_array, run_onnxruntime

GPU = Target("host", "host", gpu_family="adreno-6xx")
TIMES, BATCH, INPUTS, HIDDEN = 5, 2, 4, 7
ORDER = ("x", "W", "R", "B", "lengths", "h", "c", "P")
FULL: dict[str, dict[str, Any]] = {
    "RNN": {"states": ("h",)},
    "GRU": {"states": ("h",)},
    "GRU linear": {"states": ("h",), "linear_before_reset": 1},
    "LSTM": {"states": ("h", "c", "P")},
}


def layer(
    op: str,
    direction: str = "forward",
    states: tuple[str, ...] = (),
    constants: dict[str, Array] | None = None,
    inputs: dict[str, tuple[int, ...]] | None = None,
    times: int = TIMES,
    hidden: int = HIDDEN,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one layer with constant weights and a bias; `states` names further constants, as ORDER does."""
    count, width = 2 if direction == "bidirectional" else 1, GATES[op] * hidden
    shapes = {"h": (count, BATCH, hidden), "c": (count, BATCH, hidden), "P": (count, 3 * hidden)}
    shapes = {name: shapes[name] for name in states}
    shapes |= {"W": (count, width, INPUTS), "R": (count, width, hidden), "B": (count, 2 * width)}
    values = {name: random_array(shape, seed) / 2 for seed, (name, shape) in enumerate(shapes.items())}
    values |= constants or {}
    given = {"x": (times, BATCH, INPUTS), **(inputs or {})}
    values = {name: value for name, value in values.items() if name not in given}
    order = [name if name in values or name in given else "" for name in ORDER]
    while not order[-1]:
        order.pop()
    outputs = ("Y", "Y_h", "Y_c")[: 3 if op == "LSTM" else 2]
    model = one_op(op, given, values, 14, order, outputs, hidden_size=hidden, direction=direction, **attributes)
    for tensor in model.graph.initializer:
        if tensor.name == "lengths":
            tensor.CopyFrom(numpy_helper.from_array(values["lengths"].astype(np.int32), "lengths"))
    return model


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def converted(model: onnx.ModelProto) -> Graph:
    graph = import_onnx(model)
    run_passes(graph)
    check_graph(graph)
    return graph


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", FULL)
def test_a_layer_is_one_product_and_one_operator(name: str, direction: str) -> None:
    op = name.split()[0]
    graph = assert_matches_onnxruntime(layer(op, direction, **FULL[name]))
    assert operators(graph).count(op) == operators(graph).count("FullyConnected") == 1
    assert_matches_onnxruntime(
        layer(op, direction, linear_before_reset=1) if "linear" in name else layer(op, direction)
    )


def test_functions_take_their_parameters_in_order_and_directions_may_differ() -> None:
    functions = ["HardSigmoid", "LeakyRelu", "Softsign", "sigmoid", "ScaledTanh", "Elu"]
    attributes = {"activations": functions, "activation_alpha": [0.3, 0.1, 0.7, 0.9], "activation_beta": [0.4, 0.6]}
    graph = assert_matches_onnxruntime(layer("LSTM", "bidirectional", **attributes))
    assert operators(graph).count("LSTM") == 2
    given = [node.attrs for node in graph.nodes if node.op == "LSTM"]
    assert given[0]["gate_parameters"] == pytest.approx((0.3, 0.4))
    assert given[1]["cell_parameters"] == pytest.approx((0.7, 0.6))
    assert given[1]["out_parameters"] == pytest.approx((0.9, 0.0))


@pytest.mark.parametrize("op", GATES)
def test_clip_bounds_what_the_gates_get(op: str) -> None:
    assert_matches_onnxruntime(layer(op, "bidirectional", clip=0.25))


def test_input_forget_couples_the_gates() -> None:
    assert_matches_onnxruntime(layer("LSTM", input_forget=1))


def test_weights_that_are_computed_at_run_time() -> None:
    width = 4 * HIDDEN
    inputs = {"W": (1, width, INPUTS), "R": (1, width, HIDDEN), "B": (1, 2 * width), "h": (1, BATCH, HIDDEN)}
    graph = assert_matches_onnxruntime(layer("LSTM", inputs=inputs))
    assert operators(graph).count("LSTM") == operators(graph).count("MatMul") == 1


def test_whole_lengths_leave_the_operator_and_others_unroll_it() -> None:
    lengths = {"lengths": np.full(BATCH, TIMES, np.int32)}
    assert "LSTM" in operators(assert_matches_onnxruntime(layer("LSTM", constants=lengths)))
    shorter = {"lengths": np.array([TIMES, 2], np.int32)}
    assert "LSTM" not in operators(assert_matches_onnxruntime(layer("LSTM", constants=shorter)))


def test_what_unrolled_layers_lack_is_said_by_name() -> None:
    lengths = {"lengths": np.array([TIMES, 2], np.int32)}
    with pytest.raises(UnsupportedError, match="activations of sequences of different lengths is 'Softsign'"):
        import_onnx(layer("RNN", constants=lengths, activations=["Softsign"]))
    with pytest.raises(UnsupportedError, match="sequence length is 2000"):
        import_onnx(layer("RNN", constants=lengths, times=2000))


def test_a_long_sequence_needs_no_more_steps() -> None:
    assert len(lower(converted(layer("LSTM", times=5000)), GPU).steps) == 2


def test_broken_layers_are_refused() -> None:
    with pytest.raises(ModelError, match="1 activations; 3 for each of 1 are needed"):
        import_onnx(layer("LSTM", activations=["Tanh"]))
    with pytest.raises(UnsupportedError, match="activations is 'Cosine'"):
        import_onnx(layer("RNN", activations=["Cosine"]))
    with pytest.raises(ModelError, match="do not fit 9 hidden values"):
        model = layer("RNN")
        next(item for item in model.graph.node[0].attribute if item.name == "hidden_size").i = 9
        import_onnx(model)


@pytest.mark.parametrize("name", FULL)
def test_an_exported_layer_is_read_back(name: str) -> None:
    attributes = dict(FULL[name])
    graph = converted(layer(name.split()[0], "bidirectional", **attributes))
    model = export_onnx(graph)
    onnx.checker.check_model(model)
    again = import_onnx(model)
    assert again.nodes == graph.nodes
    inputs = inputs_of(graph)
    for output in graph.outputs:
        np.testing.assert_array_equal(evaluate(again, inputs)[output], evaluate(graph, inputs)[output])


@pytest.mark.parametrize("hidden", [128, 512])
def test_steps_grow_with_the_sequence_only_in_wide_layers(hidden: int) -> None:
    """A product, then one launch, or one for each of 50 time steps; unrolled they were 899."""
    graph = converted(layer("LSTM", times=50, hidden=hidden))
    steps = lower(graph, GPU).steps
    assert len(steps) == (2 if hidden == 128 else 51)
    assert len({step.tuning_key for step in steps}) == 2
    assert sum(step.macs for step in steps) == sum(node_macs(graph, node) for node in graph.nodes)
    assert sum(step.macs for step in steps) == 50 * BATCH * 4 * hidden * (INPUTS + hidden)


def test_both_parts_of_a_gru_step_count_their_own_products() -> None:
    graph = converted(layer("GRU", times=3, hidden=512))
    steps = lower(graph, GPU).steps
    assert [step.dims.get("products") for step in steps] == [None, *(2, 1) * 3]
    assert sum(step.macs for step in steps) == sum(node_macs(graph, node) for node in graph.nodes)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16_STORAGE], ids=lambda p: p.name)
@pytest.mark.parametrize("stepwise", [False, True], ids=["sequence", "steps"])
@pytest.mark.parametrize("name", FULL)
def test_launches_compute_the_layer(
    name: str, stepwise: bool, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stepwise:
        monkeypatch.setattr(recurrent, "WIDEST_SEQUENCE", 0)
    graph = converted(layer(name.split()[0], "bidirectional", **FULL[name]))
    device = opencl.default_device()
    plan = lower(graph, target_of_device(device, memory="buffer", precision=precision))
    assert ("recurrent_step" in {step.kernel.name for step in plan.steps}) == stepwise
    inputs = inputs_of(graph)
    found, expected = Executor(encode_plan(plan), plan.data, device).run(inputs), evaluate(graph, inputs)
    for output in graph.outputs:
        tolerance = 2e-5 if precision == Precision.FP32 else 5e-3
        np.testing.assert_allclose(found[output], expected[output], rtol=0, atol=tolerance)


@pytest.mark.parametrize("hidden", [128, 512])
def test_a_layer_is_tuned_as_one_launch_and_a_product(hidden: int) -> None:
    trials = trial_plan([converted(layer("LSTM", times=3, hidden=hidden))], GPU)
    kernels = [launch.kernel.name for launch in trials.launches]
    assert kernels == ["conv1x1", "recurrent_sequence" if hidden == 128 else "recurrent_step"]


def quantized_layer(direction: str, by_column: bool, zero_point: bool) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """ONNX Runtime's quantised LSTM with its initial states, and an LSTM of the same weights, dequantised."""
    count, random = (2 if direction == "bidirectional" else 1), np.random.default_rng(3)
    kind = np.uint8 if zero_point else np.int8
    width, plain, quantized = 4 * HIDDEN, dict[str, Array](), dict[str, Array]()
    for name, rows in (("W", INPUTS), ("R", HIDDEN)):
        whole = (random.integers(0, 128, (count, rows, width)) - (0 if zero_point else 64)).astype(kind)
        shape = (count, width) if by_column else (count,)
        scale = random.uniform(0.004, 0.008, shape).astype(np.float32)
        zero = random.integers(40, 80, shape).astype(kind) if zero_point else np.zeros(shape, kind)
        spread = (count, 1, width if by_column else 1)
        values = (whole.astype(np.float32) - zero.reshape(spread)) * scale.reshape(spread)
        plain[name] = values.transpose(0, 2, 1)
        quantized |= {name: whole, f"{name}_scale": scale, f"{name}_zero": zero}
    expected = layer("LSTM", direction, ("h", "c"), plain)
    model = layer("LSTM", direction, ("h", "c"), plain)
    node = model.graph.node[0]
    node.op_type, node.domain = "DynamicQuantizeLSTM", "com.microsoft"
    node.input.extend(["", *(f"{name}_{what}" for name in "WR" for what in ("scale", "zero"))])
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in quantized]
    del model.graph.initializer[:]
    model.graph.initializer.extend(
        [*kept, *(numpy_helper.from_array(value, name) for name, value in quantized.items())]
    )
    return model, expected


@pytest.mark.parametrize("zero_point", [False, True])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_quantized_layer_is_one_of_dequantized_weights(direction: str, by_column: bool, zero_point: bool) -> None:
    model, plain = quantized_layer(direction, by_column, zero_point)
    graph, expected = converted(model), converted(plain)
    assert operators(graph) == operators(expected)
    inputs = inputs_of(graph)
    found, wanted, oracle = evaluate(graph, inputs), evaluate(expected, inputs), Oracle(model).outputs(inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[name], oracle[name], rtol=1e-5, atol=1e-5)
    if by_column and zero_point:
        return  # ONNX Runtime takes one zero point alone
    for name, reference in zip(graph.outputs, run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(found[name], reference, atol=0.02)  # its input and state have 8 bits


def test_a_quantized_layer_whose_scales_do_not_fit_is_refused() -> None:
    model, _ = quantized_layer("forward", False, True)
    model.graph.node[0].input[8] = "B"
    with pytest.raises(ModelError, match=r"\(DynamicQuantizeLSTM\): 'B' of shape \(1, 56\) does not fit \(1, 4, 28\)"):
        import_onnx(model)

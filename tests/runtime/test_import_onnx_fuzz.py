"""Damaged ONNX files: each is imported, or refused in one line, soon; benchmarks/onnx_fuzzing.py damages thousands."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks import onnx_fuzzing
from runtime.convert import convert
from runtime.errors import FarmError, ModelError
from runtime.importers.onnx_file import load_onnx
from tests.runtime.onnx_models import one_op, onnx_model
from tests.time_limit import within

X = {"x": (2, 6)}


def network() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["dense"], "dense"),
        helper.make_node("Relu", ["dense"], ["relu"], "relu"),
        helper.make_node("Reshape", ["relu", "shape"], ["wide"], "wide"),
        helper.make_node("Softmax", ["wide"], ["y"], "softmax", axis=-1),
    ]
    constants = {"w": np.ones((6, 4), np.float32), "b": np.zeros(4, np.float32), "shape": [2, 2, 2]}
    return onnx_model(nodes, X, ["y"], constants)


@pytest.mark.slow
def test_mutants_are_imported_or_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = onnx_fuzzing.fuzz([network().SerializeToString()], 150, 1)
    assert set(found) <= {"converted", "refused"}, capsys.readouterr().out
    assert min(found.values()) > 5


def test_a_fault_is_found_and_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(path: Path) -> onnx.ModelProto:
        raise KeyError(path)

    monkeypatch.setattr(onnx_fuzzing, "load_onnx", broken)
    assert onnx_fuzzing.fuzz([network().SerializeToString()], 3, 1)["traceback"] == 3
    assert "KeyError" in capsys.readouterr().out


def body(*names: str) -> onnx.GraphProto:
    return helper.make_graph([helper.make_node("Relu", ["x"], names)], "body", [], [])


def twice() -> onnx.ModelProto:
    """A node that stands there twice made the passes go round for ever."""
    model = network()
    model.graph.node.append(model.graph.node[1])
    return model


def of_version(domain: str, version: int) -> onnx.ModelProto:
    model = one_op("Relu", X)
    model.opset_import.append(helper.make_opsetid(domain, version))
    model.graph.node[0].domain = domain
    return model


def old_with_another_domain() -> onnx.ModelProto:
    model = one_op("Relu", X, opset=6)
    model.graph.node[0].domain = "com.microsoft"
    return model


def with_condition(**branches: onnx.GraphProto) -> onnx.ModelProto:
    return onnx_model([helper.make_node("If", ["yes"], ["y"], **branches)], X, ["y"], {"yes": np.asarray(True)})


def written(name: str) -> onnx.ModelProto:
    return one_op("Add", X, {"c": 1.0}, outputs=(name,))


def unprintable_branch() -> onnx.ModelProto:
    return with_condition(then_branch=body("a\nb"), else_branch=body("y"))


def written_twice_in_a_branch() -> onnx.ModelProto:
    branch = body("y")
    branch.node.append(branch.node[0])
    branch.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return with_condition(then_branch=branch, else_branch=body("y"))


def outside_in_a_branch() -> onnx.ModelProto:
    branch = body("y")
    tensor = branch.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    return with_condition(then_branch=branch, else_branch=body("y"))


LSTM = {"w": np.ones((1, 8, 3), np.float32), "r": np.ones((1, 8, 2), np.float32)}
PLANTED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "a node twice": (twice, "node 'relu' writes 'relu', which is written before"),
    "an input written": (lambda: written("x"), "node 'node' writes 'x', which is an input of the model"),
    "a constant written": (lambda: written("c"), "node 'node' writes 'c', which is a constant"),
    "a name of 100,000 letters": (lambda: one_op("Relu", {"x" * 100_000: (2,)}), "a name of 100000 characters"),
    "a text of 100,000 letters": (
        lambda: one_op("Pad", X, {"p": [0] * 4}, mode="m" * 100_000),
        r"\(100002 characters\)",
    ),
    "a list of 100,000 numbers": (lambda: one_op("Split", X, {"s": [1] * 100_000}, 13), "elements do not split into"),
    "2^63 parts": (
        lambda: one_op("Split", X, opset=18, num_outputs=2**63 - 1),
        "do not split into 9223372036854775807",
    ),
    "2^40 rows": (lambda: one_op("Relu", {"x": (2**40, 2)}), "has more than 2147483647 elements"),
    "2^40 rows of a result": (lambda: one_op("Expand", X, {"to": [2**40, 2, 6]}), "is larger than 2147483648 bytes"),
    "2^40 classes": (
        lambda: one_op("OneHot", X, {"depth": 2**40, "v": [0, 1]}),
        "a constant of shape .* is larger than",
    ),
    "2^40 bins": (
        lambda: one_op("RoiAlign", {"x": (1, 1, 4, 4), "r": (1, 4)}, {"b": [0]}, output_height=2**40, sampling_ratio=1),
        "has more than 2147483647 elements",
    ),
    "a state of 2^40": (lambda: one_op("LSTM", {"x": (2, 1, 3)}, LSTM, hidden_size=2**40), "LSTM"),
    "two axes of three": (lambda: one_op("LSTM", {"x": (2, 3)}, LSTM, hidden_size=2), "three axes are needed"),
    "a branch that is missing": (lambda: with_condition(else_branch=body("y")), "it has no then_branch"),
    "a name in a branch": (unprintable_branch, "a name that cannot be printed"),
    "a node twice in a branch": (written_twice_in_a_branch, "which is written before"),
    "weights of a branch outside": (outside_in_a_branch, "'../secret' is not in the model's folder"),
    "version 2^40": (lambda: of_version("x", 2**40), "version 1099511627776 of domain 'x', which no domain has"),
    "an old opset and a domain without one": (old_with_another_domain, "which ONNX's converter does not bring to 7"),
    "a constant that is no number": (
        lambda: onnx_model([helper.make_node("Constant", [], ["y"], value_string="")], {}, ["y"]),
        "Constant",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_damage_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    make, text = PLANTED[name]
    (tmp_path / "net.onnx").write_bytes(make().SerializeToString())
    with within(20), pytest.raises(ModelError, match=text) as caught:
        convert(load_onnx(tmp_path / "net.onnx"))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 20_000


@pytest.mark.slow
def test_branches_in_branches_are_followed_or_refused(tmp_path: Path) -> None:
    graph = body("y")
    graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    for _ in range(30):
        node = helper.make_node("If", ["yes"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], "outer", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        if graph.ByteSize() > 1 << 20:
            break
    model = onnx_model(graph.node, X, ["y"], {"yes": np.asarray(True)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with within(60):
        try:
            converted, _ = convert(load_onnx(tmp_path / "net.onnx"))
        except FarmError as error:
            assert str(error).isprintable()
        else:
            assert [node.op for node in converted.nodes] == ["Relu"]

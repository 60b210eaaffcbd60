"""What the command line says of quantised models whose scales and zero points make no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm import cli
from tests.runtime.test_quantization import BAD, CONV, FIRST, LAST, WINDOWS, quantized
from tests.runtime.test_quantized_functions import COLUMNS, FLOATS, ROWS, Case

QDQ = [
    FIRST,
    ("DequantizeLinear", "q s z", "xf", {}),
    ("DequantizeLinear", "w ws wz", "wf", {"axis": 0}),
    ("Conv", "xf wf", "c", {"group": 2}),
    ("QuantizeLinear", "c s2 z2", "p", {}),
    LAST,
]
QOPERATOR = [FIRST, ("QLinearConv", "q s z w ws wz s2 z2 b", "p", WINDOWS), LAST]
ALONE = {"weights of floats", "a bias of another length", "several scales of the input"}  # of no DequantizeLinear
CASES = {
    **{f"QLinearConv: {name}": (QOPERATOR, *case) for name, case in BAD.items()},
    **{f"QDQ: {name}": (QDQ, case[0], "error: bad.onnx: node ") for name, case in BAD.items() if name not in ALONE},
}


COMMANDS = (["convert", "bad.onnx"], ["run", "bad.onnx", "--validate"], ["quantize", "bad.onnx", "--data", "."])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: str(words[0]))
@pytest.mark.parametrize("name", CASES)
def test_a_model_is_refused_in_one_line(
    name: str,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes, changed, text = CASES[name]
    given: dict[str, Any] = {**CONV, "b": np.zeros(6, np.int32), **changed}
    read = {word for _, inputs, _, _ in nodes for word in inputs.split()}
    model = quantized(nodes, {constant: value for constant, value in given.items() if constant in read})
    assert_refused(model, text, command, tmp_path, monkeypatch, capsys)


PRODUCT, SCALED = "x xs xz w ws wz c ys yz", "x w xs ws xz wz"
OF_ONNX_RUNTIME = {
    "a scale of 0": (
        Case("MatMulIntegerToFloat", SCALED, more={**COLUMNS, "xs": np.float32(0)}, x=ROWS),
        "'xs' holds 0",
    ),
    "a scale of integers": (
        Case("MatMulIntegerToFloat", SCALED, more={**COLUMNS, "ws": np.int32(1)}, x=ROWS),
        "not floats",
    ),
    "a scale of floats' product": (
        Case("DynamicQuantizeMatMul", "x w ws wz", more={**COLUMNS, "ws": np.zeros(7, np.float32)}, x=FLOATS),
        "'ws' holds 0",
    ),
    "a zero point of another type": (Case("QGemm", PRODUCT, more={**COLUMNS, "xz": np.int8(3)}, x=ROWS), "'x' uint8"),
    "a bias of floats": (
        Case("QGemm", PRODUCT, more={**COLUMNS, "c": np.zeros(7, np.float32)}, x=ROWS),
        "not integers",
    ),
    "a scale of the result": (
        Case("QGemm", PRODUCT, more={**COLUMNS, "ys": np.float32(np.nan)}, x=ROWS),
        "'ys' holds nan",
    ),
    "too few scales": (Case("QGemm", PRODUCT, more={**COLUMNS, "ws": np.ones(5, np.float32)}, x=ROWS), "do(es)? not"),
}


@pytest.mark.parametrize("name", OF_ONNX_RUNTIME)
def test_an_operator_of_onnx_runtime_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case, text = OF_ONNX_RUNTIME[name]
    assert_refused(case.model(), text, COMMANDS[0], tmp_path, monkeypatch, capsys)


def assert_refused(
    model: onnx.ModelProto,
    text: str,
    command: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    Path("bad.onnx").write_bytes(model.SerializeToString())
    assert cli.call(command) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: bad.onnx: node ") and said.err.count("\n") == 1 and not said.out
    assert re.search(text, said.err)
    left = {path.name for path in Path().rglob("*") if path.is_file()} - {"farm.db"}  # the store, without a row
    assert left == {"bad.onnx"}, "nothing is half-written"


@pytest.mark.slow
def test_sums_in_the_middle_of_two_steps_are_not_called_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales of 1 make integers of the inputs, and sums of them with weights in hundredths lie there by the dozen."""
    monkeypatch.chdir(tmp_path)
    scales = {"s": np.ones(4, np.float32), "z": np.zeros(4, np.uint8)}
    given = {name: value for name, value in {**CONV, **scales}.items() if name != "b"}
    Path("even.onnx").write_bytes(quantized(QDQ, given).SerializeToString())
    assert cli.call(["run", "even.onnx", "--validate", "--device", "host"]) == 0

"""What the command line says of quantised models whose scales and zero points make no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm import cli
from tests.runtime.test_quantization import BAD, CONV, FIRST, LAST, WINDOWS, quantized

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
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {**CONV, "b": np.zeros(6, np.int32), **changed}
    read = {word for _, inputs, _, _ in nodes for word in inputs.split()}
    model = quantized(nodes, {constant: value for constant, value in given.items() if constant in read})
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

"""ONNX Runtime leaves no trace of who uses farm: it keeps no identifier, and so has nothing to send."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import ROOT

CODE = """
import numpy as np
from onnx import TensorProto, helper

from farm.model.oracle import Oracle

value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
Oracle(model).outputs({"x": np.ones(1, np.float32)})
"""


@pytest.mark.slow
def test_the_oracle_leaves_the_home_folder_as_it_was(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["farm", "runtime", "tuner", "benchmarks"])
def test_one_file_alone_imports_it(package: str) -> None:
    files = [path for path in (ROOT / package).rglob("*.py") if "\nimport onnxruntime" in path.read_text()]
    assert [path.name for path in files] == (["onnx_runtime.py"] if package == "runtime" else [])

"""Custom operators on other units than this machine, and in bundles that are measured against each other."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest

from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.operators.conftest import EXAMPLE, replace

pytestmark = pytest.mark.slow


def test_a_phone_gets_the_library_and_runs_the_c_function(emulated: EmulatedUnits) -> None:
    emulated.phone()
    folder = emulated.folder / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    runpy.run_path(str(folder / "make_model.py"), run_name="__main__")
    replace(folder / "gated.yml", "runtime: gpu", "runtime: cpu")
    result = emulated.farm("run", str(folder / "gated.yml"), "--device", "mi8", "--validate", "--round", "2")
    assert (result.status, result.row["status"], result.row["unit"]) == (0, "ok", "mi8"), result
    assert result.row["cosine"] > 0.99999 and "operators" in result.row["hashes"]
    result = emulated.farm("run", str(folder / "gated.yml"), "--device", "mi8", "--example", "--round", "2")
    assert (result.status, result.row["status"]) == (0, "ok"), result


def test_two_versions_of_an_operator_are_compared(farm: CallFarm, example: Path) -> None:
    """Each bundle has its own kernel and its own library; the slower one loses."""
    other = example.parent / "other"
    shutil.copytree(example, other)
    repeated = "for (int again = 0; again < 2000; again++) for (int64_t i"
    replace(other / "gated.c", "for (int64_t i", repeated)
    replace(other / "gated.c", "y[i] = x[i]", "((volatile float *)y)[i] = x[i]")
    for folder in (example, other):
        replace(folder / "gated.yml", "runtime: gpu", "runtime: cpu")
    words = ["compare", str(example / "gated.yml"), str(other / "gated.yml"), "--runtime", "cpu", "--turns", "8"]
    words += ["--num-threads", "1"]  # no thread waits for another one on a busy machine
    status, output, errors = farm(*words, "--json")
    (row,) = json.loads(output)["rows"]
    assert (row["status"], row["outcome"]) == ("ok", "slower"), errors
    assert status == 1

"""Other engines on the ARM64 board, from their aarch64 wheels: in its Python, and by their C libraries."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.config.inventory import Unit
from farm.engines.base import EngineTask, EngineUnit
from farm.engines.litert import LiteRt
from farm.engines.ncnn import Ncnn
from farm.jobs.fleet.opening import open_unit
from tests.conftest import require
from tests.farm.engines.test_adapters import engine_model, write_chain
from tests.farm.model.tiny_model import write_deployment
from tests.integration.board_jobs import SOC
from tests.integration.conftest import CallFarm

pytestmark = pytest.mark.slow


def rows_of(farm: CallFarm, *engines: str) -> dict[str, dict[str, Any]]:
    """The rows of engines on the board, by name; all must be good, and right."""
    path = write_deployment(Path.cwd(), runtime="cpu")
    path.write_text(path.read_text().replace("target_abis: [host]", f"target_abis: [arm64]\ntarget_socs: [{SOC}]"))
    words = [word for engine in engines for word in ("--engine", engine)]
    status, out, err = farm("run", "tiny.yml", "--validate", "--json", "--round", "3", *words)
    assert status == 0, err or [row["reason"] for row in json.loads(out)["rows"]]
    rows = {row["engine"]: row for row in json.loads(out)["rows"]}
    for row in rows.values():
        assert row["soc"] == SOC and row["sqnr_db"] > 60 and len(row["latency_ms"]["samples"]) == 3
        assert row["init_ms"] > 0 < row["first_ms"] and row["file_bytes"]["engine"] > 1e6
    return rows


def test_onnx_runtime_runs_in_the_boards_python_and_by_its_c_library(unit: Unit, farm: CallFarm) -> None:
    in_c, in_python = "onnxruntime:runner=c", "onnxruntime:runner=python"
    rows = rows_of(farm, in_c, in_python)
    assert rows[in_c]["settings"]["nodes"] == rows[in_python]["settings"]["nodes"] == {"CPUExecutionProvider": 5}
    assert rows[in_c]["sqnr_db"] == rows[in_python]["sqnr_db"], "of the same code, the same outputs"
    assert rows[in_c]["peak_memory"]["resident_bytes"] < rows[in_python]["peak_memory"]["resident_bytes"]


def test_ncnn_runs_in_the_boards_python(unit: Unit, farm: CallFarm) -> None:
    require("ncnn", Ncnn().missing_converter())
    assert rows_of(farm, "ncnn")["ncnn"]["versions"]["ncnn"]


def test_litert_runs_by_its_c_library(unit: Unit) -> None:
    require("litert", LiteRt().missing())
    write_chain(Path("chain.tflite"), "NEG", "RELU", "ABS", "RELU", "NEG")
    model = engine_model(Path.cwd(), platform="tflite", source=Path("chain.tflite"))
    task = EngineTask(model, "cpu", {"x": np.array([[-1, 0, 2, -3]], np.float32)}, 3, 1, 2, {"runner": "c"})
    with open_unit(unit) as opened:
        link = opened.connection
        board = EngineUnit("board", "arm64", False, link.transport, link.store, list, 60.0)
        with LiteRt().ready(board) as run:
            done = run(task)
    assert done.outputs["y"].tolist() == [[-1.0, 0.0, 0.0, -3.0]] and len(done.samples_ms) == 3
    assert done.settings["nodes"] == {"delegate": 5, "cpu": 0} and done.version

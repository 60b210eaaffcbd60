"""Deployment files for the emulated board, and the rows of commands that must succeed there."""

import json
from pathlib import Path
from typing import Any

import onnx

from farm.emulation.debian_root import SOC
from tests.farm.model.tiny_model import write_deployment

MOBILENET = f"""\
library_name: small
target_abis: [arm64]
target_socs: [{SOC}]
models:
  small:
    platform: onnx
    model_file_path: zoo://mobilenet_v1?width=0.25&size=32&classes=10
    subgraphs:
      - input_tensors: [input]
        input_shapes: ["1,3,32,32"]
        output_tensors: [prob]
        output_shapes: ["1,10"]
    runtime: cpu
    data_type: fp32_fp32
"""


def deploy(folder: Path, abi: str = "arm64", model: onnx.ModelProto | None = None, **keys: str) -> None:
    """Writes tiny.yml and its model, for the CPU and OpenCL of the board; `keys` as of write_deployment."""
    path = write_deployment(folder, model, runtime="cpu+gpu", **keys)
    path.write_text(path.read_text().replace("target_abis: [host]", f"target_abis: [{abi}]\ntarget_socs: [{SOC}]"))


def rows_of(answer: tuple[int, str, str]) -> list[dict[str, Any]]:
    """The rows that a command printed as JSON; all must be good."""
    status, out, err = answer
    assert status == 0, err
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    assert [(row["status"], row["reason"]) for row in rows if row["status"] != "ok"] == []
    assert {row["soc"] for row in rows} == {SOC}
    return rows

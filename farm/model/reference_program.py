"""Runs ONNX Runtime for another process, which `reference_process.py` has started: a request a line, an answer a line.

A request names a model's file and those of inputs and outputs, `.npz` files with an array for each, `0`, `1`, ... An
answer has the outputs' names, or `error`: why there are none, in one line. A model is not run where a request names the
file `simplified`, but written there as ONNX Runtime's basic optimisations leave it.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from runtime.host.onnx_runtime import onnxruntime
from runtime.host.process_limits import bound_memory

ERRORS_ONLY = 3
# Quantised operators as the model has them, products of u8 and s8 that do not saturate where a CPU lacks VNNI, and
# threads that sleep while they wait for each other: others need the cores.
SETTINGS = {"session.disable_quant_qdq": "1", "session.x64quantprecision": "1", "session.intra_op.allow_spinning": "0"}
BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
Sessions = dict[str, Any]


def serve() -> None:
    """Answers until there are no requests any more; what libraries print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bound_memory(int(sys.argv[1]))
    sessions: Sessions = {}
    for line in sys.stdin:
        answer: dict[str, str | list[str]]
        try:
            request = json.loads(line)
            answer = {"names": simplify(request) if "simplified" in request else run(request, sessions)}
        except Exception as error:  # its exceptions have no common base of their own
            answer = {"error": (str(error).splitlines() or [""])[0] or type(error).__name__}
        print(json.dumps(answer), file=answers, flush=True)


def run(request: dict[str, Any], sessions: Sessions) -> list[str]:
    """Runs a model, which is loaded once, and writes its outputs; returns their names."""
    path = request["model"]
    if path not in sessions:
        sessions[path] = _session(path, _options(BASIC if request.get("exact") else ALL))
    with np.load(request["inputs"], allow_pickle=False) as values:
        inputs = {name: values[str(index)] for index, name in enumerate(request["names"])}
    outputs = [np.asarray(value) for value in sessions[path].run(None, inputs)]
    np.savez(request["outputs"], allow_pickle=False, **{str(index): value for index, value in enumerate(outputs)})
    return [info.name for info in sessions[path].get_outputs()]


def simplify(request: dict[str, Any]) -> list[str]:
    """Writes what the basic optimisations, which know ONNX's operators alone, make of a model."""
    options = _options(BASIC)
    options.optimized_model_filepath = request["simplified"]
    _session(request["model"], options)
    return []


def _options(level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = ERRORS_ONLY
    for key, value in SETTINGS.items():
        options.add_session_config_entry(key, value)
    return options


def _session(path: str, options: Any) -> Any:
    """Without the fusion that gives shapes the names which they have already in a model that was saved after it."""
    content = Path(path).read_bytes()
    try:
        return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    except Exception:  # its exceptions have no common base of their own
        return onnxruntime.InferenceSession(
            content, options, ["CPUExecutionProvider"], disabled_optimizers=["MatMulAddFusion"]
        )


if __name__ == "__main__":
    serve()

"""What runs on a unit, in its Python: loads a model into an engine, runs rounds, writes outputs and figures.

It is sent there as text, with the class of one adapter behind it (python_engine.py), so it imports nothing of farm. Its
only argument is a JSON object. It answers with a line of JSON each: once the model is loaded, and at the end; between
them with `progress`, once a second at most. What libraries print goes to the standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
import time
from typing import Any

PROGRESS_S = 1.0
NS_PER_MS = 1e6


def serve(engine: Any) -> None:
    """Does what the request asks; `engine` is the adapter's class."""
    request = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    stage = "import"
    try:
        sys.path[:0] = request["packages_at"]
        importlib.import_module(request["module"])
        stage = "load"
        since = _forget_peak()
        begin = time.perf_counter_ns()
        loaded = engine(request["files"], request["threads"], **request["options"])
        init_ms = (time.perf_counter_ns() - begin) / NS_PER_MS
        version = importlib.metadata.version(request["package"])
        _say(answers, {"version": version, "init_ms": init_ms, "nodes": getattr(loaded, "nodes", {})})
        stage = "run"
        _say(answers, {**_rounds(request, loaded, answers), "peak_bytes": _peak_bytes(), "peak_since": since})
    except Exception as error:  # of whatever class an engine raises
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = f"{type(error).__name__}: {' '.join(lines)}" if lines else type(error).__name__
        _say(answers, {"stage": stage, "error": text[:2000]})


def _rounds(request: Any, loaded: Any, answers: Any) -> dict[str, Any]:
    import numpy as np

    inputs = {name: np.load(path, allow_pickle=False) for name, path in request["inputs"].items()}
    told = time.monotonic()
    samples_ms: list[float] = []
    for _ in range(1 + request["warmup"] + request["rounds"]):
        begin = time.perf_counter_ns()
        outputs = loaded.run(inputs)
        samples_ms.append((time.perf_counter_ns() - begin) / NS_PER_MS)
        if time.monotonic() - told > PROGRESS_S:
            print("progress", file=answers, flush=True)
            told = time.monotonic()
    for name, path in request["outputs"].items():
        np.save(path, np.asarray(outputs[name]), allow_pickle=False)
    return {"first_ms": samples_ms[0], "samples_ms": samples_ms[1 + request["warmup"] :]}


def _say(answers: Any, answer: Any) -> None:
    print(json.dumps(answer), file=answers, flush=True)


def _forget_peak() -> str:
    """Lets the highest resident set count from now; since when it counts."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
        file.write("5")
        return "load"
    return "start"


def _peak_bytes() -> int | None:
    with contextlib.suppress(OSError), open("/proc/self/status") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None

"""ONNX Runtime in a process of its own: its crash, time and memory stay there, and are an error in one line."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runtime.errors import NoReferenceError
from runtime.graph import Array

DEADLINE_S = 900.0
LEAST_MEMORY_BYTES = 8 * 1024**3  # of address space, of which its libraries take a part
PROGRAM = "farm.model.reference_program"
TREE = Path(__file__).parents[2]
AT_A_TIME = 1 << 16
WHO = "ONNX Runtime, the reference,"


def memory_limit_bytes() -> int:
    """How much address space the process may use: what this machine has of memory."""
    return max(LEAST_MEMORY_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


class ReferenceProcess:
    """Starts with the first model that it runs, and again after it ended; it ends with this object.

    Args:
        is_exact: operators are run as the model has them. Else they are fused, which sums in another order: a
            quantised value that lies near the middle of two steps then takes the other one.
    """

    def __init__(self, deadline_s: float = DEADLINE_S, memory_bytes: int | None = None, is_exact: bool = False) -> None:
        self._deadline_s, self._is_exact = deadline_s, is_exact
        self._memory_bytes = memory_bytes or memory_limit_bytes()
        self._folder = Path(tempfile.mkdtemp(prefix="farm-reference-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._models: dict[bytes, Path] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, model: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of a model by name; NoReferenceError where it refuses the model, ends, or takes too long."""
        folder = self._folder
        if model not in self._models:
            self._models[model] = folder / f"{len(self._models)}.onnx"
            self._models[model].write_bytes(model)
        given, made = folder / "inputs.npz", folder / "outputs.npz"
        np.savez(given, allow_pickle=False, **{str(index): value for index, value in enumerate(inputs.values())})
        files = {"model": str(self._models[model]), "inputs": str(given), "outputs": str(made)}
        request = {**files, "names": [*inputs], "exact": self._is_exact}
        answer = self._answer(request)
        with np.load(made, allow_pickle=False) as values:
            return {name: values[str(index)] for index, name in enumerate(answer["names"])}

    def simplified(self, model: bytes) -> bytes:
        """The model with constants folded and batch normalisations merged, of ONNX's operators; errors as in `run`."""
        given, made = self._folder / "given.onnx", self._folder / "simplified.onnx"
        given.write_bytes(model)
        self._answer({"model": str(given), "simplified": str(made)})
        return made.read_bytes()

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._ask(json.dumps(request))
        if "error" in answer:
            raise NoReferenceError(f"{WHO} refuses the model: {answer['error']}")
        return answer

    def _ask(self, request: str) -> dict[str, Any]:
        process = self._process or self._started()
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended, which reading tells
            process.stdin.write(f"{request}\n".encode())
            process.stdin.flush()
        try:
            line = _line(process, self._deadline_s)
        except BaseException:
            self._end()
            raise
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = process.wait()
        self._end()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        most = f"{self._memory_bytes / 1024**3:.0f} GiB"
        raise NoReferenceError(f"{WHO} ended with {how}: the model makes it crash, or needs more than {most}")

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(self._memory_bytes)],
            cwd=TREE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._process = process
        weakref.finalize(self, _stop, process)
        return process

    def _end(self) -> None:
        if self._process is not None:
            _stop(self._process)
        self._process = None


def _line(process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
    """The next line that a process writes; none where it ends. NoReferenceError where it is late."""
    assert process.stdout
    end, line = time.monotonic() + deadline_s, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise NoReferenceError(f"{WHO} did not finish within {deadline_s:.0f} s")
        part = os.read(process.stdout.fileno(), AT_A_TIME)
        if not part:
            return b""
        line += part
    return line


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what it did not read any more
                pipe.close()

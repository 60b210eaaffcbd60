"""Feeds mutated models to the importers of other frameworks: every one must end in an ONNX model or in one line.

    python -m benchmarks.import_fuzzing MODEL.keras PLATFORM INPUT SHAPE OUTPUT [--count N] [--seed S] [--code]

The framework is loaded once and forked for each mutant, within the bounds that farm sets for its process. What ends
that process (a crash of native code) is told by farm in one line too, and counted apart; a hang or a traceback is a
fault.
"""

import argparse
import collections
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from runtime.errors import ModelError
from runtime.frameworks import file_kinds, process
from runtime.frameworks.process import FRAMEWORKS
from runtime.frameworks.programs import program
from runtime.frameworks.request import FrameworkRequest

HANG_S = 120.0
OUTCOMES = ("converted", "refused before", "refused", "crashed", "hung", "traceback")
FAULTS = ("hung", "traceback")
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with a few bytes changed, a piece removed, doubled or moved, or its end cut off."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, length = rng.randrange(len(data)), rng.choice((1, 2, 4, 8, 64, 512))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] = rng.choice(INTERESTING)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at : at + length] = rng.randbytes(length)
        elif kind == 3 and len(data) > 2 * length:
            del data[at : at + length]
        elif kind == 4:
            data[at:at] = data[at : at + length]
        elif rng.random() < 0.3:
            del data[max(at, 16) :]
    return bytes(data)


def mutated_archive(content: bytes, rng: random.Random, scratch: Path) -> bytes:
    """A zip file whose checksums are right and one of whose entries is mutated: what plain mutation never passes."""
    source, result = scratch / "source.zip", scratch / "result.zip"
    source.write_bytes(content)
    with zipfile.ZipFile(source) as given, zipfile.ZipFile(result, "w") as changed:
        chosen = rng.choice([entry for entry in given.namelist() if given.getinfo(entry).file_size])
        for entry in given.namelist():
            text = given.read(entry)
            changed.writestr(entry, mutated(text, rng) if entry == chosen else text)
    return result.read_bytes()


def outcome(request: FrameworkRequest, folder: Path) -> tuple[str, str]:
    """How the conversion of a mutant ends, and what is said."""
    try:
        file_kinds.check(request.platform, request.path)
        memory_bytes = process.memory_limit_bytes(request.path)
    except ModelError as error:
        return "refused before", str(error)
    asked = {"action": "convert", "memory_bytes": memory_bytes, "request": request.to_json()}
    (folder / process.REQUEST).write_text(json.dumps(asked))
    status = _forked(request, folder)
    answer = folder / process.ANSWER
    if status is None:
        return "hung", f"after {HANG_S:.0f} s"
    if not answer.is_file():
        return ("crashed", signal.Signals(-status).name) if status < 0 else ("traceback", (folder / "log").read_text())
    said = json.loads(answer.read_text())["error"]
    return ("refused", said) if said else ("converted", "")


def _forked(request: FrameworkRequest, folder: Path) -> int | None:
    """Converts in a fork of this process, where the framework is loaded already; its status, None where it hung."""
    child = os.fork()
    if child == 0:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        module = importlib.import_module(FRAMEWORKS[request.platform].program)
        try:
            os._exit(program.serve(folder, module.TITLE, module.describe, module.to_onnx, module.run))
        except BaseException as error:  # whatever it is, this copy of the process must end here
            os.write(2, repr(error).encode())
            os._exit(1)
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def fuzz(model: Path, request: FrameworkRequest, count: int, seed: int) -> collections.Counter[str]:
    """Converts `count` mutants; prints the fault of each that is one."""
    content, found = model.read_bytes(), collections.Counter[str]()
    for name in (*FRAMEWORKS[request.platform].to_convert, FRAMEWORKS[request.platform].program):
        importlib.import_module(name.replace("-", "_"))
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            is_archive = content.startswith(file_kinds.ZIP) and rng.random() < 0.8
            mutant = mutated_archive(content, rng, folder) if is_archive else mutated(content, rng)
            path = folder / f"mutant{model.suffix}"
            path.write_bytes(mutant)
            asked = FrameworkRequest(request.platform, str(path), request.inputs, request.outputs, request.trusted)
            kind, text = outcome(asked, folder)
        found[kind] += 1
        if kind in FAULTS or "\n" in text:
            print(f"{model.name}, seed {seed}, mutant {number}: {kind}: {text}")
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.import_fuzzing")
    for name in ("model", "platform", "input", "shape", "output"):
        parser.add_argument(name)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--code", action="store_true", help="let models hold code, as --trust-model does")
    given = parser.parse_args(arguments)
    shape = tuple(map(int, given.shape.split(",")))
    request = FrameworkRequest(given.platform, given.model, ((given.input, shape),), (given.output,), given.code)
    os.environ.update(process.environment(request))
    began = time.monotonic()
    found = fuzz(Path(given.model), request, given.count, given.seed)
    counts = ", ".join(f"{found[kind]} {kind}" for kind in OUTCOMES)
    print(f"{Path(given.model).name}: {given.count} mutants in {time.monotonic() - began:.0f} s: {counts}")
    return int(any(found[kind] for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

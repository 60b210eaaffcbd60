"""Mutated plans, weights, tuned parameters and compiled kernels: `python -m tests.native.fuzz --count 100000`.

farmrt loads and runs them in one process under the address and undefined-behaviour sanitizers, with an OpenCL library
that launches nothing. The first case that crashes, hangs or breaks a rule ends the run and is named.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runtime.lowering.lower import lower
from runtime.lowering.trials import trial_plan
from runtime.native.build import build_farmrt
from runtime.plan.container import StringTable, decode_container, encode_container, string_reader
from runtime.plan.encode import encode_plan
from runtime.plan.records import KERNELS_MAGIC, PLAN_MAGIC, SectionId
from runtime.target import Target
from runtime.types import Precision
from runtime.version import RUNTIME_VERSION
from tests.native import test_cpu_blocked
from tests.native.artifacts import tuned_entry, tuned_file
from tests.native.plans import table
from tests.native.test_cpu_operators import CPU_CASES, plan_of
from tests.native.test_execute import axpy_plan
from tests.native.test_tuning import dense_plan
from tests.runtime.generic_cases import GENERIC_CASES
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import NETWORKS

CPU = Target("host", "host", memory="cpu")
GPU = {"soc": "host", "abi": "host", "gpu_family": "fake"}
TARGETS = (
    CPU,
    Target(**GPU, memory="buffer"),
    Target(**GPU, memory="image"),
    Target(**GPU, memory="buffer", precision=Precision.FP16_STORAGE),
)
BATCH = 5000
GENERIC_STEP = 7  # every so-manieth case: they are many of one kind


def corpus() -> Iterator[tuple[bytes, bytes]]:
    """Plan and data files: every CPU operator, small networks on every target, plans of trials."""
    for case in CPU_CASES.values():
        yield plan_of(case, 8)[0].files()
    for launch in test_cpu_blocked.launches():
        yield test_cpu_blocked.plan_of(launch)[0].files()
    yield axpy_plan()[0].files()
    yield dense_plan()[0].files()
    for network in NETWORKS:
        for target in TARGETS:
            plan = lower(network(GraphMaker()), target)
            yield encode_plan(plan), plan.data
    for case in GENERIC_CASES[::GENERIC_STEP]:
        plan = lower(case.graph().graph, CPU)
        yield encode_plan(plan), plan.data
    trials = trial_plan([NETWORKS[0](GraphMaker())], TARGETS[1])
    yield encode_plan(trials.plan), bytes(trials.plan.data)


def write_corpus(folder: Path) -> int:
    """Writes every sample with tuned parameters and compiled kernels that fit it; returns how many."""
    for index, (plan, data) in enumerate(corpus()):
        sections = decode_container(plan, PLAN_MAGIC, "plan")
        read = string_reader(sections)
        names = fingerprint_of(read(sections[SectionId.META][0]["source_hash"]))
        for kind, content in {
            "plan": plan,
            "data": data,
            "tuned": tuned_file([(names | {"gpu": "other"}, []), (names, list(entries_of(sections, read)))]),
            "kernels": kernels_file(names, sections, read),
        }.items():
            (folder / f"{index}.{kind}").write_bytes(content)
    return index + 1


def fingerprint_of(source_hash: str) -> dict[str, str]:
    """What the fake device is."""
    names = {"soc": "host", "gpu": "Fake GPU", "driver": "1.0", "opencl": "OpenCL 1.1 Fake", "gpu_family": "fake"}
    return names | {"source_hash": source_hash, "runtime_version": RUNTIME_VERSION, "device_model": "x"}


def entries_of(sections: Any, read: Any) -> Iterator[dict[str, Any]]:
    """A tuned entry for every step that has a key, with another packing."""
    for step in sections.get(SectionId.STEP, ()):
        key = read(step["tuning_key"])
        if key:
            yield tuned_entry(key, read(step["kernel"]), "-DBLOCK=4", [8, 8], [2, 4], 4)


def kernels_file(names: dict[str, str], sections: Any, read: Any) -> bytes:
    """Binaries of every program of a plan, as the fake library understands them."""
    strings = StringTable()
    blob = bytearray()
    rows = []
    for program in sections.get(SectionId.PROGRAM, ()):
        content = read(program["name"]).encode() * 3
        key = strings.add(f"{read(program['source_hash'])}|{read(program['options'])}")
        rows.append({"offset": len(blob), "size": len(content), "key": key})
        blob += content
    texts = {name: strings.add(text) for name, text in names.items()}
    made = {
        SectionId.SET: table(SectionId.SET, [texts | {"first_entry": 0, "entry_count": len(rows)}]),
        SectionId.BINARY: table(SectionId.BINARY, rows),
        SectionId.BLOB: np.frombuffer(bytes(blob), np.uint8),
    }
    return encode_container(KERNELS_MAGIC, made | {SectionId.STRINGS: strings.section()})


def run(corpus_folder: Path, first: int, last: int, seed: int) -> dict[str, int]:
    """Runs cases; returns what they reached. Raises CalledProcessError with the sanitizer's report."""
    folder = build_farmrt(sanitize=True).parent
    words = [folder / "fuzz", corpus_folder, str(first), str(last), str(seed), folder / "libfake_opencl.so"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr}"
    reached: dict[str, int] = json.loads(done.stdout)
    return reached


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to run one again")
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    start, last = time.monotonic(), settings.first + settings.count
    total: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder))
        for first in range(settings.first, last, BATCH):
            reached = run(Path(folder), first, min(first + BATCH, last), settings.seed)
            total = {name: total.get(name, 0) + count for name, count in reached.items()} | {
                "samples": reached["samples"]
            }
            print(f"{min(first + BATCH, last)} cases, {time.monotonic() - start:.0f} s: {total}", flush=True)


if __name__ == "__main__":
    main()

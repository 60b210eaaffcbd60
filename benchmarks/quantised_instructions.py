"""How many instructions of an arm64 CPU a network takes in halves and in bytes over those in floats: counted in qemu
(`benchmarks/instructions.py`).

An instruction is no cycle: of a product of halves it does twice as much as of floats, of bytes four times (SDOT), or
eight times (I8MM).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import quantised_speed
from benchmarks.instructions import MILLION, of_a_round
from runtime.lowering.lower import lower
from runtime.target import Target
from runtime.types import Precision

NETWORKS = ("mobilenet_v1?size=64", "mobilenet_v1", "resnet50?size=64")  # qemu writes a line for each block it runs
CPUS = {"SDOT": ("neoverse-n1", "dotprod"), "I8MM": ("max", "i8mm")}  # qemu's CPU, and farmrt's instruction set
ABI = "arm64"
TARGET = Target("arm64", ABI, memory="cpu")
HALVES = dataclasses.replace(TARGET, precision=Precision.FP16)


def table(networks: list[str]) -> Iterator[str]:
    """The lines: millions of instructions of one inference in floats, and the ratios in halves and each CPU's bytes."""
    columns = ["halves over floats", *(f"{name} over floats" for name in CPUS)]
    yield f"| | millions in floats | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * (1 + len(columns))}"
    for network in networks:
        with TemporaryDirectory() as folder:
            floats, whole, _ = quantised_speed.zoo_models(network, Path(folder))
            plain, *others = (
                of_a_round(ABI, lower(floats.graph, TARGET), *CPUS["SDOT"]),
                of_a_round(ABI, lower(floats.graph, HALVES), *CPUS["SDOT"]),
                *(of_a_round(ABI, lower(whole.graph, TARGET), *cpu) for cpu in CPUS.values()),
            )
            ratios = " | ".join(f"{each / plain:.2f}" for each in others)
            yield f"| {network} | {plain / MILLION:.0f} | {ratios} |"

"""Threads, CPUs, hints, split launches and memory of whole jobs, as their rows and tables tell."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

import farm
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.model.tiny_model import write_deployment
from tests.native.fake_driver import fake_driver

CPU = str(max(os.sched_getaffinity(0)))
ONE_CPU = f"{CPU}-{CPU}"  # as a list: a number alone is one of MACE's policies
TOO_MANY = (os.cpu_count() or 1) + 30  # threads
QUALCOMM = "cl_qcom_perf_hint cl_qcom_priority_hint"
HINTS = ("--gpu_perf_hint", "high", "--gpu_priority_hint", "low")
SMALL = """\
library_name: small
target_abis: [host]
models:
  small:
    platform: onnx
    model_file_path: zoo://mobilenet_v1?width=0.25&size=64&classes=10
    subgraphs:
      - input_tensors: [input]
        input_shapes: ["1,3,64,64"]
        output_tensors: [prob]
    runtime: gpu
    data_type: fp32_fp32
    limit_opencl_kernel_time: 1
"""


def row_of(answer: tuple[int, str, str]) -> dict[str, Any]:
    """The only row of a command that printed JSON."""
    (row,) = json.loads(answer[1])["rows"]
    return dict(row)


@pytest.mark.slow
def test_affinity_and_memory_of_the_host(farm: CallFarm, own_folder: Path) -> None:
    """The command line goes before the file; what the kernel says of each thread stands in the row."""
    write_deployment(own_folder, runtime="cpu", num_threads="2", cpu_affinity_policy="none")
    words = ("run", "tiny.yml", "--round", "2", "--omp_num_threads", "1", "--cpu_affinity_policy", ONE_CPU)
    row = row_of(farm(*words, "--json"))
    assert row["settings"]["num_threads"] == 1 and row["settings"]["cpu_affinity_policy"] == ONE_CPU
    del row["cpu"]["instruction_set"]
    assert row["cpu"] == {"threads": 1, "policy": ONE_CPU, "cpus": CPU, "cpus_in_force": [CPU]}
    assert row["gpu_perf_hint"] is row["launch_limit"] is None
    memory = row["peak_memory"]
    assert memory["resident_bytes"] > sum(row["memory_bytes"].values())
    assert (memory["gpu_bytes"], memory["reason"]) == (None, "runtime cpu uses no GPU memory")
    status, shown, _ = farm(*words, "-v")
    assert status == 0 and f"cpu_affinity_policy {ONE_CPU}: 1 threads on CPUs {CPU}\n" in shown
    assert "Planned(MB) | Peak(MB) | GPU(MB)" in shown


@pytest.mark.slow
def test_more_threads_than_cpus_are_told(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu", num_threads=str(TOO_MANY))
    status, shown, _ = farm("run", "tiny.yml", "--round", "1")
    assert status == 0 and f"{TOO_MANY} threads share the CPUs " in shown
    status, shown, _ = farm("run", "tiny.yml", "--round", "1", "--cpu_affinity_policy", "big_only")
    assert status == 0 and f", not {TOO_MANY}: one for each CPU" in shown
    status, _, said = farm("run", "tiny.yml", "--cpu_affinity_policy", ONE_CPU)
    assert status == 1
    assert f"affinity: {TOO_MANY} threads do not fit on CPUs {CPU}; ask for at most 1" in said


def test_a_policy_that_is_none(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder)
    status, _, said = farm("run", "tiny.yml", "--cpu_affinity_policy", "big")
    assert status == 2 and "'big' is no affinity; write none, big_only, little_only" in said


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "benchmark"])
def test_a_benchmark_tells_the_same(farm: CallFarm, own_folder: Path, command: str) -> None:
    write_deployment(own_folder, runtime="cpu")
    words = (command, "tiny.yml", "--round", "2", "--cpu_affinity_policy", ONE_CPU)
    row = row_of(farm(*words, "--json"))
    assert row["cpu"]["cpus_in_force"] == [CPU] and row["peak_memory"]["resident_bytes"] > 0
    shown = farm(*words, "-v")[1]
    assert "Peak(MB)" in shown and f"1 threads on CPUs {CPU}" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "perf", "priority"),
    [
        (
            {"FAKE_OPENCL_EXTENSIONS": QUALCOMM},
            {"asked": "high", "outcome": "applied", "extension": "cl_qcom_perf_hint"},
            {"asked": "low", "outcome": "applied", "extension": "cl_qcom_priority_hint"},
        ),
        (
            {"FAKE_OPENCL_EXTENSIONS": QUALCOMM, "FAKE_OPENCL_REFUSE": "40c9"},
            {"asked": "high", "outcome": "applied", "extension": "cl_qcom_perf_hint"},
            {"asked": "low", "outcome": "refused", "extension": "cl_qcom_priority_hint"},
        ),
        (
            {"FAKE_OPENCL_EXTENSIONS": "cl_khr_fp16"},
            {"asked": "high", "outcome": "not supported", "extension": ""},
            {"asked": "low", "outcome": "not supported", "extension": ""},
        ),
    ],
    ids=["listed", "refused", "not listed"],
)
def test_hints_of_a_run(
    farm: CallFarm,
    own_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    perf: dict[str, str],
    priority: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    write_deployment(own_folder)
    words = ("run", "tiny.yml", "--round", "2", "--opencl", str(fake_driver()), *HINTS)
    row = row_of(farm(*words, "--json"))
    assert (row["gpu_perf_hint"], row["gpu_priority_hint"]) == (perf, priority)
    assert f"gpu_priority_hint low: {priority['outcome']}" in farm(*words)[1]


@pytest.mark.slow
def test_hints_of_single_operators(farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OPENCL_EXTENSIONS", QUALCOMM)
    words = ("opbench", "--filter", "^softmax/buffer/fp32/.*", "--min-time", "0.001", "--opencl", str(fake_driver()))
    rows = json.loads(farm(*words, *HINTS, "--json")[1])["rows"]
    assert {row["gpu_perf_hint"]["outcome"] for row in rows} == {"applied"}
    assert rows[0]["settings"]["gpu_perf_hint"] == "high"


def begins_later(offset: str) -> bool:
    """Whether a launch is not the first part of its step."""
    return any(map(int, offset.split(",")))


def items(launches: list[list[str]]) -> int:
    """Work items of all launches."""
    return sum(math.prod(map(int, size.split(","))) for _, size in launches)


@pytest.mark.slow
def test_launches_are_split_without_a_tuned_file(
    farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each launch takes 3 ms on this driver: the first round is measured, then those that can be are split."""
    record = own_folder / "record"
    monkeypatch.setenv("FAKE_OPENCL_LAUNCH_NS", "3000000")
    monkeypatch.setenv("FAKE_OPENCL_RECORD", str(record))
    (own_folder / "small.yml").write_text(SMALL)
    words = ("run", "small.yml", "--round", "1", "--warmup", "0", "--opencl", str(fake_driver()))
    row = row_of(farm(*words, "--json"))
    assert row["tuned"]["match"] == "none" and row["settings"]["limit_opencl_kernel_time"] is True
    launches = [line.split()[1:] for line in record.read_text().splitlines() if line.startswith("launch")]
    steps = len(launches) - row["launch_limit"]["launches"]
    measured, split = launches[:steps], launches[steps:]
    assert not any(begins_later(offset) for offset, _ in measured)
    assert row["launch_limit"]["split_steps"] > 10 and len(split) > steps
    assert sum(begins_later(offset) for offset, _ in split) == len(split) - steps
    assert items(split) == items(measured)
    assert f"{row['launch_limit']['launches']} launches a round" in farm(*words)[1]


@pytest.mark.slow
@pytest.mark.opencl
def test_memory_of_an_emulated_phone(emulated: EmulatedUnits) -> None:
    """Android's dumpsys tells what the GPU's driver holds; the kernel what is resident."""
    phone = emulated.phone()
    row = emulated.run().row
    assert row["outputs"] and not list(phone.root.rglob("output*.bin"))  # what was compared is not left there
    memory = row["peak_memory"]
    assert memory["gpu_source"] == "dumpsys meminfo" and memory["reason"] == ""
    assert memory["gpu_bytes"] > 0 and sum(row["memory_bytes"].values()) < memory["resident_bytes"]
    assert memory["resident_since"] == "load"


@pytest.mark.slow
@pytest.mark.opencl
def test_affinity_on_an_emulated_phone(emulated: EmulatedUnits) -> None:
    emulated.phone()
    write_deployment(emulated.folder, runtime="cpu")
    row = emulated.run("--cpu_affinity_policy", ONE_CPU).row
    assert (row["status"], row["cpu"]["cpus_in_force"]) == ("ok", [CPU])
    refused = emulated.run("--cpu_affinity_policy", "900-900").row
    assert refused["status"] == "unsupported" and "affinity: CPU 900 does not exist; there are 0" in refused["reason"]


def test_a_script_gives_the_same(own_folder: Path) -> None:
    path = write_deployment(own_folder, runtime="cpu")
    (row,) = farm.run(path, rounds=1, num_threads=1, cpu_affinity_policy=ONE_CPU)
    assert row.cpu and row.cpu.cpus_in_force == (CPU,) and row.cpu.is_in_force
    with pytest.raises(ConfigError, match="gpu_perf_hint"):
        next(farm.opbench(gpu_perf_hint="warp"))

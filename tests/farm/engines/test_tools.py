"""Vendors' benchmark programs as engines: their figures are found in what they print (shortened here)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.farm.conftest import CallFarm
from tests.farm.engines.test_command import row_of, write_program

# LiteRT's benchmark_model. Times are microseconds.
BENCHMARK_MODEL = """\
INFO: STARTING!
INFO: Log parameter values verbosely: [0]
INFO: Graph: [net.tflite]
INFO: Loaded model net.tflite
INFO: Applied NNAPI delegate, and the model graph will be partially executed by the delegate w/ 2 delegate kernels.
INFO: The input model file size (MB): 13.96
INFO: Initialized session in 9.875ms.
INFO: Running benchmark for at least 1 iterations and at least 0.5 seconds but terminate if exceeding 150 seconds.
INFO: count=31 first=18200 curr=15877 min=15800 max=18200 avg=16100.5 std=420 p5=15810 median=16010 p95=16900
INFO: Running benchmark for at least 50 iterations and at least 1 seconds but terminate if exceeding 150 seconds.
INFO: count=63 first=15902 curr=15950 min=15790 max=16200 avg=15934.2 std=66 p5=15820 median=15930 p95=16050
INFO: Inference timings in us: Init: 9875, First inference: 18200, Warmup (avg): 16100.5, Inference (avg): 15934.2
INFO: Overall peak memory footprint (MB) via periodic monitoring: 38.5
"""
BENCHNCNN = """\
loop_count = 8
num_threads = 4
powersave = 2
gpu_device = -1
cooling_down = 1
          squeezenet  min =    6.12  max =    6.38  avg =    6.21
           mobilenet  min =    9.05  max =    9.40  avg =    9.17
"""
QNN_NET_RUN = """\
Dsp Driver Path: /vendor/lib64/libcdsprpc.so
Graph: net, execution 1 of 3: 2417 us
Graph: net, execution 2 of 3: 2390 us
Graph: net, execution 3 of 3: 2402 us
Finished Executing Graphs
"""
TOOLS = {
    "benchmark_model": (
        BENCHMARK_MODEL,
        "['--graph={source}', '--use_nnapi=true']",
        {
            "first_us": (r"First inference: (\d+)", "us", [18200.0]),
            "median_us": (r"^INFO: count=\d+ .*median=(\d+) .*\nINFO: Inference timings", "us", [15930.0]),
            "peak_mb": (r"peak memory footprint .*: ([0-9.]+)", "MB", [38.5]),
            "delegate_kernels": (r"delegate w/ (\d+) delegate kernels", "kernels", [2.0]),
        },
    ),
    "benchncnn": (
        BENCHNCNN,
        '["{rounds}", "4", "2", "-1"]',
        {"squeezenet": (r"^ *squeezenet .*avg = +([0-9.]+)", "ms", [6.21])},
    ),
    "qnn-net-run": (
        QNN_NET_RUN,
        "[--backend, libQnnHtp.so, --model, libnet.so]",
        {"execution_us": (r"execution \d+ of \d+: (\d+) us", "us", [2417.0, 2390.0, 2402.0])},
    ),
}


@pytest.mark.slow
def test_a_tool_that_farm_knows_takes_part_in_the_turns(farm: CallFarm, own_folder: Path) -> None:
    write_program(f"cat <<'END'\n{BENCHMARK_MODEL}END", "benchmark_model")
    Path("engines.yml").write_text("engines:\n  tflite: {tool: benchmark_model, program: ./benchmark_model}\n")
    status, row = row_of(farm, "tflite")
    assert (status, row["status"], row["figures"]) == (0, "ok", []), row["reason"]
    assert row["latency_ms"]["samples"] == [pytest.approx(15.9342)]
    assert (row["init_ms"], row["first_ms"]) == (pytest.approx(9.875), pytest.approx(18.2))


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_figures_of_a_tool_are_found(farm: CallFarm, own_folder: Path, tool: str) -> None:
    printed, arguments, figures = TOOLS[tool]
    write_program(f"cat <<'END'\n{printed}END", tool)
    lines = [f"      {name}: {{pattern: '{pattern}', unit: {unit}}}" for name, (pattern, unit, _) in figures.items()]
    head = ["engines:", f"  {tool}:", f"    program: {{host: ./{tool}}}", f"    arguments: {arguments}", "    figures:"]
    Path("engines.yml").write_text("\n".join([*head, *lines]) + "\n")
    status, row = row_of(farm, tool)
    assert (status, row["status"], row["engine"]) == (0, "ok", tool)
    assert {each["name"]: each["samples"] for each in row["figures"]} == {
        name: samples for name, (_, _, samples) in figures.items()
    }
    assert row["hashes"]["engine"] and row["settings"]["argv"]

"""Programs of engines.yml as engines: sent, run under the lease, read for figures; and every way to go wrong."""

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import pytest

from farm.config.engine_file import load_engine_file
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import write_deployment

# As llama-bench -o json writes: a list of tests, prompts before generation.
BENCH = """\
[
  {"build_commit": "0", "model_type": "llama 1B Q4_0", "n_prompt": 512, "n_gen": 0,
   "avg_ts": 101.0, "stddev_ts": 1.0, "samples_ns": [5120000000, 5019607843], "samples_ts": [100.0, 102.0, 101.0]},
  {"build_commit": "0", "model_type": "llama 1B Q4_0", "n_prompt": 0, "n_gen": 128,
   "avg_ts": 11.5, "stddev_ts": 0.5, "samples_ts": [11.0, 12.0]}
]
"""
LLAMA = """\
engines:
  llama:
    program: {host: ./bench}
    arguments: [-m, "{weights}", -r, "{rounds}", "-t{threads}"]
    files: {weights: weights.gguf}
    time_limit: 20
    figures:
      prompt: {json: 0.samples_ts.*, unit: tokens/s, better: up}
      generated: {json: 1.samples_ts.*, unit: tokens/s, better: up}
"""
SHELL = """\
engines:
  timer:
    program: sh
    arguments: [-c, "SCRIPT", sh, "{onnx}"]
    time_limit: 1
    figures:
      latency_ms: {pattern: "round: ([0-9.]+) ms", unit: ms}
"""


def write_program(script: str, name: str = "bench") -> Path:
    path = Path(name)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def row_of(farm: CallFarm, engine: str, *more: str) -> tuple[int, dict[str, Any]]:
    write_deployment(Path.cwd(), runtime="cpu")
    status, out, err = farm("run", "tiny.yml", "--engine", engine, "--json", "--device", "host", *more)
    assert out, err
    (row,) = json.loads(out)["rows"]
    return status, row


def test_a_program_is_sent_with_its_files_and_its_json_is_read(farm: CallFarm, own_folder: Path) -> None:
    Path("engines.yml").write_text(LLAMA)
    Path("weights.gguf").write_text("weights")
    write_program(f"cat $2 >&2; echo $* > said; cat <<'END'\n{BENCH}END")
    status, row = row_of(farm, "llama", "--round", "3", "--num_threads", "2", "--validate")
    assert (status, row["status"], row["engine"], row["latency_ms"]) == (0, "ok", "llama", None)
    assert [(each["name"], each["value"], each["unit"], each["better"]) for each in row["figures"]] == [
        ("prompt", 101.0, "tokens/s", "up"),
        ("generated", 11.5, "tokens/s", "up"),
    ]
    assert row["figures"][1]["samples"] == [11.0, 12.0]
    sent, weights = Path("build/units/host/said").read_text().split(), hashlib.sha256(b"weights").hexdigest()
    assert sent == ["-m", f"objects/{weights}/data", "-r", "3", "-t2"] and row["hashes"]["weights"] == weights
    status, out, _ = farm("run", "tiny.yml", "--engine", "llama", "--device", "host")
    assert status == 0 and "tiny on host (llama): prompt 101 tokens/s" in out


@pytest.mark.slow
def test_a_known_tool_needs_no_figures(farm: CallFarm, own_folder: Path) -> None:
    Path("engines.yml").write_text(
        "engines:\n  llama.cpp: {tool: llama-bench, program: ./bench, files: {weights: weights.gguf}}\n"
    )
    Path("weights.gguf").write_text("weights")
    write_program(f"echo $* > said; cat <<'END'\n{BENCH}END")
    status, row = row_of(farm, "llama.cpp", "--round", "3")
    assert status == 0, row["reason"]
    assert [(each["name"], each["value"], each["unit"], each["better"]) for each in row["figures"]] == [
        ("prompt_tokens_per_s", 101.0, "tokens/s", "up"),
        ("generated_tokens_per_s", 11.5, "tokens/s", "up"),
        ("first_token_ms", pytest.approx(5069.8, rel=1e-4), "ms", "down"),
    ]
    said = Path("build/units/host/said").read_text()
    assert said.startswith("-m objects/") and said.endswith("-p 512 -n 128 -r 3 -o json\n")


@pytest.mark.slow
def test_a_pattern_reads_a_sample_a_match_and_the_model_is_sent(farm: CallFarm, own_folder: Path) -> None:
    script = "test -s $1 && for t in 1.5 2.5 3.5; do echo round: $t ms; done"
    Path("engines.yml").write_text(SHELL.replace("SCRIPT", script))
    status, row = row_of(farm, "timer")
    assert status == 0 and row["latency_ms"]["samples"] == [1.5, 2.5, 3.5] and row["file_bytes"]["onnx"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("echo no kernel for Erf >&2; exit 3", "failed", "engine timer: ended with exit status 3: no kernel for Erf"),
        ("kill -11 $$", "failed", "engine timer: ended with exit status 139 (SIGSEGV): no words"),
        ("no_such_program", "failed", "is it on host?"),
        ("echo 7 ms a round", "failed", "of latency_ms finds no number in what it printed: 7 ms a round"),
        ("sleep 30", "timeout", "engine timer: did not end within 1 s; time_limit of engines.yml sets another"),
    ],
)
def test_what_goes_wrong_is_a_row(farm: CallFarm, own_folder: Path, script: str, status: str, reason: str) -> None:
    Path("engines.yml").write_text(SHELL.replace("SCRIPT", script))
    exit_status, row = row_of(farm, "timer")
    assert (exit_status, row["status"]) == (1, status) and reason in row["reason"]
    assert "a round may go" not in row["reason"], "a program has a limit of its own"


@pytest.mark.slow
def test_a_file_that_is_not_what_it_should_be_is_refused(farm: CallFarm, own_folder: Path) -> None:
    Path("engines.yml").write_text(LLAMA)
    assert (
        "engine llama: weights.gguf: no such file, which engines.yml names as weights"
        in (row_of(farm, "llama")[1]["reason"])
    )
    Path("weights.gguf").write_text("weights")
    assert "engine llama: bench: no such file" in row_of(farm, "llama")[1]["reason"]
    path = write_program("echo 1")
    path.chmod(0o644)
    assert "bench is not executable: chmod +x bench" in row_of(farm, "llama")[1]["reason"]
    path.chmod(0o755)
    Path("engines.yml").write_text(LLAMA.replace("    time_limit", f"    sha256: {'0' * 64}\n    time_limit"))
    assert "bench has another hash than engines.yml names" in row_of(farm, "llama")[1]["reason"]
    Path("engines.yml").write_text(LLAMA.replace("{host: ./bench}", "{arm64: ./bench}"))
    row = row_of(farm, "llama")[1]
    assert (row["status"], row["reason"]) == ("unsupported", "engine llama: engines.yml names no program for host")


def test_a_program_for_another_machine_is_refused(farm: CallFarm, own_folder: Path) -> None:
    text = LLAMA.replace("    files: {weights: weights.gguf}\n", "").replace('"{weights}"', "w")
    Path("engines.yml").write_text(text)
    path = write_program("")
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + (8).to_bytes(2, "little") + bytes(44))  # of MIPS
    row = row_of(farm, "llama")[1]
    assert row["status"] == "unsupported"
    assert row["reason"] == f"engine llama: bench is made for machine 8, and host is {platform.machine()}"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("-r,", '"{runs}",', "{runs} is unknown; known are onnx, source, rounds, warmup, threads, weights"),
        ("-r,", '"{",', "write {{ for a brace"),
        ("json: 0.samples_ts.*", "pattern: 'no group'", "'no group' has 0 groups; put the number into one"),
        ("json: 0.samples_ts.*", "pattern: '('", "'(' is no pattern"),
        ("json: 0.samples_ts.*,", "", "write pattern, or json"),
        ("better: up", "better: more", "better"),
        ("better: up", "scale: 0", "scale"),
        ("    arguments", "    tool: llama-bnch\n    arguments", "tool"),
        ("time_limit", "timelimit", "did you mean 'time_limit'"),
    ],
)
def test_a_mistake_in_the_file_has_its_line(own_folder: Path, old: str, new: str, problem: str) -> None:
    Path("engines.yml").write_text(LLAMA.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_engine_file()
    assert problem in str(caught.value) and str(caught.value).startswith("engines.yml:")


def test_a_program_cannot_be_named_as_an_engine(farm: CallFarm, own_folder: Path) -> None:
    Path("engines.yml").write_text(LLAMA.replace("llama:", "farmrt:"))
    write_deployment(own_folder)
    status, _, err = farm("run", "tiny.yml", "--engine", "farmrt")
    assert status == 2 and "engines.yml: engines.farmrt: there is an engine of this name; give it another" in err

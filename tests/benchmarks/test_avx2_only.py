"""What asks for AVX-512's registers is told that there are none; the same bytes in data stay."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.avx2_only import NONE_BUT_AVX, XGETBV, copy_package, without_avx512
from runtime.errors import ConfigError

NO_OPERATION = b"\x90"
SCRIPT = """
import subprocess, sys
import onnxruntime
from runtime.native.build import build_farmrt
print(onnxruntime.__file__, onnxruntime.get_available_providers())
print(subprocess.run([build_farmrt(), "probe"], capture_output=True, text=True).stdout)
sys.exit(int(sys.argv[1]))
"""
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only these CPUs have AVX")


def test_a_question_is_answered_and_data_stay(tmp_path: Path) -> None:
    code = b"\x31\xc9" + 3 * NO_OPERATION + XGETBV + 20 * NO_OPERATION
    data = b"\x83\xe0" + XGETBV + bytes(20)
    library = tmp_path / "engine.so"
    library.write_bytes(data + code + code)
    assert without_avx512(library) == 2
    assert library.read_bytes() == data + 2 * code.replace(XGETBV, NONE_BUT_AVX)
    assert without_avx512(library) == 0


@on_x86
def test_a_script_has_an_engine_and_a_farmrt_that_know_of_no_avx512(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    program = [sys.executable, "-m", "benchmarks.avx2_only", str(script), "3"]
    ended = subprocess.run(program, capture_output=True, text=True)
    assert ended.returncode == 3, ended.stderr
    engine, probe = ended.stdout.split("\n", 1)
    assert "farm-avx2." in engine and "CPUExecutionProvider" in engine
    features = json.loads(probe)["cpu"]["features"]
    assert "avx" in features and not any(feature.startswith("avx512") for feature in features)


def test_a_package_that_does_not_ask_in_a_known_way_is_no_engine_without(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="click: none of its libraries asks for AVX-512"):
        copy_package("click", tmp_path)


@pytest.mark.parametrize("arguments", [[], ["-m"]])
def test_without_a_program_it_says_how_it_is_called(arguments: list[str]) -> None:
    program = [sys.executable, "-m", "benchmarks.avx2_only", *arguments]
    ended = subprocess.run(program, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "python -m benchmarks.avx2_only SCRIPT.py" in ended.stderr

"""What asks for AVX-512's registers is told that there are none; the same bytes in data stay."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.avx2_only import NONE_BUT_AVX, XGETBV, copy_package, without_avx512
from runtime.errors import ConfigError

NO_OPERATION = b"\x90"


def test_a_question_is_answered_and_data_stay(tmp_path: Path) -> None:
    code = b"\x31\xc9" + 3 * NO_OPERATION + XGETBV + 20 * NO_OPERATION
    data = b"\x83\xe0" + XGETBV + bytes(20)
    library = tmp_path / "engine.so"
    library.write_bytes(data + code + code)
    assert without_avx512(library) == 2
    assert library.read_bytes() == data + 2 * code.replace(XGETBV, NONE_BUT_AVX)
    assert without_avx512(library) == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only these CPUs have AVX")
def test_onnx_runtime_is_imported_from_its_copy(tmp_path: Path) -> None:
    copy_package("onnxruntime", tmp_path)
    script = "import onnxruntime; print(onnxruntime.__file__, onnxruntime.get_available_providers())"
    found = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(tmp_path)) and "CPUExecutionProvider" in found.stdout


def test_a_package_that_does_not_ask_in_a_known_way_is_no_engine_without(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="click: none of its libraries asks for AVX-512"):
        copy_package("click", tmp_path)

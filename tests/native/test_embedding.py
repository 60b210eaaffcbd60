"""The C library: the example application with both tuned files, and what the library asks of the C library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runtime.native import build
from tests.native.artifacts import fingerprint, tuned_entry, tuned_file
from tests.native.farmrt import Farmrt
from tests.native.test_tuning import KEY, dense_plan, options

EXAMPLE = Path(build.__file__).parent / "example" / "classify.c"
LIBRARIES = ("-lpthread", "-ldl", "-lm")


@pytest.fixture(scope="session")
def classify(farmrt_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = farmrt_program.parent
    compiler = [shutil.which("cc")] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    program = tmp_path_factory.mktemp("example") / "classify"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{folder}"]
    subprocess.run([*compiler, *flags, EXAMPLE, folder / "libfarmrt.a", *LIBRARIES, "-o", program], check=True)
    return program


@pytest.mark.slow
@pytest.mark.opencl
def test_example_with_tuned_files(gpu: Farmrt, classify: Path) -> None:
    plan, x, y = dense_plan()
    probe = gpu.done("probe", opencl=gpu.library)
    tuned, kernels, raw = (gpu.folder / name for name in ("tuned", "kernels", "raw"))
    tuned.write_bytes(tuned_file([(fingerprint(probe), [tuned_entry(KEY, "dense", options(8), [8], [2], 8)])]))
    raw.write_bytes(x.tobytes())
    assert gpu.load(plan, tuned=tuned, soc="host")["ok"]
    gpu.done("run")
    gpu.done("save_kernels", file=kernels)
    words = [classify, gpu.folder / "plan", gpu.folder / "data", raw, tuned, kernels, "host"]
    done = subprocess.run(words, env={"FARM_OPENCL": gpu.library}, capture_output=True, text=True, check=True)
    first, *classes = done.stdout.splitlines()
    assert first.endswith("tuned parameters: exact, 1 used; compiled kernels: exact, 2 loaded, 0 built"), done
    found = [(int(number), float(score)) for number, score in (line.split() for line in classes)]
    assert [number for number, _ in found] == list(np.argsort(-y)[:5])
    np.testing.assert_allclose([score for _, score in found], np.sort(y)[::-1][:5], rtol=1e-3)


def test_example_says_what_is_wrong(classify: Path, tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(b"nothing")
    done = subprocess.run([classify, tmp_path / "plan", tmp_path / "plan", "x"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"classify: bad_file: {tmp_path / 'plan'}: truncated: 7 bytes are no FARMPLAN file\n"
    assert subprocess.run([classify], capture_output=True).returncode == 2

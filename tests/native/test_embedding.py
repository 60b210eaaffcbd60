"""The C library: the example application with both tuned files, and what the library asks of the C library."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime.convert import convert
from runtime.lowering.lower import lower
from runtime.native import build
from runtime.plan.container import decode_container, encode_container
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.reading import read_plan_file
from runtime.plan.records import NONE_U32, PLAN_MAGIC, SectionId
from runtime.semantics.quantization import Quantization
from runtime.target import Target
from tests.native.artifacts import fingerprint, tuned_entry, tuned_file
from tests.native.farmrt import Farmrt
from tests.native.test_tuning import KEY, dense_plan, options

EXAMPLE = Path(build.__file__).parent / "example" / "classify.c"
# Prints what each tensor's integers stand for: `name scale zero_point axis`, a line for each index.
QUANTIZATIONS = """
#include <stdio.h>
#include <farmrt.h>

int main(int count, char **words) {
    rt_engine *engine;
    rt_error error;
    rt_options options = {.plan_path = words[1], .data_path = words[2]};
    if (rt_engine_create(&options, &engine, &error) != RT_OK) return puts(error.message), 1;
    for (int word = 3; word < count; word++) {
        rt_quantization found;
        for (uint32_t i = 0; rt_engine_quantization(engine, words[word], i, &found) == RT_OK; i++)
            printf("%s %g %lld %d\\n", words[word], found.scale, (long long)found.zero_point, (int)found.axis);
    }
    rt_engine_destroy(engine);
    return 0;
}
"""
LIBRARIES = ("-lpthread", "-ldl", "-lm")


@pytest.fixture(scope="session")
def classify(farmrt_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(EXAMPLE, farmrt_program.parent, tmp_path_factory.mktemp("example") / "classify")


def compiled(source: Path, folder: Path, program: Path) -> Path:
    """A program with the library that lies in a folder."""
    compiler = [shutil.which("cc")] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{folder}"]
    subprocess.run([*compiler, *flags, source, folder / "libfarmrt.a", *LIBRARIES, "-o", program], check=True)
    return program


SCALES = np.array([0.5, 0.25, 2.0], np.float32)


def quantized_plan() -> tuple[Plan, Mapping[str, Quantization]]:
    """It reads int8 along an axis, and writes uint8; a float between them stands for itself."""
    x, y = Quantization(tuple(SCALES.tolist()), (0, 1, -2), 1, "int8"), Quantization((0.5,), (7,), None, "uint8")
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["f"], axis=1),
        helper.make_node("QuantizeLinear", ["f", "t", "u"], ["y"]),
    ]
    constants = {"s": SCALES, "z": np.array(x.zero_point, np.int8), "t": np.float32(0.5), "u": np.uint8(7)}
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.INT8, (2, 3))],
        [helper.make_tensor_value_info(name, kind, (2, 3)) for name, kind in (("f", 1), ("y", TensorProto.UINT8))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return lower(convert(model)[0], Target("host", "host", memory="cpu")), {"x": x, "y": y}


def test_an_application_is_told_what_integers_stand_for(farmrt_program: Path, tmp_path: Path) -> None:
    plan, expected = quantized_plan()
    files = [tmp_path / "net.plan", tmp_path / "net.data"]
    for file, content in zip(files, (encode_plan(plan), plan.data), strict=True):
        file.write_bytes(content)
    assert read_plan_file(files[0]).quantizations == expected
    (tmp_path / "asks.c").write_text(QUANTIZATIONS)
    program = compiled(tmp_path / "asks.c", farmrt_program.parent, tmp_path / "asks")
    told = subprocess.run([program, *files, "x", "f", "y", "z"], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["x 0.5 0 1", "x 0.25 1 1", "x 2 -2 1", "y 0.5 7 -1"]


# What is said: a field of the four records, of which three are of `x`.
BAD: dict[str, tuple[str, list[float]]] = {
    "quantization 3: its tensor is out of range": ("tensor", [0, 0, 0, 9]),
    "quantization 3: its axis is out of range": ("axis", [1, 1, 1, 2]),
    "quantization 1: its scale is not positive": ("scale", [0.5, np.nan, 2, 0.5]),
    "quantization 0: is not one for each index of its axis": ("axis", [1, 0, 1, NONE_U32]),
    "quantization 1: is out of order": ("tensor", [1, 0, 0, 0]),
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_record_of_what_integers_stand_for_is_refused(text: str, farmrt_program: Path, tmp_path: Path) -> None:
    plan, _ = quantized_plan()
    sections = decode_container(encode_plan(plan), PLAN_MAGIC, "plan")
    records = sections[SectionId.QUANTIZATION] = sections[SectionId.QUANTIZATION].copy()
    field, values = BAD[text]
    records[field] = values
    if "order" in text:
        records["axis"] = records["axis"][::-1]
    with Farmrt(farmrt_program, tmp_path) as process:
        assert text in process.load_files(encode_container(PLAN_MAGIC, sections), plan.data)["message"]


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

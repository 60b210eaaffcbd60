"""Models as C source and static library: every byte is kept, and the example application runs on each machine."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from runtime.lowering.lower import lower
from runtime.native import android, build, model_code
from runtime.native.abi import ABIS
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler
from runtime.native.model_code import ModelCode, c_name, write_model_code
from runtime.native.toolchains import find_toolchain
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from tests.conftest import require
from tests.native import qemu
from tests.native.test_agreement import CPU, assert_close
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block

pytestmark = pytest.mark.slow

EXAMPLE = Path(build.__file__).parent / "example" / "embedded.c"
LIBRARIES = ("-lpthread", "-ldl", "-lm")
DUMP = """\
#include <stdio.h>
#include MODEL_HEADER

int main(void) {
    rt_options options = {.data_path = "unset"};
    MODEL(&options);
    fwrite(options.plan_bytes, 1, options.plan_size, stdout);
    fputc('|', stdout);
    if (options.data_bytes != NULL) fwrite(options.data_bytes, 1, options.data_size, stdout);
    return (size_t)options.plan_bytes % 64 != 0 || (size_t)options.data_bytes % 64 != 0;
}
"""


def link(made: ModelCode, source: Path, abi: str, folder: Path, from_source: bool = False) -> Path:
    """A program of one file and the model, its library or its C source, as an application's build makes it."""
    toolchain, program = find_toolchain(abi), folder / "program"
    model = (f"-I{made.header.parent}", f'-DMODEL_HEADER="{made.header.name}"', f"-DMODEL={made.function}")
    flags = ("-std=c11", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", *model, *ABIS[abi].flags)
    units = [TranslationUnit(source)] + ([TranslationUnit(made.source, "model")] if from_source else [])
    objects = compile_translation_units(toolchain.compiler, flags, units, folder)
    objects += [*([] if from_source else [made.library]), made.library.with_name("libfarmrt.a")]
    if toolchain.bare_linker:
        run_compiler(android.link_command(toolchain.compiler, toolchain.bare_linker, program, objects))
    else:
        run_compiler([*toolchain.compiler, *ABIS[abi].flags, "-o", str(program), *map(str, objects), *LIBRARIES])
    return program


def dumped(made: ModelCode, folder: Path, from_source: bool = False) -> bytes:
    (folder / "dump.c").write_text(DUMP)
    program = link(made, folder / "dump.c", "host", folder, from_source)
    return subprocess.run([program], capture_output=True, check=True).stdout


@pytest.mark.parametrize("from_source", [False, True], ids=["library", "source"])
@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 5 * 1024 * 1024 + 3])
def test_every_byte_is_kept(length: int, from_source: bool, tmp_path: Path) -> None:
    plan = bytes(range(256)) + b'"\\0077??=%s'
    data = np.random.default_rng(length).integers(0, 256, length, np.uint8).tobytes()
    made = write_model_code(tmp_path / "code", "net.host.cpu", plan, data)
    assert dumped(made, tmp_path, from_source) == plan + b"|" + data


def test_weights_in_a_file(tmp_path: Path) -> None:
    made = write_model_code(tmp_path, "net", b"plan", None)
    assert dumped(made, tmp_path) == b"plan|"
    assert "data_path must name net.data" in made.header.read_text()


def test_the_same_model_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    original = model_code._compile_library
    monkeypatch.setattr(model_code, "_compile_library", lambda *args: compiled.append(args) or original(*args))
    for plan, data in [(b"a", b"b"), (b"a", b"b"), (b"a", b"c"), (b"a", None), (b"a", None)]:
        made = write_model_code(tmp_path, "net", plan, data)
    assert len(compiled) == 3
    made.library.unlink()
    write_model_code(tmp_path, "net", b"a", None)
    assert len(compiled) == 4


def test_names() -> None:
    assert c_name("squeeze-net.v1.sdm845.gpu") == "squeeze_net_v1_sdm845_gpu"
    assert c_name("2nd") == "model_2nd"
    assert c_name("_x") == "model__x"


def test_two_models_in_one_program(tmp_path: Path) -> None:
    """Their libraries share no name; what one keeps to itself the other cannot meet."""
    first, second = (write_model_code(tmp_path, name, name.encode(), b"x") for name in ("one.host.cpu", "two.host.cpu"))
    lines = [f'#include "{made.header.name}"' for made in (first, second)]
    calls = [
        f"{made.function}(&options); fwrite(options.plan_bytes, 1, options.plan_size, stdout);"
        for made in (first, second)
    ]
    (tmp_path / "main.c").write_text(
        "\n".join(
            ["#include <stdio.h>", *lines, "int main(void) {", "rt_options options = {0};", *calls, "return 0; }"]
        )
    )
    toolchain, program = find_toolchain("host"), tmp_path / "main"
    run_compiler(
        [
            *toolchain.compiler,
            f"-I{tmp_path}",
            "-o",
            str(program),
            str(tmp_path / "main.c"),
            str(first.library),
            str(second.library),
        ]
    )
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"one.host.cputwo.host.cpu"


@pytest.mark.parametrize("abi", ["host", *qemu.QEMU])
def test_an_application_of_one_file(abi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    if abi != "host":
        require("qemu", qemu.missing(abi))
    maker = GraphMaker()
    graph = residual_block(maker)
    plan, inputs = lower(graph, CPU), maker.noise()
    made = write_model_code(tmp_path / "code", f"net.{abi}", encode_plan(plan), plan.data, abi)
    program = link(made, EXAMPLE, abi, tmp_path)
    (tmp_path / "root").mkdir()
    words = [str(program)] if abi == "host" else qemu.make_machine(abi, tmp_path / "root").command(program)
    (given,) = inputs.values()
    done = subprocess.run(words, input=given.astype("<f4").tobytes(), capture_output=True, check=True)
    (output,) = plan.outputs
    assert_close(np.frombuffer(done.stdout, "<f4").reshape(output.shape), evaluate(graph, inputs)[output.name], 2e-5)
    done = subprocess.run(words, input=b"short", capture_output=True)
    assert (done.returncode, done.stderr) == (1, f"embedded: {given.size} values of float32 are needed\n".encode())

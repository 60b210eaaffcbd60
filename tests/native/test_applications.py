"""Applications that embed farmrt: tensors of every type under a memory checker, pkg-config, CMake, and Java."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runtime.graph import Array
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt, package_files
from runtime.native.programs import build_example
from runtime.plan.encode import encode_plan
from runtime.semantics.generic_forms import view_form
from runtime.target import Target
from runtime.version import RUNTIME_VERSION
from tests.conftest import require
from tests.runtime.graphs import GraphMaker

TYPES = ("int64", "int32", "uint8", "float16", "bool")
ANDROID = Path(__file__).parents[2] / "examples" / "android"
COMPILER = [shutil.which("cc") or "cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
LIBRARIES = ("-lpthread", "-ldl", "-lm")

# Tells the types of its plan's inputs, and what it is told who gives the first one a byte too few.
ASKING = """\
#include <stdio.h>
#include "farmrt.h"
int main(int count, char **words) {
    rt_options options = {.plan_path = words[count - 2], .data_path = words[count - 1]};
    rt_engine *engine;
    rt_error error;
    rt_tensor_info tensor;
    if (rt_engine_create(&options, &engine, &error) != RT_OK) return puts(error.message), 1;
    for (uint32_t i = 0; rt_engine_input_info(engine, i, &tensor) == RT_OK; i++) puts(rt_type_name(tensor.type));
    rt_engine_input_info(engine, 0, &tensor);
    if (rt_engine_input(engine, tensor.name, "", tensor.bytes - 1, &error) == RT_BAD_COMMAND) puts(error.message);
    if (rt_engine_output(engine, "none", &tensor, 1, &error) == RT_BAD_COMMAND) puts(error.message);
    rt_engine_destroy(engine);
    return 0;
}
"""
TOLD = [*TYPES, "input 'x0' has 120 bytes (15 elements of int64), not 119", "the plan has no output 'none'"]


@dataclasses.dataclass(frozen=True)
class Typed:
    """A plan that transposes an input of each type, in a folder, with values for each."""

    folder: Path
    inputs: dict[str, Array]
    outputs: list[str]

    @property
    def words(self) -> list[str]:
        """What the example `infer` is told."""
        given = [f"input={self.folder / name}" for name in self.inputs]
        return [f"plan={self.plan}", f"data={self.data}", *given, *(f"output={self.folder / n}" for n in self.outputs)]

    @property
    def plan(self) -> Path:
        return self.folder / "plan"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def check(self) -> None:
        for value, output in zip(self.inputs.values(), self.outputs, strict=True):
            np.testing.assert_array_equal(np.fromfile(self.folder / output, value.dtype).reshape(5, 3), value.T)


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    make = GraphMaker()
    outputs = [make.add("Strided", make.input(3, 5, dtype=each), **view_form((5, 3), (1, 5))) for each in TYPES]
    plan = lower(make.finish(*outputs), Target("host", "host", memory="cpu"))
    case = Typed(tmp_path, make.noise(), outputs)
    case.plan.write_bytes(encode_plan(plan))
    case.data.write_bytes(bytes(plan.data))
    for name, value in case.inputs.items():
        (tmp_path / name).write_bytes(value.tobytes())
    return case


def infer(*words: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*under, str(build_example()), *words], capture_output=True, text=True)


@pytest.mark.slow
def test_no_tensor_of_any_type_is_read_or_written_past_its_end(typed: Typed) -> None:
    """The application reads and writes each tensor through a buffer of its own, which valgrind watches."""
    require("valgrind", "" if shutil.which("valgrind") else "valgrind is not installed (apt install valgrind)")
    watched = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite")
    done = infer(*typed.words, under=watched)
    assert (done.returncode, done.stderr) == (0, "")
    typed.check()


def test_the_example_moves_tensors_of_every_type_and_lists_them(typed: Typed) -> None:
    assert infer(*typed.words).returncode == 0
    typed.check()
    listed = infer(*typed.words, "tensors=1").stdout.splitlines()[1:]
    assert listed[0] == "input x0 int64 3x5 120"
    assert [line.split()[2] for line in listed] == [*TYPES, *TYPES]


@pytest.mark.parametrize("size", [60, 121])
def test_a_file_of_another_size_is_refused(typed: Typed, size: int) -> None:
    """60 bytes: what it would hold if int64 were float32."""
    (typed.folder / "x0").write_bytes(bytes(size))
    done = infer(*typed.words)
    told = f"infer: {typed.folder / 'x0'}: not the 120 bytes of 'x0' (15 elements of int64)\n"
    assert (done.returncode, done.stderr) == (1, told)


# Build systems


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "asking.c").write_text(ASKING)
    return tmp_path / "asking.c"


def check_asking(program: Path, typed: Typed, libraries: str = "") -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": libraries,
    }  # other tests build a shared library
    done = subprocess.run([program, typed.plan, typed.data], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()) == (0, TOLD), done


@pytest.mark.parametrize("name", package_files(("-lm",)))
def test_files_for_build_systems_name_only_what_lies_beside_them(name: str) -> None:
    folder = build_farmrt().parent
    text = (folder / name).read_text()
    assert str(folder) not in text and "{" not in re.sub(r"\$\{\w+\}", "", text)
    named = set(re.findall(r"libfarmrt\.a|-lfarmrt", text))
    assert {"farmrt.pc": {"-lfarmrt"}, "farmrtConfig.cmake": {"libfarmrt.a"}}.get(name, set()) == named


def test_an_application_is_built_by_pkg_config(typed: Typed, source: Path) -> None:
    require("pkg-config", "" if shutil.which("pkg-config") else "pkg-config is not installed")
    folder = shutil.copytree(build_farmrt().parent, source.with_name("moved"))
    asked = ["pkg-config", "--cflags", "--libs", f"farmrt = {RUNTIME_VERSION}"]
    flags = subprocess.run(asked, env={"PKG_CONFIG_PATH": str(folder)}, capture_output=True, text=True, check=True)
    program = source.with_name("asking")
    subprocess.run([*COMPILER, *STRICT, source, "-o", program, *flags.stdout.split()], check=True)
    check_asking(program, typed, str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["farmrt::farmrt", "farmrt::shared"])
def test_an_application_is_built_by_cmake(typed: Typed, source: Path, library: str) -> None:
    require("cmake", "" if shutil.which("cmake") and shutil.which("cc") else "cmake or a C compiler is not installed")
    folder = build_farmrt(shared=True).parent
    source.with_name("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(asking C)\n"
        f"find_package(farmrt {RUNTIME_VERSION} EXACT REQUIRED CONFIG)\n"
        f"add_executable(asking asking.c)\ntarget_link_libraries(asking PRIVATE {library})\n"
    )
    made = source.with_name("made")
    for words in (["-S", source.parent, "-B", made, f"-Dfarmrt_DIR={folder}"], ["--build", made]):
        subprocess.run(["cmake", *words], capture_output=True, text=True, check=True)
    check_asking(made / "asking", typed)


# Java and Kotlin


def test_the_native_half_compiles_and_has_what_kotlin_declares(tmp_path: Path) -> None:
    """Against a header of our own, so that no JDK is needed."""
    folders = (f"-I{Path(__file__).parent / 'stub_jni'}", f"-I{build_farmrt().parent}")
    source = ANDROID / "farmrt_jni.c"
    subprocess.run([*COMPILER, *STRICT, *folders, "-c", source, "-o", tmp_path / "jni.o"], check=True)
    defined = re.findall(r"Java_farm_Farmrt_(\w+)\(JNIEnv \*env, jobject self(.*?)\) \{", source.read_text(), re.DOTALL)
    declared = re.findall(r"external fun (\w+)\((.*)\)", (ANDROID / "Farmrt.kt").read_text())
    kinds = {"String": "jstring", "String?": "jstring", "Long": "jlong", "Boolean": "jboolean", "ByteBuffer": "jobject"}
    wanted = {name: [kinds[each.split(": ")[1]] for each in words.split(", ")] for name, words in declared}
    assert {name: re.findall(r",\s+(\w+) \w+", words) for name, words in defined} == wanted


# Farmrt.kt in Java, as far as a program needs it.
JAVA = """\
package farm;
import java.nio.*;
public class Farmrt {
    native long create(String plan, String data, String tuned, String kernels, String soc);
    native String[] tensors(long handle, boolean inputs);
    native void write(long handle, String name, ByteBuffer values);
    native void execute(long handle);
    native void read(long handle, String name, ByteBuffer values);
    native void destroy(long handle);
    public static void main(String[] words) {
        System.load(words[0]);
        Farmrt farmrt = new Farmrt();
        long handle = farmrt.create(words[1], words[2], null, null, null);
        for (String line : farmrt.tensors(handle, true)) System.out.println(line);
        ByteBuffer values = ByteBuffer.allocateDirect(120).order(ByteOrder.nativeOrder());
        for (int i = 0; i < 15; i++) values.putLong(8 * i, i);
        for (String line : farmrt.tensors(handle, true)) {
            String[] parts = line.split(" ", 4);
            ByteBuffer zeros = ByteBuffer.allocateDirect(Integer.parseInt(parts[1]));
            farmrt.write(handle, parts[3], parts[3].equals("x0") ? values : zeros);
        }
        farmrt.execute(handle);
        farmrt.read(handle, "strided0", values);
        System.out.println(values.getLong(8) + " " + values.getLong(16) + " " + values.getLong(24));
        try {
            farmrt.write(handle, "x0", ByteBuffer.allocateDirect(60));
        } catch (IllegalStateException refused) {
            System.out.println(refused.getMessage());
        }
        farmrt.destroy(handle);
    }
}
"""


@pytest.mark.slow
def test_java_runs_a_plan(typed: Typed, tmp_path: Path) -> None:
    javac, java = shutil.which("javac"), shutil.which("java")
    require("java", "" if javac and java else "javac and java are not installed (apt install default-jdk)")
    headers = Path(javac or "").resolve().parents[1] / "include"
    library, folder = tmp_path / "libfarmrt_jni.so", build_farmrt().parent
    flags = ("-shared", "-fPIC", f"-I{headers}", f"-I{headers / 'linux'}", f"-I{folder}", "-o", library)
    subprocess.run(
        [*COMPILER, *STRICT, *flags, ANDROID / "farmrt_jni.c", folder / "libfarmrt.a", *LIBRARIES], check=True
    )
    (tmp_path / "Farmrt.java").write_text(JAVA)
    subprocess.run([javac or "", "-d", tmp_path, tmp_path / "Farmrt.java"], check=True)
    words = [java or "", "-Xint", "-cp", tmp_path, "farm.Farmrt", library, typed.plan, typed.data]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *tensors, values, refused = done.stdout.splitlines()
    assert tensors[:2] == ["int64 120 3x5 x0", "int32 60 3x5 x1"]
    assert values == "5 10 1"
    assert refused == "bad_command: input 'x0' has 120 bytes (15 elements of int64), not 60"

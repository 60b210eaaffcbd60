"""Parts of farmrt: without an engine, with some operators alone, and as a shared library."""

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from runtime.errors import ConfigError
from runtime.kernels.table import CPU_OPERATORS
from runtime.lowering.lower import lower
from runtime.native import android, build, shared_library
from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler
from runtime.native.features import EVERYTHING, Features, chosen_features
from runtime.native.toolchains import find_toolchain
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.target import Target
from tests.conftest import require
from tests.native import qemu
from tests.native.conftest import THOROUGH
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import CPU, assert_close, run_on
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block

WITHOUT_OPENCL, WITHOUT_CPU = (Features(frozenset({engine})) for engine in ("opencl", "cpu"))
EXAMPLE = Path(build.__file__).parent / "example" / "classify.c"
LIBRARIES = ("-lpthread", "-ldl", "-lm")
NO_OPENCL = "this farmrt was built without OpenCL: it runs plans of the runtime cpu alone"
GPU = Target("host", "host", gpu="any", gpu_family="pocl-3.1", memory="buffer")
DEVICES = [HOST, *qemu.QEMU]


@pytest.fixture(scope="module")
def plan() -> Any:
    return lower(residual_block(GraphMaker()), CPU)


def operators_of(plan: Any) -> frozenset[str]:
    return frozenset(step.kernel.name for step in plan.steps)


def test_the_list_holds_every_operator() -> None:
    text = "".join(path.read_text() for path in EVERYTHING.sources())
    listed = [operator.name for operator in CPU_OPERATORS]
    assert len(set(listed)) == len(listed)
    defined = re.findall(r"^const rt_cpu_operator rt_cpu_(\w+) = \{\s*RT_(\w+)_ROW,", text, re.MULTILINE)
    assert {name for name, row in defined if row == name.upper()} == set(listed)


def test_names_of_folders() -> None:
    some = frozenset({"copy"})
    assert EVERYTHING.suffix == ""
    assert chosen_features(["opencl"], some).suffix == "-without-opencl-only-operators"
    assert chosen_features(["cpu"], some) == WITHOUT_CPU
    with pytest.raises(ConfigError, match="without opencl and without cpu could run no plan"):
        chosen_features(["cpu", "opencl"])


def test_without_opencl(plan: Any, tmp_path: Path) -> None:
    """CPU plans run; one that needs OpenCL is refused in one line, and `probe` says why there is none."""
    program = build_farmrt(features=WITHOUT_OPENCL)
    assert program.stat().st_size < 0.97 * build_farmrt().stat().st_size
    with Farmrt(program, tmp_path) as farmrt:
        assert farmrt.done("probe")["opencl"]["error"] == NO_OPENCL
        maker = GraphMaker()
        graph = residual_block(maker)
        inputs = maker.noise()
        (output,) = plan.outputs
        assert_close(run_on(farmrt, plan, inputs)[output.name], evaluate(graph, inputs)[output.name], 2e-5)
        on_gpu = lower(graph, GPU)
        answer = farmrt.load_files(encode_plan(on_gpu), on_gpu.data)
        assert (answer["error"], answer["message"]) == ("unsupported", NO_OPENCL)


def test_without_cpu(plan: Any, tmp_path: Path) -> None:
    """A CPU plan is refused with its first step's name."""
    program = build_farmrt(features=WITHOUT_CPU)
    assert program.stat().st_size < 0.8 * build_farmrt().stat().st_size
    with Farmrt(program, tmp_path) as farmrt:
        answer = farmrt.load_files(encode_plan(plan), plan.data)
    assert answer["error"] == "unsupported"
    assert f"plan: step 0 '{plan.steps[0].name}' needs the CPU operator" in answer["message"]
    assert answer["message"].endswith("this farmrt was built without CPU operators")


@pytest.mark.opencl
def test_gpu_plans_run_without_cpu_operators(tmp_path: Path) -> None:
    maker = GraphMaker()
    graph = residual_block(maker)
    on_gpu, inputs = lower(graph, GPU), maker.noise()
    with Farmrt(build_farmrt(features=WITHOUT_CPU), tmp_path, library=next(iter(THOROUGH.values()))) as farmrt:
        found = run_on(farmrt, on_gpu, inputs)
    (output,) = on_gpu.outputs
    assert_close(found[output.name], evaluate(graph, inputs)[output.name], 2e-4)


@pytest.mark.slow
def test_only_some_operators(plan: Any, tmp_path: Path) -> None:
    """A model of these operators runs; one that needs another is refused by its step and its operator's name."""
    needed = operators_of(plan)
    maker = GraphMaker()
    graph = residual_block(maker)
    inputs = maker.noise()
    (output,) = plan.outputs
    program = build_farmrt(output_dir=tmp_path, features=Features(operators=needed))
    assert program.parent.name == "host-only-operators"
    with Farmrt(program, tmp_path) as farmrt:
        found = run_on(farmrt, plan, inputs)
    assert_close(found[output.name], evaluate(graph, inputs)[output.name], 2e-5)
    left_out = sorted(needed)[0]
    full_size = program.stat().st_size
    program = build_farmrt(output_dir=tmp_path, features=Features(operators=needed - {left_out}))
    assert program.stat().st_size <= full_size < build_farmrt().stat().st_size
    with Farmrt(program, tmp_path) as farmrt:
        answer = farmrt.load_files(encode_plan(plan), plan.data)
    step = next(step for step in plan.steps if step.kernel.name == left_out)
    assert answer["error"] == "unsupported"
    assert f"'{step.name}': CPU operator '{left_out}" in answer["message"]
    assert answer["message"].endswith(": this farmrt was built without it")


@pytest.mark.slow
@pytest.mark.parametrize("features", [EVERYTHING, WITHOUT_OPENCL, WITHOUT_CPU], ids=lambda each: each.suffix or "all")
@pytest.mark.parametrize("abi", ["host", "arm64", "armhf", "arm64-v8a"])
def test_the_shared_library_exports_the_header_alone(
    abi: str, features: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    library = build_farmrt(abi, features=features, shared=True).with_name("libfarmrt.so")
    declared = set(re.findall(r"^RT_API .*?\b(rt_\w+)\(", shared_library.HEADER.read_text(), re.MULTILINE))
    assert len(declared) > 10
    with library.open("rb") as file:
        elf: Any = ELFFile(file)
        symbols = [symbol for symbol in elf.get_section_by_name(".dynsym").iter_symbols() if symbol.name]
        defined = {symbol.name for symbol in symbols if symbol.entry.st_shndx != "SHN_UNDEF"}
        tags = {tag.entry.d_tag: tag for tag in elf.get_section_by_name(".dynamic").iter_tags()}
        assert defined == declared
        assert tags["DT_SONAME"].soname == "libfarmrt.so"
        assert "DT_TEXTREL" not in tags
        assert not elf.get_section_by_name(".symtab"), "it is not stripped"
        if ABIS[abi].is_android:
            known = {name for names in android.read_symbols().values() for name in names}
            assert {symbol.name for symbol in symbols} - defined <= known


@pytest.mark.slow
def test_the_shared_library_is_as_new_as_the_static_one(tmp_path: Path) -> None:
    """It is linked when it is asked for, and goes with the build that it was made of."""
    folder = build_farmrt(output_dir=tmp_path).parent
    assert not (folder / "libfarmrt.so").exists()
    build_farmrt(output_dir=tmp_path, shared=True)
    (folder / "stamp").write_text("older sources")
    (folder / "libfarmrt.so").write_bytes(b"older")
    build_farmrt(output_dir=tmp_path, shared=True)
    assert (folder / "libfarmrt.so").read_bytes()[:4] == b"\x7fELF"


def linked(abi: str, library: Path, folder: Path) -> Path:
    """The example application, which finds the shared library in its folder, or where Android has its own."""
    toolchain, program = find_toolchain(abi), folder / "classify"
    flags = ("-std=c11", "-O1", "-fPIC", f"-I{library.parent}", *ABIS[abi].flags)
    objects = compile_translation_units(toolchain.compiler, flags, [TranslationUnit(EXAMPLE)], folder)
    if toolchain.bare_linker:
        command = android.link_command(toolchain.compiler, toolchain.bare_linker, program, [*objects, library])
    else:
        found = (f"-L{library.parent}", "-lfarmrt", f"-Wl,-rpath,{library.parent}", *LIBRARIES)
        command = [*toolchain.compiler, *ABIS[abi].flags, "-o", str(program), *map(str, objects), *found]
    run_compiler(command)
    return program


@pytest.mark.slow
@pytest.mark.parametrize("abi", DEVICES)
def test_the_example_runs_with_the_shared_library(
    abi: str, plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    if abi != HOST:
        require("qemu", qemu.missing(abi))
    folder = tmp_path / "only-shared"
    folder.mkdir()
    made = build_farmrt(abi, shared=True)
    for name in ("libfarmrt.so", "farmrt.h"):
        (folder / name).write_bytes(made.with_name(name).read_bytes())
    program = linked(abi, folder / "libfarmrt.so", tmp_path)
    words = [str(program)]
    if abi != HOST:
        (tmp_path / "root").mkdir()
        machine = qemu.make_machine(abi, tmp_path / "root")
        words = machine.command(program)
        if ABIS[abi].is_android:
            (machine.root / "system" / "lib64" / "libfarmrt.so").write_bytes((folder / "libfarmrt.so").read_bytes())
    maker = GraphMaker()
    graph = residual_block(maker)
    ((name, values),) = maker.noise().items()
    for file, content in {
        "plan": encode_plan(plan),
        "data": plan.data,
        "input": values.astype("<f4").tobytes(),
    }.items():
        (tmp_path / file).write_bytes(content)
    files = [str(tmp_path / file) for file in ("plan", "data", "input")]
    done = subprocess.run([*words, *files], capture_output=True, text=True, check=True)
    scores = evaluate(graph, {name: values})[plan.outputs[0].name].ravel()
    _, *classes = done.stdout.splitlines()
    assert len(classes) == 5
    for line, best in zip(classes, np.sort(scores)[::-1], strict=False):
        np.testing.assert_allclose(float(line.split()[1]), best, rtol=1e-3)

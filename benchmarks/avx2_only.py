"""A program in which nothing uses AVX-512: so one machine shows both kinds of CPU.

    python -m benchmarks.avx2_only benchmarks/cpu.py --tune --opencl system
    python -m benchmarks.avx2_only -m benchmarks.tuning mobilenet_v2

ONNX Runtime, LiteRT and the LLVM of Debian's PoCL take the CPU's best instructions and cannot be told otherwise, nor
can farmrt. What they ask, before they use AVX-512, is whether the operating system keeps its registers (XGETBV;
Intel's manual, volume 1, 13.3). In copies of them the answer is no: of the registers that have to be kept, those of AVX
alone are. farmrt's copy does not know the names of the CPU's features either. Intel's driver can be told.
"""

import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from runtime.errors import ConfigError
from runtime.native import build

PACKAGES = ("onnxruntime", "ai_edge_litert")
SYSTEM, LLVM = Path("/usr/lib"), "*/libLLVM-*.so.1"
INTEL = {"CL_CONFIG_CPU_TARGET_ARCH": "core-avx2"}
STARTED = "FARM_BENCHMARK_AVX2_ONLY"  # names the folder of the copies
XGETBV, NONE_BUT_AVX = b"\x0f\x01\xd0", b"\xb0\x07\x90"  # mov al, 7; nop
REGISTER_0 = (b"\x31\xc9", b"\x44\x89\xc1", b"\x44\x89\xc9")  # ecx made 0: what stands before a question, not in data
NEAR_BYTES = 16
FEATURE, UNKNOWN = b"\0avx512", b"\0-vx512"


def main(arguments: list[str]) -> None:
    """Ends with the program's exit status."""
    if arguments in ([], ["-m"]):
        print("no program: python -m benchmarks.avx2_only SCRIPT.py|-m MODULE [ARGUMENTS]", file=sys.stderr)
        sys.exit(2)
    if STARTED in os.environ:
        folder = Path(os.environ[STARTED], "farmrt")
        build.default_output_dir = lambda: folder
        run(arguments)
    else:
        with TemporaryDirectory(prefix="farm-avx2.") as name:
            program = [sys.executable, "-m", "benchmarks.avx2_only", *arguments]
            sys.exit(subprocess.run(program, env=copied(Path(name))).returncode)


def run(arguments: list[str]) -> None:
    """Runs a script, or a module after -m."""
    is_module = arguments[0] == "-m"
    sys.argv = arguments[1:] if is_module else arguments
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


def copied(folder: Path) -> dict[str, str]:
    """Makes the copies in a folder; returns the environment in which they are used."""
    for package in PACKAGES:
        copy_package(package, folder)
    for library in SYSTEM.glob(LLVM):
        without_avx512(Path(shutil.copy2(library, folder)))
    copy_farmrt(folder / "farmrt")
    environment = os.environ | INTEL | {STARTED: str(folder)}
    for variable in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        environment[variable] = os.pathsep.join(filter(None, (str(folder), os.environ.get(variable))))
    return environment


def copy_package(package: str, folder: Path) -> None:
    """Copies a package that is installed; raises ConfigError where none of its libraries asks."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return
    copies = shutil.copytree(Path(found.origin).parent, folder / package).rglob("*.so*")
    if not sum(without_avx512(library) for library in copies):
        raise ConfigError(f"{package}: none of its libraries asks for AVX-512 in a known way; it cannot go without")


def copy_farmrt(folder: Path) -> None:
    """Copies this machine's farmrt with the file by which farm knows that it is up to date; raises as the copies do."""
    built = build.build_farmrt()
    farmrt = shutil.copytree(built.parent, folder / built.parent.name) / built.name
    if not without_avx512(farmrt):
        raise ConfigError("farmrt does not ask for AVX-512 in a known way")
    farmrt.write_bytes(farmrt.read_bytes().replace(FEATURE, UNKNOWN))


def without_avx512(library: Path) -> int:
    """Answers the questions of a library; returns how many."""
    content = bytearray(library.read_bytes())
    asked, at = 0, content.find(XGETBV)
    while at >= 0:
        before = content[max(at - NEAR_BYTES, 0) : at]
        if any(each in before for each in REGISTER_0):
            content[at : at + len(XGETBV)] = NONE_BUT_AVX
            asked += 1
        at = content.find(XGETBV, at + 1)
    if asked:
        library.write_bytes(content)
    return asked


if __name__ == "__main__":
    main(sys.argv[1:])

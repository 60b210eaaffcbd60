"""A program once more, in which nothing uses AVX-512: so one machine shows both kinds of CPU.

ONNX Runtime, LiteRT and the LLVM of Debian's PoCL take the CPU's best instructions and cannot be told otherwise. What
they ask, before they use AVX-512, is whether the operating system keeps its registers (XGETBV; Intel's manual, volume
1, 13.3). In copies of their libraries the answer is no: of the registers that have to be kept, those of AVX alone are.
Intel's driver can be told.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from runtime.errors import ConfigError

ISA = "avx2"
PACKAGES = ("onnxruntime", "ai_edge_litert")
SYSTEM, LLVM = Path("/usr/lib"), "*/libLLVM-*.so.1"
INTEL = {"CL_CONFIG_CPU_TARGET_ARCH": "core-avx2"}
STARTED = "FARM_BENCHMARK_AVX2_ONLY"
XGETBV, NONE_BUT_AVX = b"\x0f\x01\xd0", b"\xb0\x07\x90"  # mov al, 7; nop
REGISTER_0 = (b"\x31\xc9", b"\x44\x89\xc9")  # xor ecx, ecx; mov ecx, r9d: what stands before a question, not in data
NEAR_BYTES = 16


def start_again() -> None:
    """Ends this program with the exit status of itself without AVX-512; returns in that one."""
    if STARTED in os.environ:
        return
    with TemporaryDirectory(prefix="farm-avx2.") as folder:
        for package in PACKAGES:
            copy_package(package, Path(folder))
        for library in SYSTEM.glob(LLVM):
            without_avx512(Path(shutil.copy2(library, folder)))
        environment = os.environ | INTEL | {STARTED: "1"}
        for variable in ("PYTHONPATH", "LD_LIBRARY_PATH"):
            environment[variable] = os.pathsep.join(filter(None, (folder, os.environ.get(variable))))
        status = subprocess.run([sys.executable, *sys.argv], env=environment).returncode
    sys.exit(status)


def copy_package(package: str, folder: Path) -> None:
    """Copies a package that is installed; raises ConfigError where none of its libraries asks."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return
    copied = shutil.copytree(Path(found.origin).parent, folder / package)
    if not sum(without_avx512(library) for library in copied.rglob("*.so*")):
        raise ConfigError(
            f"{package}: none of its libraries asks for AVX-512 in a known way; it cannot be told to go without"
        )


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

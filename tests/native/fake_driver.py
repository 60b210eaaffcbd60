"""The OpenCL library that launches nothing, for farmrt as farm starts it: without the sanitizers of the tests' own."""

import functools
import tempfile
from pathlib import Path

from runtime.native import build
from runtime.native.compiling import run_compiler
from runtime.native.toolchains import find_toolchain


@functools.cache
def fake_driver() -> Path:
    """Compiles the library, once a test run."""
    native = Path(build.__file__).parent
    library = Path(tempfile.mkdtemp(prefix="fake-driver-")) / "libfake_opencl.so"
    flags = ("-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-shared", "-O1")
    source = native / "fuzz/fake_opencl.c"
    run_compiler([*find_toolchain("host").compiler, *flags, "-o", str(library), str(source)])
    return library

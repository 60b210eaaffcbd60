"""Source text, build options and hashes of kernels."""

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

from runtime.kernels import functions_source
from runtime.kernels.spec import Kernel, Variant
from runtime.types import Dot, Precision

_FOLDER = Path(__file__).parent
_ROOMS = _FOLDER.parent / "families"


@functools.cache
def _places() -> dict[str, Path]:
    """Where each kernel's own file lies, by its name."""
    return {path.name: path for folder in (_FOLDER, _ROOMS) for path in sorted(folder.rglob("*.*.cl"))}


def source_files(kernel: Kernel) -> list[Path]:
    """The files of a kernel's program, in order: the common prelude, that of its memory type, then its own."""
    shared = (_FOLDER / "prelude.cl", _FOLDER / kernel.memory / "prelude.cl")
    return [*shared, *filter(None, [_places().get(kernel.source)])]


@functools.cache
def program_source(kernel: Kernel) -> str:
    """The OpenCL source of a kernel's program: codes and functions, its files, and what a user's kernel brings."""
    files = (path.read_text() for path in source_files(kernel))
    return "\n".join([_functions(), *files, *filter(None, [kernel.text])])


_functions = functools.cache(functions_source.opencl)


@functools.cache
def source_hash(kernel: Kernel) -> str:
    """Hash of a kernel's program source (16 hexadecimal digits of SHA-256)."""
    return hashlib.sha256(program_source(kernel).encode()).hexdigest()[:16]


@functools.cache
def all_sources_hash() -> str:
    """Hash of every kernel source: part of a fingerprint."""
    shared = {path: path.read_bytes() for path in _FOLDER.rglob("prelude.cl")}
    shared[_FOLDER / functions_source.NAME] = _functions().encode()
    own = ((path, path.read_bytes()) for _, path in sorted(_places().items()))
    digest = hashlib.sha256()
    for path, text in (*sorted(shared.items()), *own):
        digest.update(path.relative_to(_FOLDER.parent).as_posix().encode() + b"\0" + text)
    return digest.hexdigest()[:16]


def build_options(variant: Variant, precision: Precision, defines: Mapping[str, int]) -> str:
    """Options of a program: precision, what the operator asks (ACTIVATION, RESIDUAL, ...), and the variant's own; the
    version of OpenCL C where it needs another than the driver's default."""
    options = {"PRECISION": int(precision), **dict(sorted(defines.items())), **dict(variant.defines)}
    needed = ["-cl-std=CL3.0"] if options.get("DOT") == Dot.KHRONOS else []
    needed += ["-cl-std=CL2.0"] if options.get("SUBGROUPS") else []  # cl_khr_subgroups extends that
    return " ".join([*(f"-D{key}={value}" for key, value in options.items()), *needed])

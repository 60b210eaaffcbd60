"""The programs that building needs, found on this machine or taken from ziglang's package.

PoCL calls `ld` to link each kernel. Where there is none, `environment()` offers one: a script in a private folder that
runs ziglang's linker. farmrt and every Python process that uses OpenCL run in that environment.
"""

import importlib.util
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from farm import atomic_file

FOLDER = Path("build/toolchain")

# PoCL names these libraries when it links. A machine without a compiler has no files to link with, but the process that
# loads the kernel has the libraries themselves: nothing is missing at run time. Found only after the real ones.
STUB_LIBRARIES = ("c", "gcc", "gcc_s", "m")
EMPTY_ARCHIVE = b"!<arch>\n"


def environment(base: Mapping[str, str] | None = None, folder: Path = FOLDER) -> dict[str, str]:
    """Returns the environment (default: this process's) with ziglang's `ld` on PATH where there is no other."""
    variables = dict(os.environ if base is None else base)
    zig = find_zig()
    if zig is None or shutil.which("ld", path=variables.get("PATH", os.defpath)):
        return variables
    variables["PATH"] = os.pathsep.join([str(_linker_folder(zig, folder)), variables.get("PATH", os.defpath)])
    return variables


def find_zig() -> Path | None:
    """The executable in the ziglang package; None where that is not installed."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    zig = Path(spec.submodule_search_locations[0]) / "zig"
    return zig if os.access(zig, os.X_OK) else None


def _linker_folder(zig: Path, folder: Path) -> Path:
    """Writes the script `ld` and the stand-ins for libraries; returns their folder."""
    folder = folder.resolve()
    stubs = folder / "lib"
    command = f'exec {shlex.quote(str(zig))} ld.lld "$@" -L {shlex.quote(str(stubs))}'
    _write_if_changed(folder / "ld", f"#!/bin/sh\n{command}\n".encode(), 0o755)
    for name in STUB_LIBRARIES:
        _write_if_changed(stubs / f"lib{name}.a", EMPTY_ARCHIVE, 0o644)
    return folder


def _write_if_changed(path: Path, content: bytes, mode: int) -> None:
    if not path.is_file() or path.read_bytes() != content:
        with atomic_file.replacing(path, mode) as file:
            file.write(content)

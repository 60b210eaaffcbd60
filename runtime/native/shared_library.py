"""libfarmrt.so: the static library as a shared object that exports the functions of farmrt.h and nothing else."""

import re
from collections.abc import Sequence
from pathlib import Path

from runtime.native import android
from runtime.native.toolchains import Toolchain

NAME = "libfarmrt.so"
HEADER = Path(__file__).parent / "include" / "farmrt.h"

_FUNCTION = re.compile(r"^RT_API [\w ]+?[ *](rt_\w+)\(", re.MULTILINE)


def public_functions() -> list[str]:
    """The names of the functions that farmrt.h declares."""
    return _FUNCTION.findall(HEADER.read_text())


def link_command(
    toolchain: Toolchain, library: Path, archive: Path, flags: Sequence[str], libraries: Sequence[str]
) -> list[str]:
    """The command that makes the shared object of an archive; the list of what it exports is written beside it."""
    exports = library.with_name("exports")
    exports.write_text(f"{{\n  global: {' '.join(f'{name};' for name in public_functions())}\n  local: *;\n}};\n")
    content = ("--version-script", str(exports), "--whole-archive", str(archive), "--no-whole-archive")
    if toolchain.bare_linker:
        return android.shared_link_command(toolchain.compiler, toolchain.bare_linker, library, content)
    whole = [f"-Wl,{word}" for word in (f"--version-script={exports}", "--whole-archive")]
    linker_flags = [flag for flag in toolchain.link_flags if flag != "-pie"]
    return [
        *(*toolchain.compiler, *flags, *linker_flags, "-shared", f"-Wl,-soname,{NAME}", "-s"),
        *("-Wl,--gc-sections", "-Wl,-z,defs", *whole, str(archive), "-Wl,--no-whole-archive"),
        *("-o", str(library), *libraries),
    ]

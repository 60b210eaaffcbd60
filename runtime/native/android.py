"""Links Android executables for 64-bit ARM without the NDK: by ziglang, musl's headers, a start file and link stubs.

A phone's OpenCL driver is linked to bionic, Android's C library, so farmrt must be too. Its sources keep to the part of
C and POSIX where musl's headers describe bionic as well on 64 bits. Names where they do not (`DIFFERENT`) are kept out
of the stubs, so that it is linking that fails where code uses one, and not the program on a phone.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler

FOLDER = Path(__file__).parent / "android"
INTERPRETER = "/system/bin/linker64"

# bionic has another function behind `errno`, and none that choose the atomics of the CPU at run time.
COMPILE_FLAGS = ("-D__errno_location=__errno", "-mno-outline-atomics")
# Android 15 may have pages of 16 KiB; Android 5 knew only the older of the two hash tables. Android 6's linker warns of
# DT_FLAGS_1=0x8000001 when farmrt starts: of LLD's mark of a `-pie` program (DF_1_PIE), not of `now`, which it knows.
LINK_FLAGS = ("-Wl,-z,max-page-size=16384", "-Wl,--hash-style=both", "-Wl,-z,relro,-z,now")
DATA_NAMES = frozenset({"environ", "stderr", "stdin", "stdout"})

# Functions of types or numbers that differ: jmp_buf, sem_t, struct sigaction, sysconf, regex_t, locale_t, struct lconv,
# FTS, address-information flags.
DIFFERENT = re.compile(
    r"_?_?(sig)?(set|long)jmp|sem_\w+|sigaction|sysconf|f?pathconf|reg(comp|exec|error|free)"
    r"|\w+_l|\w*locale\w*|fts_\w+|n?ftw(64)?|getaddrinfo|getnameinfo"
)


def read_symbols() -> dict[str, list[str]]:
    """The names that each of bionic's libraries exports, by the library's name (`libc`)."""
    names: dict[str, list[str]] = {}
    library = ""
    for line in (FOLDER / "symbols.txt").read_text().splitlines():
        if line.startswith("["):
            library = line.strip("[]")
        elif library and line:
            names.setdefault(library, []).extend(line.split())
    return names


def link_command(compiler: Sequence[str], linker: Sequence[str], program: Path, objects: Sequence[Path]) -> list[str]:
    """Returns the command that links a program, after making start file and stubs beside it.

    `compiler` is a C compiler, `linker` LLVM's linker for ELF, each as an argument list; raises BuildError.
    """
    start = compile_translation_units(
        compiler, ("-std=c11", "-Os", "-fPIC"), [TranslationUnit(FOLDER / "start.c")], program.parent
    )
    return [
        *linker,
        *("-pie", "--dynamic-linker", INTERPRETER, *_linker_words()),
        *("-o", str(program), *map(str, [*start, *objects, *_stub_libraries(compiler, linker, program.parent)])),
    ]


def shared_link_command(
    compiler: Sequence[str], linker: Sequence[str], library: Path, words: Sequence[str]
) -> list[str]:
    """The command that links a shared object; `words` name what goes into it and which names it exports."""
    return [
        *linker,
        *("-shared", "-soname", library.name, "-z", "defs", *_linker_words()),
        *("-o", str(library), *words, *map(str, _stub_libraries(compiler, linker, library.parent))),
    ]


def _linker_words() -> list[str]:
    """What everything for Android is linked with, as the linker's own words."""
    words = [word for flag in LINK_FLAGS for word in flag.removeprefix("-Wl,").split(",")]
    return ["--gc-sections", "--strip-all", "-z", "noexecstack", *words]


def _stub_libraries(compiler: Sequence[str], linker: Sequence[str], folder: Path) -> Iterator[Path]:
    """Makes a shared object for each library of bionic, which defines its names without any code; yields the paths."""
    for library, names in read_symbols().items():
        source, library_file = folder / f"{library}.s", folder / f"{library}.so"
        source.write_text("".join(_definition(name) for name in names if not DIFFERENT.fullmatch(name)))
        (stub,) = compile_translation_units(compiler, (), [TranslationUnit(source)], folder)
        run_compiler([*linker, "-shared", "-soname", library_file.name, "-o", str(library_file), str(stub)])
        yield library_file


def _definition(name: str) -> str:
    section, kind, size = (".data", "object", 8) if name in DATA_NAMES else (".text", "function", 0)
    return f"{section}\n.globl {name}\n.type {name}, %{kind}\n.size {name}, {size}\n{name}: .zero {size}\n"

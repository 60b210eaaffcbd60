"""Compiles farmrt for the machine itself or another ABI, once for each state of its sources.

Beside it stand the files by which pkg-config and CMake find it, in a folder that may be moved.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.native import android, object_cache, shared_library
from runtime.native.abi import ABIS, HOST, Abi
from runtime.native.compiling import Compiled, TranslationUnit, run_compiler, untold, writable_folder
from runtime.native.features import EVERYTHING, FAMILIES, PROGRAM, Features
from runtime.native.scratch import locked_folder, scratch_folder
from runtime.native.toolchains import Toolchain, find_toolchain
from runtime.version import RUNTIME_VERSION

_FOLDER = Path(__file__).parent
_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
_COMMON = (
    *(
        "-std=c11",
        "-D_GNU_SOURCE",
        "-D_FILE_OFFSET_BITS=64",
        "-fPIC",
        "-fvisibility=hidden",
        "-ffunction-sections",
        "-fdata-sections",
    ),
    "-fno-builtin-bcmp",  # not every C library has it
)
_SANITIZERS = (  # their reports tell functions and lines, for which -g1 does: -g takes a quarter longer to compile
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"),
    "-DRT_TEST_ALLOCATION",
)
_CHECKED = ("-O1",)  # behind a unit's own flags: compiling checked vector code for speed takes four times as long
_FAST = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
_NOT_HOT = {"cpu_call", "cpu_check", "cpu_dispatch", "cpu_users"}  # run once a load
_EXACT = ".exact.cpu.c"  # ends the names of files where a rounding more or less decides on boxes and pixels
_PER_SET = "cpu_tile.c"  # compiled once for each instruction set
_PER_BLOCK = ("cpu_lanes_*.c", "*.lanes.cpu.c")  # and these once for each instruction set and block
_QUANTIZED = "cpu_quantized_lanes.c"  # and this for those that differ in integers, too
_QUANTIZED_WINDOWS = "cpu_quantized_depthwise.c"  # and this for those of them that sum neighbouring pixels at once
_SUMMING_PIXELS = {("avx2", 8), ("avx512vnni", 16)}
_HALVES = "cpu_half_lanes.c"  # in place of it, for one that computes in half
_BLOCKS = (8, 16)
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*(f"-mavx512{part}" for part in ("f", "bw", "dq", "vl")), *_AVX2, "-mprefer-vector-width=512")
_X86_SETS = {
    "avx2": _AVX2,
    "avxvnni": (*_AVX2, "-mavxvnni"),
    "avx512": _AVX512,
    "avx512vnni": (*_AVX512, "-mavx512vnni"),
}
_X86_PAIRS = {"avx2pairs": (*_AVX2, "-DRT_PAIRS")}  # AVX2 again, for weights with which it may sum pairs in 16 bits
_ARM_SETS = {
    "fp16": (),  # its source says what it needs: compilers have several names for it
    "dotprod": ("-mcpu=generic+dotprod",),
    "i8mm": ("-mcpu=generic+dotprod+i8mm",),
}
_EXTENDED = {"avxvnni": "avx2", "avx512vnni": "avx512", **dict.fromkeys(_ARM_SETS, "generic")}  # the same in floats
_LIBRARIES = ("-lpthread", "-ldl", "-lm")
_BIONIC_LIBRARIES = ("-ldl", "-lm")  # threads are part of its libc


def build_farmrt(
    abi: str = HOST,
    output_dir: Path | None = None,
    sanitize: bool = False,
    compiler: Sequence[str] | None = None,
    features: Features = EVERYTHING,
    shared: bool = False,
    compiled: Compiled = untold,
) -> Path:
    """Returns the farmrt executable for an ABI, compiled if its sources changed.

    Beside it lie library, header, examples, and the files by which pkg-config and CMake find them.

    Args:
        abi: a key of `ABIS`.
        output_dir: default `build/farmrt` of the source tree.
        sanitize: with address and undefined-behaviour sanitizers; beside it then the programs of `fuzz/`.
        compiler: argument list of a C compiler; default what `toolchains.find_toolchain` finds.
        features: what it is to have; each choice has a folder of its own.
        shared: beside it the library as a shared object too, `libfarmrt.so`.
        compiled: is told how far the compiler is, where it has something to do.

    Raises:
        ConfigError: the ABI is unknown, or needs an NDK that is not there.
        BuildError: no compiler, or it failed (the text ends with its log), or the folder cannot be written.
    """
    toolchain = find_toolchain(abi, compiler or ())
    folder = (output_dir or default_output_dir()) / f"{abi}{features.suffix}{'-sanitized' if sanitize else ''}"
    stamp = folder / "stamp"
    digest = _digest(ABIS[abi], toolchain, sanitize, features)
    with writable_folder(folder), locked_folder(folder):
        if not stamp.is_file() or stamp.read_text() != digest or not (folder / "farmrt").is_file():
            _build(ABIS[abi], toolchain, folder, sanitize, features, compiled)
            stamp.write_text(digest)
        if shared and not (folder / shared_library.NAME).is_file():
            _link_shared(ABIS[abi], toolchain, folder)
    return folder / "farmrt"


def default_output_dir() -> Path:
    """Returns `build/farmrt` of the source tree, or of the working folder where farm is installed without that tree."""
    tree = _FOLDER.parents[1]
    return (tree if (tree / "pyproject.toml").is_file() else Path.cwd()) / "build" / "farmrt"


def sources(features: Features = EVERYTHING) -> list[TranslationUnit]:
    """Lists the sources of the library without its innermost loops, which are compiled once per instruction set."""
    repeated = (_PER_SET, *_PER_BLOCK, _QUANTIZED, _QUANTIZED_WINDOWS, _HALVES)
    paths = (path for path in features.sources() if not any(map(path.match, repeated)))
    return [_unit(path, flags=features.flags(path)) for path in paths]


def unit_commands(target: Abi) -> list[tuple[TranslationUnit, list[str]]]:
    """The units of the innermost loops, and what the compiler is told of each."""
    return [(unit, [*_flags(target), *unit.flags]) for unit in _tile_units(target)]


def include_flags(folder: Path) -> list[str]:
    """Writes the generated headers into a folder; returns the flags with which sources find them, and they theirs."""
    for name, text in _generated().items():
        (folder / name).write_text(text)
    return [f"-I{folder}", f"-I{_FOLDER / 'src' / 'cpu'}"]


@functools.cache
def _generated() -> Mapping[str, str]:
    from runtime.plan.header import HEADERS  # the tables of all families, which nothing but a build needs

    return {name: text() for name, text in HEADERS.items()}


def _flags(target: Abi) -> list[str]:
    defines = (f'-DRT_VERSION="{RUNTIME_VERSION}"', f'-DRT_ABI="{target.name}"')
    return [*_COMMON, *_WARNINGS, *defines, *target.flags]


def _unit(source: Path, suffix: str = "", flags: tuple[str, ...] = ()) -> TranslationUnit:
    """Makes a unit that is compiled for small code; those of the CPU operators are compiled for speed."""
    fast = source.name.endswith(".cpu.c") or (source.stem.startswith("cpu_") and source.stem not in _NOT_HOT)
    exact = ("-ffp-contract=off",) if source.name.endswith(_EXACT) else ()
    return TranslationUnit(source, suffix, (*(_FAST if fast else ("-Os",)), *exact, *flags))


def _digest(target: Abi, toolchain: Toolchain, sanitize: bool, features: Features) -> str:
    operators = None if features.operators is None else sorted(features.operators)
    told = (target, toolchain, sanitize, features.suffix, operators, RUNTIME_VERSION)
    digest = hashlib.sha256(repr([told, _generated()]).encode())
    own = [*_FOLDER.rglob("*.[ch]"), *_FOLDER.glob("*.py"), android.FOLDER / "symbols.txt"]
    for path in sorted([*own, *FAMILIES.rglob("*.[ch]")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _build(
    target: Abi, toolchain: Toolchain, folder: Path, sanitize: bool, features: Features, compiled: Compiled
) -> None:
    (folder / shared_library.NAME).unlink(missing_ok=True)  # made of the old sources
    with scratch_folder(folder) as scratch:
        checks = _SANITIZERS if sanitize else ()
        flags = [*_flags(target), *checks]
        link = [*toolchain.compiler, *target.flags, *toolchain.link_flags, *(checks or ("-s",)), "-Wl,--gc-sections"]
        units = [*sources(features), *([] if "cpu" in features.without else _tile_units(target))]
        units = [dataclasses.replace(unit, flags=(*unit.flags, *_CHECKED)) for unit in units] if sanitize else units
        library = _objects(toolchain, flags, units, scratch, compiled)
        main = _objects(toolchain, flags, [_unit(path) for path in PROGRAM], scratch)
        run_compiler(_program_link(target, toolchain, link, scratch / "farmrt", [*main, *library]))
        run_compiler([*toolchain.archiver, "rcs", str(scratch / "libfarmrt.a"), *map(str, library)])
        outputs = [scratch / "farmrt", scratch / "libfarmrt.a"]
        for_applications = [_FOLDER / "include" / "farmrt.h", *(_FOLDER / "example").glob("*.c")]
        outputs += [Path(shutil.copy(path, scratch)) for path in for_applications]
        for name, text in package_files(_libraries(target)).items():
            (scratch / name).write_text(text)
            outputs.append(scratch / name)
        if sanitize:
            outputs += _build_fuzzer(toolchain, flags, link, library, scratch)
        for path in outputs:
            path.replace(folder / path.name)


def _objects(
    toolchain: Toolchain,
    flags: Sequence[str],
    units: Sequence[TranslationUnit],
    folder: Path,
    compiled: Compiled = untold,
) -> list[Path]:
    cache = os.environ.get(object_cache.VARIABLE) or default_output_dir().with_name("objects")
    return object_cache.compile_or_take(toolchain, flags, units, folder, Path(cache), compiled, include_flags(folder))


def _link_shared(target: Abi, toolchain: Toolchain, folder: Path) -> None:
    libraries = _libraries(target)
    with scratch_folder(folder) as scratch:
        library = scratch / shared_library.NAME
        archive = folder / "libfarmrt.a"
        run_compiler(shared_library.link_command(toolchain, library, archive, target.flags, libraries))
        library.replace(folder / library.name)


def _program_link(
    target: Abi, toolchain: Toolchain, link: Sequence[str], program: Path, objects: Sequence[Path]
) -> list[str]:
    if toolchain.bare_linker:
        return android.link_command(toolchain.compiler, toolchain.bare_linker, program, objects)
    return [*link, "-o", str(program), *map(str, objects), *_libraries(target)]


def _libraries(target: Abi) -> tuple[str, ...]:
    return _BIONIC_LIBRARIES if target.is_android else _LIBRARIES


def _build_fuzzer(
    toolchain: Toolchain, flags: Sequence[str], link: Sequence[str], library: Sequence[Path], folder: Path
) -> list[Path]:
    """Builds the program `fuzz`, and `libfake_opencl.so`, the OpenCL library that it loads."""
    fuzz, fake = folder / "fuzz", folder / "libfake_opencl.so"
    units = [_unit(_FOLDER / "fuzz" / name) for name in ("fuzz.c", "mutate.c")]
    objects = _objects(toolchain, flags, units, folder)
    run_compiler([*link, "-o", str(fuzz), *map(str, [*objects, *library]), *_LIBRARIES])
    objects = _objects(toolchain, flags, [_unit(_FOLDER / "fuzz" / "fake_opencl.c")], folder)
    run_compiler([*link, "-shared", "-o", str(fake), *map(str, objects)])
    return [fuzz, fake]


def _tile_units(target: Abi) -> list[TranslationUnit]:
    """Lists the units of the innermost loops, once for each instruction set of the target, and block."""
    sets = {"generic": (), **_sets_of(target)}
    floats = sorted(path for path in EVERYTHING.sources() if any(map(path.match, _PER_BLOCK)))
    folder = _FOLDER / "src" / "cpu"
    units = [_tile_unit(name, sets) for name in sets if name not in _EXTENDED]
    sets |= _X86_PAIRS if "avx2" in sets else {}
    for (name, flags), block in itertools.product(sets.items(), _BLOCKS):
        if name.startswith("avx512") and block == 8:
            continue  # a block fills half a register; avx2 serves it
        is_rare = block == 16 and "avx512" in sets and not name.startswith("avx512")  # of plans made for a better CPU
        windows = (name, block) in _SUMMING_PIXELS
        told = (f"-DRT_ISA={name}", f"-DRT_BLOCK={block}", *flags, *(("-Os",) if is_rare else ()))
        told += ("-DRT_SUMS_PIXELS",) if windows else ()
        paths = [] if name in (*_EXTENDED, *_X86_PAIRS) else floats
        own = [_HALVES if name == "fp16" else _QUANTIZED] if name != "avx512" else []
        own += [_QUANTIZED_WINDOWS] if windows else []
        units += [_unit(path, f"{name}_{block}", told) for path in (*paths, *(folder / each for each in own))]
    return units


def _tile_unit(name: str, sets: Mapping[str, tuple[str, ...]]) -> TranslationUnit:
    extensions = " ".join(f"X({extension})" for extension in sets if _EXTENDED.get(extension) == name)
    told = (f"-DRT_ISA={name}", f"-DRT_EXTENSIONS(X)={extensions}", *sets[name])
    return _unit(_FOLDER / "src" / "cpu" / _PER_SET, name, told)


def _sets_of(target: Abi) -> Mapping[str, tuple[str, ...]]:
    """The instruction sets beyond the generic one, and the compiler's flags for each."""
    if target.name.startswith("x86_64"):
        return _X86_SETS
    return _ARM_SETS if target.name.startswith(("arm64", "aarch64")) else {}


_PKG_CONFIG = """\
libdir=${{pcfiledir}}
includedir=${{pcfiledir}}

Name: farmrt
Description: Executes the plans that farm convert writes
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lfarmrt {flags}
"""

_CMAKE = """\
# find_package(farmrt) gives the targets farmrt::farmrt (static) and, after `farm build --shared`, farmrt::shared.
if(NOT TARGET farmrt::farmrt)
  add_library(farmrt::farmrt STATIC IMPORTED)
  set_target_properties(farmrt::farmrt PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/libfarmrt.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
    INTERFACE_LINK_LIBRARIES "{libraries}")
endif()
if(NOT TARGET farmrt::shared AND EXISTS "${{CMAKE_CURRENT_LIST_DIR}}/libfarmrt.so")
  add_library(farmrt::shared SHARED IMPORTED)
  set_target_properties(farmrt::shared PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/libfarmrt.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
endif()
"""

_CMAKE_VERSION = """\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


def package_files(linker_flags: Sequence[str]) -> Mapping[str, str]:
    """Text of each file by its name; `linker_flags` (`-lm`, ...) link what the static library needs."""
    values = {
        "version": RUNTIME_VERSION,
        "flags": " ".join(linker_flags),
        "libraries": ";".join(flag.removeprefix("-l") for flag in linker_flags),
    }
    texts = {"farmrt.pc": _PKG_CONFIG, "farmrtConfig.cmake": _CMAKE, "farmrtConfigVersion.cmake": _CMAKE_VERSION}
    return {name: text.format_map(values) for name, text in texts.items()}

"""The Android executable that needs no NDK: what Android's dynamic linker will find in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from runtime.errors import BuildError
from runtime.native import android
from runtime.native.build import build_farmrt
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler
from runtime.native.programs import build_engine_runner
from runtime.native.toolchains import find_toolchain

ABI = "arm64-v8a"
PAGE_BYTES = 16 * 1024


@pytest.fixture(autouse=True)
def no_ndk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)


@pytest.fixture
def elf() -> Iterator[ELFFile]:
    with build_farmrt(ABI).open("rb") as file:
        yield ELFFile(file)


def tags(elf: ELFFile) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for tag in elf.get_section_by_name(".dynamic").iter_tags():
        found.setdefault(tag.entry.d_tag, []).append(getattr(tag, "needed", tag.entry.d_val))
    return found


def undefined(elf: ELFFile) -> set[str]:
    symbols = elf.get_section_by_name(".dynsym").iter_symbols()
    return {symbol.name for symbol in symbols if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.name}


@pytest.mark.slow
def test_position_independent_for_bionics_linker(elf: ELFFile) -> None:
    assert (elf.get_machine_arch(), elf.header.e_type) == ("AArch64", "ET_DYN")
    (interpreter,) = (segment for segment in elf.iter_segments() if segment.header.p_type == "PT_INTERP")
    assert interpreter.get_interp_name() == "/system/bin/linker64"
    assert elf.header.e_entry != 0


@pytest.mark.slow
def test_pages_of_16_kib(elf: ELFFile) -> None:
    loads = [segment.header for segment in elf.iter_segments() if segment.header.p_type == "PT_LOAD"]
    assert {load.p_align for load in loads} == {PAGE_BYTES}
    assert all(load.p_vaddr % PAGE_BYTES == load.p_offset % PAGE_BYTES for load in loads)
    pages = [range(load.p_vaddr // PAGE_BYTES, -(-(load.p_vaddr + load.p_memsz) // PAGE_BYTES)) for load in loads]
    assert len(set().union(*pages)) == sum(map(len, pages)), "segments of different rights share a page"


@pytest.mark.slow
def test_segments_that_android_refuses(elf: ELFFile) -> None:
    """Code that can be written, a stack that can be executed, and thread-local storage, which API 24 lacks."""
    flags = {segment.header.p_type: segment.header.p_flags for segment in elf.iter_segments()}
    assert "PT_TLS" not in flags
    assert not flags["PT_GNU_STACK"] & 1
    assert not any(segment.header.p_flags & 3 == 3 for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD")
    assert not {"DT_TEXTREL", "DT_RPATH", "DT_RUNPATH"} & set(tags(elf))


@pytest.mark.slow
def test_only_bionics_libraries_and_both_hash_tables(elf: ELFFile) -> None:
    found = tags(elf)
    assert sorted(found["DT_NEEDED"]) == ["libc.so", "libdl.so", "libm.so"]
    assert {"DT_HASH", "DT_GNU_HASH"} <= set(found)


@pytest.mark.slow
def test_the_runner_of_engines_is_linked_like_it() -> None:
    with build_engine_runner(ABI).open("rb") as file:
        runner = ELFFile(file)
        assert sorted(tags(runner)["DT_NEEDED"]) == ["libc.so", "libdl.so", "libm.so"]
        assert {"dlopen", "dlsym"} < undefined(runner) <= set().union(*android.read_symbols().values())


@pytest.mark.slow
def test_every_name_is_bionics(elf: ELFFile) -> None:
    known = {name for names in android.read_symbols().values() for name in names}
    names = undefined(elf)
    assert {"__libc_init", "__errno", "dlopen", "pthread_create"} <= names
    assert names <= known
    assert not {name for name in names if android.DIFFERENT.fullmatch(name)}


def test_the_list_of_names() -> None:
    symbols = android.read_symbols()
    assert {library: len(names) for library, names in symbols.items()} == {"libc": 1188, "libm": 267, "libdl": 12}
    assert all(len(set(names)) == len(names) for names in symbols.values())
    assert {"printf", "pthread_cond_wait", "stdin"} <= set(symbols["libc"])
    assert {"expf", "tanhf"} <= set(symbols["libm"])


def test_names_with_other_types() -> None:
    names = {name for names in android.read_symbols().values() for name in names}
    left_out = set(filter(android.DIFFERENT.fullmatch, names))
    assert {"sysconf", "sigaction", "setjmp", "_longjmp", "siglongjmp", "sem_wait", "setlocale", "nftw64"} <= left_out
    assert not {"signal", "strtod", "sched_getaffinity", "ftell", "erf", "pthread_setname_np"} & left_out


@pytest.mark.parametrize("name", ["sysconf", "getrandom"])
@pytest.mark.slow
def test_what_bionic_has_not_or_otherwise_does_not_link(name: str, tmp_path: Path) -> None:
    """`sysconf` has other numbers there, `getrandom` came with API level 28."""
    toolchain = find_toolchain(ABI)
    (tmp_path / "main.c").write_text(f"long {name}(int);\nint main(void) {{ return (int){name}(1); }}\n")
    objects = compile_translation_units(
        toolchain.compiler, ("-fPIC",), [TranslationUnit(tmp_path / "main.c")], tmp_path
    )
    command = android.link_command(toolchain.compiler, toolchain.bare_linker, tmp_path / "main", objects)
    with pytest.raises(BuildError, match=f"undefined symbol: {name}"):
        run_compiler(command)

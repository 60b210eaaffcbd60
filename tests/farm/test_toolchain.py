"""ziglang's linker stands in for a missing `ld`."""

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from farm import toolchain


def test_where_there_is_a_linker_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "ld").write_text("#!/bin/sh\n")
    (tmp_path / "ld").chmod(0o755)
    base = {"PATH": str(tmp_path), "HOME": "/home/x"}
    assert toolchain.environment(base, tmp_path / "toolchain") == base
    assert not (tmp_path / "toolchain").exists()


def test_without_ziglang_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_zig", lambda: None)
    assert toolchain.environment({"PATH": str(tmp_path)}, tmp_path / "toolchain") == {"PATH": str(tmp_path)}


def test_without_a_linker_ziglangs_is_offered(tmp_path: Path) -> None:
    environment = toolchain.environment({"PATH": "/nowhere", "HOME": "/home/x"}, tmp_path / "tool chain")
    first, rest = environment["PATH"].split(os.pathsep)
    assert (first, rest, environment["HOME"]) == (str(tmp_path / "tool chain"), "/nowhere", "/home/x")
    answer = subprocess.run([f"{first}/ld", "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("LLD")


def test_the_linker_script_is_written_once(tmp_path: Path) -> None:
    toolchain.environment({"PATH": "/nowhere"}, tmp_path)
    before = (tmp_path / "ld").stat().st_mtime_ns
    toolchain.environment({"PATH": "/nowhere"}, tmp_path)
    assert (tmp_path / "ld").stat().st_mtime_ns == before


def test_it_links_as_pocl_does_without_development_files(tmp_path: Path) -> None:
    """The libraries that PoCL names are not on the search path, as on a machine without a compiler."""
    zig = toolchain.find_zig()
    assert zig
    (tmp_path / "kernel.c").write_text("int memcmp(const void*, const void*, unsigned long);\n"
                                       "int f(const char *a) { return memcmp(a, \"ok\", 2); }\n")  # fmt: skip
    compile_only = ["cc", "-c", "-fPIC", "-fno-builtin", "-fno-sanitize=all", "-O1", "kernel.c", "-o", "kernel.o"]
    cache = {"ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "cache"), "ZIG_LOCAL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([zig, *compile_only], cwd=tmp_path, env=os.environ | cache, check=True)

    path = toolchain.environment({"PATH": "/nowhere"}, tmp_path / "toolchain")["PATH"].split(os.pathsep)[0]
    libraries = ["-lgcc", "--as-needed", "-lgcc_s", "--no-as-needed", "-lc", "-lm"]
    link = [f"{path}/ld", "-shared", "-o", "kernel.so", "kernel.o", *libraries]
    subprocess.run(link, cwd=tmp_path, check=True)
    assert ctypes.CDLL(str(tmp_path / "kernel.so")).f(b"ok") == 0

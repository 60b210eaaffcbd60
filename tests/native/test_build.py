"""Building farmrt: the cache, the choice of a compiler, and what is said when one fails."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from farm import cli
from runtime.errors import BuildError, ConfigError
from runtime.native import build, object_cache
from runtime.native.abi import ABIS
from runtime.native.build import build_farmrt
from runtime.native.compiling import TranslationUnit
from runtime.native.features import PROGRAM
from runtime.native.toolchains import Toolchain, find_toolchain, why_missing

MAX_STRIPPED_BYTES = 590_000  # arm64 has its loops in bytes for three instruction sets, of found steps too, and in half
MAX_HOST_BYTES = 1_320_000  # x86-64 has its innermost loops in three instruction sets, those in bytes in six
NO_NDK = "armeabi-v7a needs the Android NDK: set ANDROID_NDK_HOME to its folder (arm64-v8a is built without it)"

# Notes what it is asked for, and makes what a compiler would.
FAKE_CLANG = f"""\
#!{sys.executable}
import pathlib, sys
with open(pathlib.Path(__file__).with_name("log"), "a") as log:
    print(*sys.argv[1:], file=log)
output = sys.argv[sys.argv.index("-o") + 1] if "-o" in sys.argv else sys.argv[2]
pathlib.Path(output).write_bytes(b"made")
"""


@pytest.fixture
def no_ndk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)


@pytest.fixture
def ndk_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An NDK whose programs note their arguments in this file."""
    folder = tmp_path / "ndk"
    programs = folder / "toolchains" / "llvm" / "prebuilt" / "linux-x86_64" / "bin"
    programs.mkdir(parents=True)
    for name in ("clang", "llvm-ar"):
        (programs / name).write_text(FAKE_CLANG)
        (programs / name).chmod(0o755)
    (folder / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 27.2.12479018\n")
    monkeypatch.setenv("ANDROID_NDK_HOME", str(folder))
    monkeypatch.setenv("FARM_OBJECTS", str(tmp_path / "objects"))
    return programs / "log"


def test_unchanged_sources_are_not_compiled_again(farmrt_program: Path) -> None:
    before = farmrt_program.stat()
    assert build_farmrt() == farmrt_program
    assert farmrt_program.stat().st_mtime_ns == before.st_mtime_ns


def test_unknown_abi() -> None:
    with pytest.raises(ConfigError, match=f"ABI 'vax' is unknown; farmrt is built for {', '.join(ABIS)}"):
        build_farmrt("vax")
    assert list(ABIS) == ["host", "arm64", "armhf", "arm64-v8a", "armeabi-v7a"]


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    script = "import sys; print('base.c:1: no such thing'); sys.exit(3)"
    with pytest.raises(BuildError, match=r"failed with exit status 3:\nbase.c:1: no such thing"):
        build_farmrt(output_dir=tmp_path, compiler=[sys.executable, "-c", script])
    assert not list((tmp_path / "host").glob("farmrt*"))


def test_a_compiler_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"^/nonexistent/cc cannot be started: No such file"):
        build_farmrt(output_dir=tmp_path, compiler=["/nonexistent/cc"])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file")
    with pytest.raises(BuildError, match=f"{tmp_path}/build/host: cannot be written: Not a directory"):
        build_farmrt(output_dir=tmp_path / "build")


@pytest.mark.usefixtures("no_ndk")
def test_without_an_ndk_only_32_bit_android_is_missing() -> None:
    assert {abi: why_missing(abi) for abi in ABIS if why_missing(abi)} == {"armeabi-v7a": NO_NDK}
    with pytest.raises(ConfigError, match="armeabi-v7a needs the Android NDK: set ANDROID_NDK_HOME"):
        find_toolchain("armeabi-v7a")
    assert find_toolchain("arm64-v8a").name.startswith("ziglang ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("abi", "target"), [("arm64-v8a", "aarch64-linux-android24"), ("armeabi-v7a", "armv7a-linux-androideabi24")]
)
def test_the_ndk_compiles_for_android(abi: str, target: str, ndk_log: Path, tmp_path: Path) -> None:
    assert find_toolchain(abi).name == "NDK 27.2.12479018"
    assert build_farmrt(abi, tmp_path).read_bytes() == b"made"
    lines = ndk_log.read_text().splitlines()
    compiled = [line for line in lines if " -c " in line]
    (linked,) = (line for line in lines if line.split()[-1] == "-lm")
    innermost_loops = build.unit_commands(ABIS[abi])
    assert len(compiled) == len(build.sources()) + len(innermost_loops) + len(PROGRAM)
    assert all(line.startswith(f"--target={target} ") for line in (*compiled, linked))
    assert "-pie -Wl,-z,max-page-size=16384 -Wl,--hash-style=both" in linked
    assert "-lpthread" not in linked


def test_a_folder_that_is_no_ndk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=f"ANDROID_NDK_HOME: {tmp_path} is no NDK: it has no toolchains/llvm"):
        build_farmrt("arm64-v8a")


def test_another_version_of_the_compiler_is_another_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for `cc` that is replaced by one of another version."""
    names = []
    for version in ("1.0", "1.1"):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "cc").write_text(f"#!/bin/sh\necho cc {version}\necho more\n")
        (folder / "cc").chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
            names.append(find_toolchain("host").name)
    assert names == ["cc 1.0", "cc 1.1"]


def test_command(farmrt_program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["build"]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in head.split("|")] == ["ABI", "Size", "Time", "Compiler", "Program"]
    abi, size, _, compiler, program = (cell.strip() for cell in row.split("|"))
    assert (abi, size, program) == ("host", f"{farmrt_program.stat().st_size:,} B", str(farmrt_program))
    assert compiler == find_toolchain("host").name


@pytest.mark.usefixtures("no_ndk")
@pytest.mark.parametrize(
    ("words", "said"),
    [(["--all", "--abi", "host"], "farm build: give --abi or --all, not both"), (["--abi", "armeabi-v7a"], NO_NDK)],
)
def test_command_refuses(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["build", *words]) == 2
    assert capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.slow
@pytest.mark.usefixtures("no_ndk")
def test_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that can be built here, what cannot is named, and each is a small program for its machine."""
    assert cli.call(["build", "--all", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["left_out"] == {"armeabi-v7a": NO_NDK}
    machines = {}
    for built in said["built"]:
        most = MAX_HOST_BYTES if built["abi"] == "host" else MAX_STRIPPED_BYTES
        assert 0 < built["size_bytes"] == Path(built["program"]).stat().st_size < most
        with Path(built["program"]).open("rb") as file:
            machines[built["abi"]] = ELFFile(file).get_machine_arch()
    assert machines.pop("host")
    assert machines == {"arm64": "AArch64", "armhf": "ARM", "arm64-v8a": "AArch64"}


@pytest.mark.slow
@pytest.mark.parametrize("abi", ["arm64", "armhf"])
def test_boards_need_no_newer_glibc_than_2_28(abi: str) -> None:
    with build_farmrt(abi).open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        needed = {version.name for _, versions in section.iter_versions() for version in versions}
    numbers = {tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in needed}
    assert numbers
    assert max(numbers) <= (2, 28)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="ziglang is the default here")
def test_ziglang_builds_it_too(tmp_path: Path) -> None:
    program = build_farmrt(output_dir=tmp_path, compiler=[sys.executable, "-m", "ziglang", "cc"])
    assert program.stat().st_size > 50_000


@pytest.mark.slow
def test_the_ndk_links_the_shared_library(ndk_log: Path, tmp_path: Path) -> None:
    """As a library of 16 KiB pages that lacks no name, and not as a program."""
    library = build_farmrt("armeabi-v7a", tmp_path, shared=True).with_name("libfarmrt.so")
    assert library.read_bytes() == b"made"
    (linked,) = (line for line in ndk_log.read_text().splitlines() if " -shared " in line)
    assert linked.startswith("--target=armv7a-linux-androideabi24 -mfpu=neon ")
    assert "-Wl,-z,max-page-size=16384" in linked and "-Wl,-soname,libfarmrt.so" in linked
    assert "-Wl,-z,defs" in linked and "-pie" not in linked.split() and "-lpthread" not in linked


# "Compiles" by copying, fails for a file that says so, and notes the names of the files.
COMPILER = f"""\
#!{sys.executable}
import pathlib, sys
source, output = pathlib.Path(sys.argv[-3]), pathlib.Path(sys.argv[-1])
with open(pathlib.Path(__file__).with_name("log"), "a") as log:
    print(source.name, file=log)
sys.exit("wrong" if source.read_text() == "wrong" else output.write_text(source.read_text()) * 0)
"""


class Project:
    """Two sources and a header, and a compiler that is asked for what is not in the cache."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache, self.log = folder, folder / "cache", folder / "log"
        self.sources = folder / "sources"
        self.sources.mkdir()
        self.units = [TranslationUnit(self.sources / name) for name in ("a.c", "b.c")]
        for unit in self.units:
            unit.source.write_text(unit.name)
        (self.sources / "both.h").write_text("")
        (folder / "cc").write_text(COMPILER)
        (folder / "cc").chmod(0o755)

    def compiled(self, version: str = "1", flags: tuple[str, ...] = (), generated: str = "") -> str:
        """The files that a build into a new folder has to compile; what it makes is right."""
        self.log.write_text("")
        made = self.folder / f"build-{time.monotonic_ns()}"
        made.mkdir()
        (made / "generated.h").write_text(generated)
        toolchain = Toolchain(f"cc {version}", (str(self.folder / "cc"),), ())
        objects = object_cache.compile_or_take(toolchain, flags, self.units, made, self.cache)
        assert objects == [made / "a.o", made / "b.o"]
        assert [path.read_text() for path in objects] == [unit.source.read_text() for unit in self.units]
        return " ".join(sorted(self.log.read_text().split()))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(object_cache, "_SOURCES", tmp_path / "sources")
    made = Project(tmp_path)
    assert made.compiled() == "a.c b.c"
    return made


def test_what_changed_is_compiled_and_nothing_else(project: Project) -> None:
    assert project.compiled() == ""
    project.units[0].source.write_text("changed")
    assert project.compiled() == "a.c"
    project.units[0].source.write_text("a")
    assert project.compiled() == ""
    project.units[1] = TranslationUnit(project.units[1].source, flags=("-O3",))
    assert project.compiled() == "b.c"


@pytest.mark.slow
def test_a_header_a_flag_or_another_compiler_changes_all(project: Project) -> None:
    assert project.compiled(flags=("-DX",)) == project.compiled(version="2") == "a.c b.c"
    assert project.compiled(generated="changed") == "a.c b.c"
    (project.sources / "both.h").write_text("changed")
    assert project.compiled() == "a.c b.c"


@pytest.mark.slow
def test_objects_of_another_place_are_the_same_unless_they_hold_its_name(project: Project) -> None:
    assert project.compiled(flags=("-g",)) == "a.c b.c"
    for index, unit in enumerate(project.units):
        moved = project.folder / "elsewhere" / unit.source.name
        moved.parent.mkdir(exist_ok=True)
        project.units[index] = TranslationUnit(unit.source.rename(moved))
    assert project.compiled() == ""
    assert project.compiled(flags=("-g",)) == "a.c b.c"


@pytest.mark.slow
def test_a_file_that_does_not_compile_is_not_kept(project: Project) -> None:
    project.units[0].source.write_text("wrong")
    for _ in range(2):
        with pytest.raises(BuildError, match="wrong"):
            project.compiled()


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_costs_time_alone(project: Project) -> None:
    project.cache = project.folder / "cc" / "cache"
    assert project.compiled() == project.compiled() == "a.c b.c"


@pytest.mark.slow
def test_what_is_not_used_for_a_month_goes(project: Project) -> None:
    half = project.cache / ".half-dead"
    half.mkdir()
    long_ago = time.time() - 31 * 24 * 3600
    for path in project.cache.iterdir():
        os.utime(path, (long_ago, long_ago))
    project.units[0].source.write_text("changed")
    assert project.compiled() == "a.c"  # b's object is used, and so stays
    assert len(list(project.cache.iterdir())) == 2 and not half.exists()

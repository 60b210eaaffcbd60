"""Objects are compiled once for each content, flags and compiler, and taken from the cache by any later build."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from runtime.errors import BuildError
from runtime.native import object_cache
from runtime.native.compiling import TranslationUnit
from runtime.native.toolchains import Toolchain

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

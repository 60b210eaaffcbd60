"""Fixtures: calling the command line, places that hosts share, and emulated phones for tests of whole jobs."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from farm import cli
from farm.cli import view
from farm.emulation.phone_unit import private_adb_server
from farm.jobs.compare import duet
from tests import adb_programs
from tests.conftest import require
from tests.farm.emulated_units import EmulatedUnits, shorten_waits

CallFarm = Callable[..., tuple[int, str, str]]


@pytest.fixture
def farm(capsys: pytest.CaptureFixture[str]) -> CallFarm:
    """Calls `farm` with these arguments; returns exit status, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.call(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture(autouse=True)
def no_slow_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands add no line of progress because this machine is busy."""
    monkeypatch.setattr(view, "LINE_EVERY_S", math.inf)


@pytest.fixture
def untold_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units do not tell what rounds waited for a core: how busy this machine is changes no test of something else."""
    monkeypatch.setattr(duet, "waited_share", lambda answers: None)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a new folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty schema of its own."""
    from tests.farm.store.postgresql_server import empty_schema

    with empty_schema() as url:
        yield url


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty place that hosts share: a folder, and fsspec's memory."""
    if request.param == "folder":
        yield str(tmp_path / "place")
    else:
        yield f"memory://{tmp_path.name}"
        fsspec.filesystem("memory").rm("/", recursive=True)


@pytest.fixture
def adb_program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The adb that the test runs with: adbutils', or the one that its parameter names."""
    name: str = getattr(request, "param", adb_programs.ADBUTILS)
    require("debian_adb", adb_programs.missing(name))
    adb_programs.use(name, tmp_path_factory.mktemp("program"), monkeypatch)
    return name


@pytest.fixture(scope="module")
def adb_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of an adb server that belongs to the tests of a module."""
    with private_adb_server(tmp_path_factory.mktemp("adb")) as port:
        yield port


@pytest.fixture
def emulated(
    adb_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[EmulatedUnits]:
    """A working directory with a small network, and emulated phones; what is waited for takes a second or two."""
    shorten_waits(monkeypatch)
    with EmulatedUnits(tmp_path, adb_port, monkeypatch, capsys) as found:
        yield found

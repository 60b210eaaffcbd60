"""Engines on units that are not this machine: wheels for their Python, unpacked there; played by a local folder."""

import dataclasses
import platform
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from farm.engines import wheels
from farm.engines.base import EngineModel, EngineTask, EngineUnit
from farm.engines.wheels import UnitPython, ask_python, fetch_wheels, unpacked_wheels
from farm.farmrt.unit_file_store import UnitFileStore
from farm.transport.local import LocalTransport
from runtime.errors import DeviceError, JobError, UnsupportedError
from tests.farm.engines import played_engines

PYTHON = UnitPython("3.11", 31, "aarch64")


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[EngineUnit]:
    """A unit that farm would have to bring an engine to."""
    transport = LocalTransport(tmp_path / "unit")
    with UnitFileStore(transport) as store:
        yield EngineUnit("board", "arm64", False, transport, store, list, 60.0)
    transport.close()


def write_wheel(path: Path, **files: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name.replace("__", "/") + ".py", text)
    return path


def test_a_unit_says_which_wheels_its_python_takes(unit: EngineUnit) -> None:
    found = ask_python(unit, "mine")
    assert found.machine == platform.machine() and found.version.startswith("3.")
    assert found.platforms[0].endswith(f"_{found.machine}") and found.platforms[-1] == f"manylinux_2_17_{found.machine}"


def test_a_unit_without_python_says_what_to_install(unit: EngineUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "PYTHON", "no-such-python3")
    with pytest.raises(DeviceError, match="engine mine needs no-such-python3 on board: apt install no-such-python3"):
        ask_python(unit, "mine")
    monkeypatch.setattr(wheels, "PYTHON", "echo")
    with pytest.raises(DeviceError, match="with glibc on board, which answers: -c import json"):
        ask_python(unit, "mine")
    phone = dataclasses.replace(unit, abi="arm64-v8a")
    with pytest.raises(UnsupportedError, match="Android has none"):
        ask_python(phone, "mine")


def test_wheels_are_fetched_once_for_each_kind_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def play(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        write_wheel(Path(command[command.index("--dest") + 1]) / "mine-1-py3-none-any.whl")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", play)
    first, again = (fetch_wheels(["mine", "numpy"], PYTHON, tmp_path / "cache") for _ in range(2))
    assert [path.name for path in first] == ["mine-1-py3-none-any.whl"] and first == again
    (command,) = commands
    assert command[-2:] == ["mine", "numpy"] and "manylinux_2_31_aarch64" in command and "--no-deps" in command
    assert command[command.index("--python-version") + 1] == "3.11"


def test_pip_says_why_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "WARNING: x\nERROR: No matching distribution found for mine\n"
    failed = subprocess.CompletedProcess([], 1, "", words)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    text = "no wheels of mine for Python 3.11 on aarch64: ERROR: No matching distribution found for mine"
    with pytest.raises(JobError, match=text):
        fetch_wheels(["mine"], PYTHON, tmp_path)
    assert not list(tmp_path.iterdir()), "nothing half done stays"


def test_wheels_lie_unpacked_on_the_unit_for_as_long_as_the_job(unit: EngineUnit, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "w" / "mine-1-py3-none-any.whl", mine="VALUE = 7")
    with unpacked_wheels(unit, [wheel]) as there:
        assert unit.transport.run(["cat", f"{there.folder}/mine.py"], 10.0).stdout == b"VALUE = 7"
        assert there.size_bytes == len("VALUE = 7")
    assert unit.transport.run(["ls", there.folder], 10.0).exit_status
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"no archive")
    with (
        pytest.raises(DeviceError, match=r"wheels cannot be unpacked there: .*zip file"),
        unpacked_wheels(unit, [broken]),
    ):
        pass


class Doubles:
    """Runs on the unit, where only the wheel has its package."""

    def __init__(self, files: object, threads: int | None) -> None:
        pass

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        import wheeled  # type: ignore[import-not-found]

        return {"y": inputs["x"] * wheeled.FACTOR}


def test_versions_are_told_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    said = "mine (1.10.0)\nAvailable versions: 1.10.0, 1.9.1, 1.9.0\n  INSTALLED: 1.9.1\n"

    def play(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, said, "")

    monkeypatch.setattr(subprocess, "run", play)
    assert wheels.wheel_versions("mine", PYTHON) == ["1.9.0", "1.9.1", "1.10.0"]
    assert commands[0][3:5] == ["index", "versions"] and "manylinux_2_31_aarch64" in commands[0]


@pytest.mark.slow
def test_a_version_of_an_engine_runs_from_its_wheel_on_this_machine(
    unit: EngineUnit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = played_engines.PlayedEngine("doubles", Doubles)
    engine.package, engine.module, engine.needs = "wheeled", "wheeled", ("numpy", "no-such-need")
    asked: list[str] = []

    def fetched(packages: list[str], python: UnitPython) -> list[Path]:
        asked.extend(packages)
        return [write_engine_wheel(tmp_path / "w", "2.5")]

    monkeypatch.setattr("farm.engines.python_engine.fetch_wheels", fetched)
    model = EngineModel("net", "onnx", tmp_path / "net.onnx", b"onnx", ("x",), ("y",), tmp_path)
    pinned = engine.at("2.5")
    assert (pinned.name, pinned.missing(), engine.name) == ("doubles==2.5", "", "doubles")
    with pinned.ready(dataclasses.replace(unit, is_here=True)) as run:
        done = run(EngineTask(model, "cpu", {"x": np.arange(3.0)}, rounds=2, warmup=1))
    assert asked == ["wheeled==2.5", "no-such-need"], "what is installed here serves, too"
    assert done.version == "2.5" and list(done.outputs["y"]) == [0.0, 2.0, 4.0]


def write_engine_wheel(folder: Path, version: str) -> Path:
    """A wheel of the package that Doubles runs on."""
    path = write_wheel(folder / f"wheeled-{version}-py3-none-any.whl", wheeled="FACTOR = 2")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(
            f"wheeled-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: wheeled\nVersion: {version}\n"
        )
    return path


@pytest.mark.slow
def test_an_engine_runs_from_its_wheel(unit: EngineUnit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    engine = played_engines.PlayedEngine("doubles", Doubles)
    engine.package, engine.module = "wheeled", "wheeled"
    wheel = write_engine_wheel(tmp_path / "w", "2.5")
    monkeypatch.setattr("farm.engines.python_engine.fetch_wheels", lambda packages, python: [wheel])
    monkeypatch.setattr("farm.engines.python_engine.PYTHON", sys.executable)  # which has NumPy
    model = EngineModel("net", "onnx", tmp_path / "net.onnx", b"onnx", ("x",), ("y",), tmp_path)
    task = EngineTask(model, "cpu", {"x": np.arange(3.0)}, rounds=2, warmup=1)
    with engine.ready(unit) as run:
        done = run(task)
    assert done.version == "2.5" and list(done.outputs["y"]) == [0.0, 2.0, 4.0] and len(done.samples_ms) == 2

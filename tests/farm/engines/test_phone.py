"""Engines on an emulated phone, which has no Python: by their C libraries, of archives of the user's.

The phone runs programs of this machine, so what stands for an AAR has the libraries of this machine's packages.
"""

import importlib.metadata
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.engines.base import EngineTask, EngineUnit
from farm.engines.elf import machine_of
from farm.engines.litert import LiteRt
from farm.engines.onnxruntime import OnnxRuntime
from farm.engines.python_engine import PythonEngine
from farm.engines.registry import engines
from farm.engines.user_file import is_one_of
from farm.jobs.fleet.opening import open_unit
from farm.transport.file_digest import sha256
from runtime.errors import DeviceError
from tests.conftest import require
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.engines import test_adapters
from tests.farm.engines.test_adapters import engine_model, write_chain
from tests.farm.model.tiny_model import write_deployment

pytestmark = pytest.mark.slow
played_delegate = test_adapters.played_delegate

FOLDER = {"aarch64": "arm64-v8a"}.get(machine_of("host"), machine_of("host"))
FILE = """\
libraries:
  {name}:
    file: {{host: {path}}}
    sha256: {{host: {digest}}}
"""
BESIDE = "    beside: [{}]\n"


def write_archive(engine: PythonEngine) -> Path:
    """An AAR, and engines.yml that names it, in the working folder."""
    require(engine.name, engine.not_installed())
    distribution = importlib.metadata.distribution(engine.package)
    (found,) = [file for file in distribution.files or () if is_one_of(file.name, engine.library)]
    path = Path(f"{engine.name}.aar")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("AndroidManifest.xml", "<manifest/>")
        archive.write(Path(str(found.locate())), f"jni/{FOLDER}/{found.name.partition('.so')[0]}.so")
    Path("engines.yml").write_text(FILE.format(name=engine.name, path=path, digest=sha256(path)))
    return path


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineUnit]:
    monkeypatch.chdir(tmp_path)
    with emulated_phone_unit("mi8", PhoneSettings(soc="sdm845")) as unit, open_unit(unit) as opened:
        link = opened.connection
        yield EngineUnit("mi8", unit.abi, unit.kind.is_local, link.transport, link.store, list, 60.0)


def test_onnx_runtime_runs_there(emulated: EmulatedUnits) -> None:
    emulated.phone()
    write_deployment(emulated.folder, runtime="cpu")
    write_archive(OnnxRuntime())
    row = emulated.run("--engine", "onnxruntime").row
    assert (row["status"], row["reason"], row["engine"]) == ("ok", "", "onnxruntime")
    assert row["sqnr_db"] > 100 and len(row["latency_ms"]["samples"]) == 3 and row["peak_memory"]["resident_bytes"]
    assert row["settings"]["runner"] == "c" and row["settings"]["nodes"] == {"CPUExecutionProvider": 5}
    assert (
        row["versions"]["onnxruntime"] == importlib.metadata.version("onnxruntime")
        and len(row["hashes"]["engine"]) == 64
    )


def test_a_file_that_is_not_the_named_one_is_a_row(emulated: EmulatedUnits) -> None:
    emulated.phone()
    write_deployment(emulated.folder, runtime="cpu")
    path = write_archive(OnnxRuntime())
    with path.open("ab") as file:
        file.write(b"more")
    row = emulated.run("--engine", "onnxruntime").row
    assert row["status"] == "failed" and "onnxruntime.aar has another hash than engines.yml names" in row["reason"]


def test_litert_runs_there_with_a_delegate(phone: EngineUnit, played_delegate: Path) -> None:
    write_archive(LiteRt())
    write_chain(Path("chain.tflite"), "NEG", "RELU", "ABS", "RELU", "NEG")
    model = engine_model(Path.cwd(), platform="tflite", source=Path("chain.tflite"))
    value = np.array([[-1, 0, 2, -3]], np.float32)
    with engines()["litert"].ready(phone) as run:
        plain = run(EngineTask(model, "cpu", {"x": value}, 3, 1, 1))
        own = run(EngineTask(model, "cpu", {"x": value}, 3, 1, 1, {"delegate": str(played_delegate)}))
    for done, taken in ((plain, 5), (own, 2)):
        assert done.outputs["y"].tolist() == [[-1.0, 0.0, 0.0, -3.0]] and len(done.samples_ms) == 3
        assert done.settings["nodes"] == {"delegate": taken, "cpu": 5 - taken} and done.settings["runner"] == "c"


def test_libraries_beside_it_are_found_by_their_names(phone: EngineUnit, played_delegate: Path) -> None:
    write_archive(LiteRt())
    with Path("engines.yml").open("a") as file:
        file.write(BESIDE.format(played_delegate))
    write_chain(Path("chain.tflite"), "NEG", "RELU", "ABS", "RELU", "NEG")
    model = engine_model(Path.cwd(), platform="tflite", source=Path("chain.tflite"))
    value = np.array([[-1, 0, 2, -3]], np.float32)
    with engines()["litert"].ready(phone) as run:
        done = run(EngineTask(model, "cpu", {"x": value}, 1, 0, 1, {"delegate": played_delegate.name}))
    assert done.settings["nodes"] == {"delegate": 2, "cpu": 3} and done.hashes[played_delegate.name]
    left = phone.transport.run(["sh", "-c", "ls -d engine-* 2>/dev/null"], 30.0).stdout
    assert left == b"", "the folder is gone"
    Path("engines.yml").write_text(Path("engines.yml").read_text().replace(str(played_delegate), "libnone.so"))
    with engines()["litert"].ready(phone) as run, pytest.raises(DeviceError, match=r"libnone\.so: no such file"):
        run(EngineTask(model, "cpu", {"x": value}, 1, 0, 1))

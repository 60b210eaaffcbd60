"""LiteRT before 2.2 and TensorFlow Lite, by the C API that their libraries export, on a played library."""

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from farm.config.engine_file import LibrarySection
from farm.engines.base import EngineRun, EngineTask, EngineUnit
from farm.engines.elf import machine_of
from farm.engines.litert import LiteRt
from runtime.errors import DeviceError
from tests.farm.engines import test_adapters, test_c_library
from tests.farm.engines.test_adapters import engine_model, shared_library

pytestmark = pytest.mark.slow
unit, played_delegate = test_c_library.unit, test_adapters.played_delegate
INPUT = np.array([[-1, 0, 2, -3]], np.float32)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_library("played_tflite.c", tmp_path_factory.mktemp("tflite") / "libtensorflowlite_c.so")


def rounds_of(
    unit: EngineUnit, folder: Path, library: Path, options: Mapping[str, str] | None = None, **fields: object
) -> EngineRun:
    source = folder / "net.tflite"
    if not source.exists():
        source.write_bytes(b"PLAY")
    model = engine_model(folder, **{"platform": "tflite", "source": source, **fields})
    engine = LiteRt().with_libraries(LibrarySection(file={"host": str(library)}))
    with engine.ready(unit) as run:
        return run(EngineTask(model, "cpu", {model.inputs[0]: INPUT}, 3, 1, 2, options or {}))


def test_a_library_of_before_runs(unit: EngineUnit, tmp_path: Path, library: Path) -> None:
    done = rounds_of(unit, tmp_path, library)
    assert done.outputs["y"].tolist() == [[-1.0, 0.0, 0.0, -3.0]] and done.outputs["y"].dtype == np.float32
    assert (done.version, len(done.samples_ms), done.settings) == ("2.16.1", 3, {"runner": "c"})
    names = {"inputs": ("serving_default_x:0",), "outputs": ("StatefulPartitionedCall:0",)}
    assert rounds_of(unit, tmp_path, library, **names).outputs.keys() == {"StatefulPartitionedCall:0"}


def test_its_archive_has_it_under_another_name(unit: EngineUnit, tmp_path: Path, library: Path) -> None:
    machine = machine_of("host")
    with zipfile.ZipFile(tmp_path / "litert.aar", "w") as archive:
        archive.write(library, f"jni/{'arm64-v8a' if machine == 'aarch64' else machine}/libtensorflowlite_jni.so")
    assert rounds_of(unit, tmp_path, tmp_path / "litert.aar").version == "2.16.1"


def test_a_delegate_takes_nodes(unit: EngineUnit, tmp_path: Path, library: Path, played_delegate: Path) -> None:
    done = rounds_of(unit, tmp_path, library, {"delegate": str(played_delegate)})
    assert done.settings["nodes"] == {"delegate": 1, "cpu": 2}
    with pytest.raises(DeviceError, match="litert refuses the model: the delegate is not made: no DSP here"):
        rounds_of(unit, tmp_path, library, {"delegate": str(played_delegate), "delegate.fails": "no DSP here"})


def test_what_does_not_fit_is_one_line(unit: EngineUnit, tmp_path: Path, library: Path) -> None:
    with pytest.raises(DeviceError, match=r"delegate=none: before LiteRT 2\.2 XNNPACK cannot be left out"):
        rounds_of(unit, tmp_path, library, {"delegate": "none"})
    with pytest.raises(DeviceError, match="litert refuses the model: the file has no output z"):
        rounds_of(unit, tmp_path, library, outputs=("z",))
    with pytest.raises(DeviceError, match="litert refuses the model: the file has an input that is not given"):
        rounds_of(unit, tmp_path, library, inputs=("z",))
    older = shared_library("played_tflite.c", tmp_path / "libtensorflowlite_c.so", "-DWITHOUT_SIGNATURES")
    with pytest.raises(DeviceError, match="the file has an input that is not given"):
        rounds_of(unit, tmp_path, older)
    (tmp_path / "net.tflite").write_bytes(b"no model")
    with pytest.raises(
        DeviceError, match="TfLiteModelCreateFromFile fails; its log ends: ERROR: the model is not identified"
    ):
        rounds_of(unit, tmp_path, library)
    none = shared_library("played_delegate.c", tmp_path / "none.so")
    with pytest.raises(DeviceError, match=r"litert refuses the model: no LiteRt[A-Za-z]+, which LiteRT 2\.2 has"):
        rounds_of(unit, tmp_path, none)


def test_it_runs_again_as_it_was(unit: EngineUnit, tmp_path: Path, library: Path, played_delegate: Path) -> None:
    """Library, model and delegate of an earlier night, from where they were kept."""
    own, given = tmp_path / "own.so", tmp_path / "given.so"
    own.write_bytes(library.read_bytes())
    given.write_bytes(played_delegate.read_bytes())
    first = rounds_of(unit, tmp_path, own, {"delegate": str(given)})
    assert first.snapshot and first.snapshot.files.keys() == {"engine", "model", "names", "delegate"}
    (tmp_path / "kept").mkdir()
    kept = {role: tmp_path / "kept" / role for role in first.snapshot.files}
    for role, path in first.snapshot.files.items():
        kept[role].write_bytes(path.read_bytes())
    for path in (own, given, tmp_path / "net.tflite"):
        path.write_bytes(b"replaced since")
    engine = LiteRt().with_libraries(LibrarySection(file={"host": str(own)}))
    model = engine_model(tmp_path, platform="tflite", source=tmp_path / "net.tflite")
    with engine.again(dataclasses.replace(first.snapshot, files=kept)).ready(unit) as run:
        done = run(EngineTask(model, "cpu", {"x": INPUT}, 3, 1, 2, {"delegate": str(given)}))
    assert (done.version, done.hashes, done.settings) == (first.version, first.hashes, first.settings)

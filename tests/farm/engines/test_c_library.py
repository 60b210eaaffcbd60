"""Engines by their C library: the outputs of the runner in C are those of the engine's Python package."""

import dataclasses
import hashlib
import random
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from farm.config.engine_file import load_engine_file
from farm.engines import registry, user_file, wheels
from farm.engines.base import EngineRun, EngineTask, EngineUnit
from farm.engines.c_library import package_library
from farm.engines.elf import machine_of
from farm.engines.litert import LiteRt
from farm.engines.onnxruntime import OnnxRuntime
from farm.engines.user_file import check_hash, library_of
from farm.farmrt.unit_file_store import UnitFileStore
from farm.transport.local import LocalTransport
from runtime.errors import ConfigError, DeviceError, FarmError, UnsupportedError
from tests.conftest import require
from tests.farm.engines import test_adapters
from tests.farm.engines.test_adapters import INPUT, engine_model, write_chain
from tests.farm.model.tiny_model import model_of

played_delegate = test_adapters.played_delegate

TYPES = (
    "float32",
    "float16",
    "float64",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
CHAIN_INPUT = np.array([[-1, 0, 2, -3]], np.float32)
C, PYTHON = {"runner": "c"}, {"runner": "python"}


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[EngineUnit]:
    """A unit that is not this machine, but runs what it runs."""
    transport = LocalTransport(tmp_path / "unit")
    with UnitFileStore(transport) as store:
        yield EngineUnit("phone", "host", False, transport, store, list, 60.0)
    transport.close()


def litert_rounds(unit: EngineUnit, folder: Path, options: Mapping[str, str], **fields: object) -> EngineRun:
    require("litert", LiteRt().missing())
    write_chain(folder / "chain.tflite", "NEG", "RELU", "ABS", "RELU", "NEG")
    model = engine_model(folder, **{"platform": "tflite", "source": folder / "chain.tflite", **fields})
    with LiteRt().ready(dataclasses.replace(unit, is_here=True)) as run:
        return run(EngineTask(model, "cpu", {model.inputs[0]: CHAIN_INPUT}, 3, 1, 2, options))


def rounds_of(
    unit: EngineUnit,
    folder: Path,
    options: Mapping[str, str],
    threads: int | None = 1,
    engine: OnnxRuntime | None = None,
) -> EngineRun:
    with (engine or OnnxRuntime()).ready(dataclasses.replace(unit, is_here=True)) as run:
        return run(EngineTask(engine_model(folder), "cpu", {"x": INPUT}, 3, 1, threads, options))


@pytest.mark.slow
def test_it_does_what_the_package_does(unit: EngineUnit, tmp_path: Path) -> None:
    in_c, in_python = (rounds_of(unit, tmp_path, options) for options in (C, PYTHON))
    np.testing.assert_array_equal(in_c.outputs["y"], in_python.outputs["y"])
    assert in_c.outputs["y"].dtype == np.float32 and len(in_c.samples_ms) == 3 and in_c.version == in_python.version
    assert in_c.settings == {"nodes": {"CPUExecutionProvider": 5}, "runner": "c"} != in_python.settings
    assert in_c.init_ms and in_c.first_ms and in_c.peak_bytes and in_c.peak_since == in_python.peak_since
    assert in_c.hashes["engine"] != in_python.hashes["engine"] and in_c.size_bytes["model"] > 0


@pytest.mark.slow
def test_arrays_of_every_type_go_in_and_out(unit: EngineUnit, tmp_path: Path) -> None:
    values = {name: np.random.default_rng(1).integers(0, 2, (2, 3)).astype(name) for name in TYPES}
    values |= {"scalar": np.array(7, np.int64), "empty": np.zeros((0, 3), np.float32)}
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in values.items()}
    nodes = [onnx.helper.make_node("Identity", [name], [f"{name}_out"]) for name in values]
    sides = [
        [onnx.helper.make_tensor_value_info(f"{name}{end}", kinds[name], value.shape) for name, value in values.items()]
        for end in ("", "_out")
    ]
    outputs = tuple(f"{name}_out" for name in values)
    model = engine_model(tmp_path, model_of(nodes, *sides), inputs=tuple(values), outputs=outputs)
    with OnnxRuntime().ready(dataclasses.replace(unit, is_here=True)) as run:
        done = run(EngineTask(model, "cpu", values, 1, 0, 1, C))
    for name, value in values.items():
        found = done.outputs[f"{name}_out"]
        assert (found.dtype, found.shape) == (value.dtype, value.shape) and (found == value).all(), name


@pytest.mark.slow
def test_options_reach_the_library(unit: EngineUnit, tmp_path: Path) -> None:
    """Azure's is the only other provider of the package for CPUs; it takes no node."""
    done = rounds_of(unit, tmp_path, {**C, "provider": "Azure", "session.intra_op.allow_spinning": "0"}, None)
    assert done.settings["nodes"] == {"CPUExecutionProvider": 5} and done.settings["provider"] == "Azure"
    with pytest.raises(DeviceError, match="onnxruntime refuses the model: QNN execution provider is not supported"):
        rounds_of(unit, tmp_path, {**C, "provider": "QNN"})
    with pytest.raises(DeviceError, match="onnxruntime refuses the model: this build has no execution provider NNAPI"):
        rounds_of(unit, tmp_path, {**C, "provider": "NNAPI"})
    with pytest.raises(DeviceError, match="Processor id must consist of only digits: no CPUs"):
        rounds_of(unit, tmp_path, {**C, "session.intra_op_thread_affinities": "no CPUs"}, 2)


@pytest.mark.slow
def test_a_unit_without_python_takes_the_library_of_the_wheel(
    unit: EngineUnit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "PYTHON", "no-such-python3")
    with package_library(unit, "onnxruntime", "onnxruntime", "", OnnxRuntime.library) as installed:
        wheel = tmp_path / "onnxruntime-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.write(installed.library, "onnxruntime/capi/libonnxruntime.so.1.2.3")
    asked = []

    def fetched(packages: list[str], python: wheels.UnitPython) -> list[Path]:
        asked.append((*packages, python.glibc))
        return [wheel]

    monkeypatch.setattr("farm.engines.c_library.fetch_wheels", fetched)
    with OnnxRuntime().at("1.2.3").ready(unit) as run:
        done = run(EngineTask(engine_model(tmp_path), "cpu", {"x": INPUT}, 2, 0))
    assert asked == [("onnxruntime==1.2.3", 28)], "and nothing that Python needs"
    assert (done.version, done.settings["runner"], len(done.samples_ms)) == ("1.2.3", "c", 2)
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("onnxruntime/capi/other.so", b"")
    with (
        OnnxRuntime().at("1.2.3").ready(unit) as run,
        pytest.raises(UnsupportedError, match=r"has no libonnxruntime\.so"),
    ):
        run(EngineTask(engine_model(tmp_path), "cpu", {"x": INPUT}, 2, 0))


@pytest.mark.slow
def test_no_wheel_is_for_android(unit: EngineUnit, tmp_path: Path) -> None:
    phone = dataclasses.replace(unit, abi="arm64-v8a")
    with (
        OnnxRuntime().ready(phone) as run,
        pytest.raises(
            UnsupportedError, match=r"for arm64-v8a, which no wheel has: name a file in engines\.yml, under libraries"
        ),
    ):
        run(EngineTask(engine_model(tmp_path), "cpu", {"x": INPUT}, 1, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("delegate", "taken"), [("xnnpack", 5), ("none", 0)])
def test_litert_does_what_its_package_does(unit: EngineUnit, tmp_path: Path, delegate: str, taken: int) -> None:
    in_c, in_python = (litert_rounds(unit, tmp_path, {**each, "delegate": delegate}) for each in (C, PYTHON))
    np.testing.assert_array_equal(in_c.outputs["y"], in_python.outputs["y"])
    assert in_c.settings["nodes"] == in_python.settings["nodes"] == {"delegate": taken, "cpu": 5 - taken}
    assert len(in_c.samples_ms) == 3 and in_c.init_ms and in_c.first_ms and in_c.peak_bytes
    assert in_c.version == in_python.version and in_c.size_bytes["engine"] < in_python.size_bytes["engine"]


@pytest.mark.slow
def test_litert_says_which_nodes_a_delegate_takes(unit: EngineUnit, tmp_path: Path, played_delegate: Path) -> None:
    own = {**C, "delegate": str(played_delegate)}
    done = litert_rounds(unit, tmp_path, own)
    assert done.settings["nodes"] == {"delegate": 2, "cpu": 3} and len(done.hashes["delegate"]) == 64
    assert done.outputs["y"].tolist() == [[-1.0, 0.0, 0.0, -3.0]]
    with pytest.raises(DeviceError, match=r"litert refuses the model: the delegate is not made: no DSP here"):
        litert_rounds(unit, tmp_path, {**own, "delegate.fails": "no DSP here"})
    with pytest.raises(DeviceError, match=r"litert refuses the model: .*cannot open shared object"):
        litert_rounds(unit, tmp_path, {**C, "delegate": "/vendor/lib64/libnone.so"})


@pytest.mark.slow
def test_litert_says_what_does_not_fit_the_file(unit: EngineUnit, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="litert refuses the model: the file has no output z"):
        litert_rounds(unit, tmp_path, C, outputs=("z",))
    with pytest.raises(DeviceError, match="litert refuses the model: the file has an input that is not given"):
        litert_rounds(unit, tmp_path, C, inputs=("z",))
    (tmp_path / "bad.tflite").write_bytes(b"no model, but longer than a header")
    with pytest.raises(DeviceError, match=r"LiteRtCreateModelFromFile fails with status \d+.*its log ends: .*TFL3"):
        litert_rounds(unit, tmp_path, C, source=tmp_path / "bad.tflite")


NAMES = ("libmine.so*",)
LIBRARIES = """\
libraries:
  onnxruntime:
    file: {arm64-v8a: mine.aar}
"""


def library(machine: int) -> bytes:
    """The beginning of a library for a machine by ELF's number: 183 is ARM64, 62 x86-64."""
    return b"\x7fELF\x02\x01\x01" + bytes(11) + machine.to_bytes(2, "little") + bytes(44)


def write_archive(folder: Path, **files: bytes) -> Path:
    path = folder / "mine.aar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def opened(path: Path, abi: str = "arm64-v8a") -> Path:
    return library_of("mine", path, abi, NAMES, path.parent)


@pytest.mark.parametrize(("abi", "machine"), [("arm64-v8a", "ARM64"), ("arm64", "ARM64"), ("armeabi-v7a", "ARM")])
def test_an_archive_has_a_library_for_each_abi(tmp_path: Path, abi: str, machine: str) -> None:
    numbers = {"arm64-v8a": 183, "armeabi-v7a": 40, "x86_64": 62}
    files = {f"jni/{folder}/libmine.so": library(number) for folder, number in numbers.items()}
    found = opened(write_archive(tmp_path, **{"classes.jar": b"", "jni/arm64-v8a/libother.so": b"", **files}), abi)
    assert found == tmp_path / "libmine.so"
    assert found.read_bytes() == library(183 if machine == "ARM64" else 40)


def test_a_wheel_and_a_library_itself_serve_too(tmp_path: Path) -> None:
    assert opened(write_archive(tmp_path, **{"mine/capi/libmine.so.1.2": library(183)})).name == "libmine.so.1.2"
    plain = tmp_path / "plain.so"
    plain.write_bytes(library(183))
    assert opened(plain) == plain


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        (
            {"jni/x86_64/libmine.so": library(62)},
            UnsupportedError,
            "has no library for arm64-v8a (arm64-v8a); it has jni/x86",
        ),
        ({"jni/arm64-v8a/other.so": b""}, UnsupportedError, "it has no libmine.so*"),
        (
            {"jni/arm64-v8a/libmine.so": library(62)},
            UnsupportedError,
            "libmine.so is made for x86_64, and arm64-v8a is aarch64",
        ),
        ({"jni/arm64-v8a/libmine.so": b"no library"}, DeviceError, "libmine.so is no library, and no archive"),
        ({"../libmine.so": library(183)}, DeviceError, "its file ../libmine.so would lie outside of it"),
        ({"jni/arm64-v8a/libmine.so": library(183), "/etc/x": b""}, DeviceError, "its file /etc/x would lie outside"),
        ({"jni/..\\libmine.so": library(183)}, DeviceError, "would lie outside of it"),
    ],
)
def test_an_archive_without_a_good_library_is_refused(
    tmp_path: Path, files: dict[str, bytes], kind: type[FarmError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        opened(write_archive(tmp_path, **files))
    assert (
        words in str(caught.value) and str(caught.value).startswith("engine mine: ") and "\n" not in str(caught.value)
    )


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.so").write_bytes(library(183))
    link = zipfile.ZipInfo("jni/arm64-v8a/libmine.so")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "mine.aar", "w") as archive:
        archive.writestr(link, str(tmp_path / "secret.so"))
    with pytest.raises(DeviceError, match=r"engine mine: libmine\.so is no library, and no archive that has one"):
        opened(tmp_path / "mine.aar")
    assert not (tmp_path / "libmine.so").is_symlink()


def test_an_archive_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_archive(tmp_path, **{"jni/arm64-v8a/libmine.so": library(183) + bytes(1_000_000), "b": b""})
    assert path.stat().st_size < 10_000, "a bomb, if a small one"
    monkeypatch.setattr(user_file, "MOST_BYTES", 1_000_000)
    with pytest.raises(
        DeviceError, match=r"is refused: jni/arm64-v8a/libmine\.so has 1000064 bytes, more than 1000000"
    ):
        opened(path)
    monkeypatch.setattr(user_file, "MOST_FILES", 1)
    with pytest.raises(DeviceError, match="is refused: it has 2 files, more than 1"):
        opened(path)


@pytest.mark.parametrize("damage", ["short", "flipped", "encrypted"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    path = write_archive(tmp_path, **{"jni/arm64-v8a/libmine.so": library(183) + bytes(range(256)) * 40})
    content = bytearray(path.read_bytes())
    if damage == "short":
        del content[60:120]
    elif damage == "flipped":
        content[80] ^= 0xFF
    else:
        for start in (6, content.index(b"PK\x01\x02") + 8):
            content[start] |= 1
    path.write_bytes(content)
    with pytest.raises(DeviceError, match=r"engine mine: .*mine\.aar cannot be opened: "):
        opened(path)


@pytest.mark.slow
def test_whatever_bytes_an_archive_has_it_is_read_or_refused(tmp_path: Path) -> None:
    """Every byte of a small archive in turn, at random: no other error, and nothing beside the library."""
    path, order = write_archive(tmp_path, **{"jni/arm64-v8a/libmine.so": library(183) * 3, "b": b"b"}), random.Random(1)
    content, ends = path.read_bytes(), {"read": 0, "refused": 0}
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([order.randrange(256)]) + content[at + 1 :])
        try:
            assert opened(path).name in ("libmine.so", path.name)
            ends["read"] += 1
        except (DeviceError, UnsupportedError):
            ends["refused"] += 1
    assert min(ends.values()) > 20 and {each.name for each in tmp_path.iterdir()} <= {"libmine.so", path.name}


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.so"
    with pytest.raises(DeviceError, match=r"mine\.so: no such file, which engines\.yml names"):
        check_hash("mine", path, None)
    path.write_bytes(b"mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    check_hash("mine", path, digest)
    with pytest.raises(DeviceError, match=rf"mine\.so has another hash than engines\.yml names: {digest}"):
        check_hash("mine", path, "0" * 64)


def test_a_mistake_in_the_file_has_its_line(own_folder: Path) -> None:
    Path("engines.yml").write_text(LIBRARIES.replace("file:", "fil:"))
    with pytest.raises(ConfigError, match=r"engines\.yml:3: libraries\.onnxruntime\.fil: .*did you mean 'file'"):
        load_engine_file()
    Path("engines.yml").write_text(LIBRARIES.replace("onnxruntime", "mnn"))
    with pytest.raises(ConfigError, match=r"libraries\.mnn: farm runs the C libraries of onnxruntime and litert"):
        registry.engines()
    Path("engines.yml").write_text(LIBRARIES)
    assert registry.engines()["onnxruntime"].missing() == ""
    assert machine_of("arm64-v8a") == "aarch64"

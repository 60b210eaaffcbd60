"""`farm convert` for ABIs and SoCs that no unit is here for."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from farm import cli
from farm.config import deployment
from farm.config.inventory import HOST, Unit
from farm.jobs.convert import write_standard
from farm.jobs.models.prepare import prepare
from farm.model.fetch import Fetcher
from farm.units import target_files
from runtime.native.model_code import c_name
from runtime.oracle.evaluate import evaluate
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.jobs.fleet.test_unit import probe
from tests.farm.model.tiny_model import write_deployment

NO_NDK = "armeabi-v7a needs the Android NDK: set ANDROID_NDK_HOME to its folder (arm64-v8a is built without it)"
PHONE = Unit("mi8", "adb", "sdm845", "MI 8", ("arm64-v8a",), serial="x")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    Path("devices.yml").write_text("adb: {discover: listed}\ndevices:\n  host: {transport: local}\n")


@pytest.fixture
def convert(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `farm convert tiny.yml`; returns exit status, rows and stderr."""

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        status = cli.call(["convert", "tiny.yml", "--json", *words])
        said = capsys.readouterr()
        return status, json.loads(said.out)["rows"], said.err

    return run


def deploy(abis: str, socs: str = "", code: bool = False, runtime: str = "cpu+gpu") -> None:
    path = write_deployment(Path(), runtime=runtime)
    head = f"target_abis: {abis}\n" + (f"target_socs: {socs}\n" if socs else "")
    head += "model_graph_format: code\n" if code else ""
    path.write_text(path.read_text().replace("target_abis: [host]\n", head))


def told(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in ("unit", "soc", "abi", "runtime", "status", "facts")) for row in rows]


def assert_written(row: dict[str, Any]) -> None:
    assert Path(row["plan_file"]).read_bytes()[:8] == b"FARMPLAN" and Path(row["data_file"]).is_file()
    assert row["plan_file"].endswith(f"model/{row['abi']}/tiny.{row['soc']}.{row['runtime']}.plan")


@pytest.mark.slow
def test_socs_of_the_table_need_no_unit(convert: Any) -> None:
    deploy("[arm64-v8a, armeabi-v7a]", "[sdm845, SDM855, kirin970]")
    status, rows, err = convert()
    assert (status, err) == (0, "")
    assert told(rows) == [
        ("", key, abi, runtime, "ok", facts)
        for abi in ("arm64-v8a", "armeabi-v7a")
        for key in ("sdm845", "sm8150", "kirin970")
        for runtime, facts in (("cpu", "none"), ("gpu", "shipped"))
    ]
    for row in rows:
        assert_written(row)
    families = {row["soc"]: row["fingerprint"]["gpu_family"] for row in rows if row["runtime"] == "gpu"}
    assert families == {"sdm845": "adreno-6xx", "sm8150": "adreno-6xx", "kirin970": "mali-bifrost"}


def test_a_gpu_that_nothing_is_known_of_is_a_failure_with_a_remedy(convert: Any) -> None:
    deploy("[arm64-v8a]", "[sdm999]")
    status, rows, err = convert()
    assert status == 1
    assert told(rows) == [
        ("", "sdm999", "arm64-v8a", "cpu", "ok", "none"),
        ("", "sdm999", "arm64-v8a", "gpu", "unsupported", ""),
    ]
    (line,) = err.splitlines()
    assert line.startswith("tiny on sdm999 (gpu): unsupported: arm64-v8a: no unit of sdm999 is here")
    assert "--target-file FILE" in line
    status, rows, err = convert("--skip-missing")
    assert (status, [row["runtime"] for row in rows]) == (0, ["cpu"])
    assert err.startswith("left out: tiny (gpu): arm64-v8a: no unit of sdm999 is here")


@pytest.mark.slow
def test_an_abi_without_a_soc(convert: Any) -> None:
    """A CPU plan is the same for every SoC; for a GPU plan one must be named."""
    deploy("[host, arm64]")
    status, rows, err = convert()
    assert status == 1
    assert told(rows)[-2:] == [
        ("", "any", "arm64", "cpu", "ok", "none"),
        ("", "any", "arm64", "gpu", "unsupported", ""),
    ]
    assert_written(rows[-2])
    assert "tiny on any (gpu): unsupported: arm64: no unit with this ABI is here, and no SoC is named; name some" in err


@pytest.mark.slow
def test_code_for_an_abi_without_a_unit(convert: Any) -> None:
    """Of two ABIs the one without a unit was silently missing."""
    deploy("[host, arm64-v8a]", code=True, runtime="cpu")
    status, rows, _ = convert()
    assert status == 0
    assert told(rows) == [
        ("host", "host", "host", "cpu", "ok", "unit"),
        ("", "any", "arm64-v8a", "cpu", "ok", "none"),
    ]
    for row in rows:
        folder, name = Path("build/tinylib/code") / row["abi"], f"tiny.{row['soc']}.cpu"
        files = [f"{name}.h", f"{name}.c", f"lib{name}.a"]
        assert row["code_files"] == [str(folder / file) for file in files]
        assert {path.name for path in folder.iterdir()} >= {*files, "farmrt.h", "libfarmrt.a"}
        assert f"{c_name(name)}_options" in (folder / f"{name}.h").read_text()


@pytest.mark.slow
def test_code_for_a_shared_library(convert: Any) -> None:
    deploy("[host]", code=True, runtime="cpu")
    folder = Path("build/tinylib/code/host")
    assert convert()[0] == 0 and not (folder / "libfarmrt.so").exists()
    Path("tiny.yml").write_text("linkshared: 1\n" + Path("tiny.yml").read_text())
    assert convert()[0] == 0 and (folder / "libfarmrt.so").read_bytes()[:4] == b"\x7fELF"


def test_code_that_cannot_be_compiled_is_a_failure_with_the_plan(convert: Any) -> None:
    deploy("[armeabi-v7a]", code=True, runtime="cpu")
    status, (row,), err = convert()
    assert (status, row["status"], row["reason"], row["code_files"]) == (1, "build_failed", f"no code: {NO_NDK}", [])
    assert_written(row)
    status, (row,), err = convert("--skip-missing")
    assert (status, row["status"], err) == (0, "ok", f"left out: tiny (cpu): no code: {NO_NDK}\n")


@pytest.mark.slow
def test_this_machine_is_converted_for_whatever_the_socs_are(convert: Any) -> None:
    deploy("[host, arm64-v8a]", "[sdm845]", runtime="cpu")
    status, rows, _ = convert()
    assert (status, [row[:3] for row in told(rows)]) == (0, [("host", "host", "host"), ("", "sdm845", "arm64-v8a")])


def test_what_a_unit_said_is_better_than_the_table(convert: Any) -> None:
    deploy("[arm64-v8a]", "[sdm845]", runtime="gpu")
    target_files.store(PHONE, probe())
    _, (row,), _ = convert()
    assert (row["facts"], row["fingerprint"]["gpu"]) == ("stored", "Adreno (TM) 630")
    named = probe().model_dump() | {"soc": "SDM845"}
    named["opencl"]["device"]["name"] = "Adreno (TM) 631"
    Path("a.json").write_text(json.dumps(named))
    _, (row,), _ = convert("--target-file", "a.json")
    assert (row["facts"], row["fingerprint"]["gpu"]) == ("file", "Adreno (TM) 631")


def test_without_target_socs_all_that_is_stored_counts(convert: Any) -> None:
    deploy("[armeabi-v7a, arm64]", runtime="gpu")
    target_files.store(PHONE, probe())
    status, rows, _ = convert()
    assert (status, told(rows)) == (
        1,
        [
            ("", "sdm845", "armeabi-v7a", "gpu", "ok", "stored"),
            ("", "any", "arm64", "gpu", "unsupported", ""),
        ],
    )


def test_nothing_is_stored_of_this_machine_or_of_an_unknown_soc(tmp_path: Path) -> None:
    for unit in (HOST, dataclasses.replace(PHONE, soc="unknown")):
        target_files.store(unit, probe(), tmp_path / "targets")
    assert target_files.stored_socs(tmp_path / "targets") == []
    (tmp_path / "sdm845.json").write_text("{")
    assert target_files.stored("sdm845", tmp_path) is None


def test_a_soc_is_named(convert: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In place of target_socs; a name that neither a unit has nor farm knows is a mistake."""
    deploy("[host, arm64-v8a]", "[sdm845]", runtime="gpu")
    status, rows, _ = convert("--soc", "mt6771")
    assert (status, told(rows)) == (0, [("", "mt6771", "arm64-v8a", "gpu", "ok", "shipped")])
    assert cli.call(["convert", "tiny.yml", "--soc", "sdm84"]) == 3
    assert "--soc sdm84: no such SoC is known, did you mean 'sdm845'?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_named_unit_is_converted_for_alone(convert: Any) -> None:
    deploy("[host, arm64-v8a]", "[host, sdm845]", runtime="cpu")
    status, rows, _ = convert("--device", "host")
    assert (status, [row["unit"] for row in rows]) == (0, ["host"])


def test_a_unit_that_does_not_answer_is_no_hindrance(convert: Any) -> None:
    """Its SoC is known; of another nothing is, so that its own failure is told."""
    boards = "".join(
        f"  {name}: {{transport: ssh, address: 127.0.0.1, port: 1, target_abis: [arm64], target_socs: {key}}}\n"
        for name, key in (("near", "rk3399"), ("far", "rk3000"))
    )
    Path("devices.yml").write_text(Path("devices.yml").read_text() + boards)
    deploy("[arm64]", "[rk3399, rk3000]", runtime="gpu")
    status, rows, err = convert("--retries", "0", "--wait", "0")
    assert status == 1
    assert sorted(told(rows)) == [
        ("", "rk3399", "arm64", "gpu", "ok", "shipped"),
        ("far", "rk3000", "", "gpu", "failed", ""),
    ]
    assert "tiny on far (gpu): failed: far: " in err


@pytest.mark.slow
def test_a_phone_that_was_unplugged_is_converted_for_as_when_it_was_here(emulated: EmulatedUnits) -> None:
    """A job on it stored what it is. (The emulated phone's own programs are this machine's.)"""
    phone = emulated.phone(soc="sdm660")
    there = emulated.farm("convert", "tiny.yml", "--all").row
    phone.inject("offline")
    gone = emulated.farm("convert", "tiny.yml", "--all", "--retries", "0").row
    assert [row["facts"] for row in (there, gone)] == ["unit", "stored"]
    assert (gone["status"], gone["soc"], gone["plan_file"]) == ("ok", "sdm660", there["plan_file"])
    assert gone["fingerprint"] == there["fingerprint"]


STANDARD = {
    "a deployment file in NHWC": ({"shape": "1,8,8,3", "input_data_formats": "NHWC"}, (1, 8, 8, 3)),
    "cut at an inner tensor": ({"outputs": "[act, y]"}, (1, 3, 8, 8)),
}


@pytest.mark.parametrize("name", STANDARD)
def test_the_standard_file_runs_in_onnx_runtime_as_the_model_does(tmp_path: Path, name: str) -> None:
    """No operator of farm's own, and the outputs of the converted graph."""
    keys, shape = STANDARD[name]
    source = deployment.load(write_deployment(tmp_path, **keys))
    write_standard(source, tmp_path / "out.onnx")
    prepared = prepare(source, "tiny", Fetcher(source, tmp_path / "cache"))
    session = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"])
    assert [(value.name, tuple(value.shape)) for value in session.get_inputs()] == [("x", shape)]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    names = [value.name for value in session.get_outputs()]
    for output, computed in zip(names, session.run(names, {"x": x}), strict=True):
        np.testing.assert_allclose(computed, evaluate(prepared.graph, {"x": x})[output], rtol=1e-4, atol=1e-5)


def test_what_a_standard_file_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_deployment(tmp_path)
    assert cli.call(["convert", "tiny.yml", "--standard"]) == 2
    assert "--standard and -o FILE belong together" in capsys.readouterr().err
    sweep = ["--shape", "1,3,8,8", "--shape", "2,3,8,8"]
    assert cli.call(["convert", "tiny.onnx", *sweep, "--standard", "-o", "o.onnx"]) == 2
    assert "--standard writes one model, there are tiny_1x3x8x8, tiny_2x3x8x8" in capsys.readouterr().err
    assert not Path("o.onnx").exists()

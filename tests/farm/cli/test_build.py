"""`farm build` with deployment files: their ABIs, and the parts of farmrt that their models need."""

import json
from pathlib import Path
from typing import Any

import pytest

from farm import cli
from tests.farm.model.tiny_model import write_deployment

NO_NDK = "armeabi-v7a needs the Android NDK: set ANDROID_NDK_HOME to its folder (arm64-v8a is built without it)"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)


def built(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    status = cli.call(["build", *words, "--output", "out", "--json"])
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


def for_abis(path: Path, abis: str) -> None:
    path.write_text(path.read_text().replace("[host]", abis))


@pytest.mark.slow
def test_every_abi_of_a_deployment_file_is_built_or_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for_abis(write_deployment(tmp_path), "[armeabi-v7a, host]")
    status, said, err = built(capsys, "tiny.yml")
    assert (status, said["status"], said["missing"], said["left_out"]) == (1, "failed", {"armeabi-v7a": NO_NDK}, {})
    (host,) = said["built"]
    assert (host["abi"], host["program"], host["shared"]) == ("host", "out/host/farmrt", "")
    assert all(Path(host[name]).is_file() for name in ("program", "library", "header"))
    assert f"armeabi-v7a: not built: {NO_NDK}" in err.splitlines()
    status, said, _ = built(capsys, "tiny.yml", "--skip-missing")
    assert (status, said["status"], said["missing"], said["left_out"]) == (0, "ok", {}, {"armeabi-v7a": NO_NDK})


def test_an_abi_that_is_named_may_be_missing_too(capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = built(capsys, "--abi", "armeabi-v7a", "--skip-missing")
    assert (status, said["built"], said["left_out"]) == (0, [], {"armeabi-v7a": NO_NDK})
    status, said, _ = built(capsys, "--abi", "armeabi-v7a")
    assert (status, said["error"]) == (2, {"message": NO_NDK, "kind": "config"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "without", "operators"),
    [
        ("cpu", ["opencl"], ["blocked_conv2d", "blocked_global_pool"]),
        ("cpu+gpu", [], ["blocked_conv2d", "blocked_global_pool", "conv2d", "copy", "fully_connected", "reduce"]),
        ("gpu", ["cpu"], None),
    ],
)
def test_only_what_the_models_use(
    runtime: str, without: list[str], operators: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_deployment(tmp_path, runtime=runtime)
    status, said, _ = built(capsys, "--only-operators", "--shared", "tiny.yml")
    (row,) = said["built"]
    assert (status, row["without"], row["operators"]) == (0, without, operators)
    assert 0 < row["shared_bytes"] == Path(row["shared"]).stat().st_size < row["size_bytes"]


def test_a_model_that_cannot_be_converted_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deployment(tmp_path, b"")
    (tmp_path / "tiny.onnx").write_bytes(b"no model")
    assert built(capsys, "--only-operators", "tiny.yml")[0] == 2
    assert not Path("out").exists()


def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, reason in {
        ("--only-operators",): "--only-operators needs the deployment files of the models: MODEL.yml ...",
        ("--without", "cpu", "--without", "opencl"): "farmrt without opencl and without cpu could run no plan",
    }.items():
        status, said, _ = built(capsys, *words)
        assert status == 2 and reason in said["error"]["message"]

"""Folders of artifacts: published whole, with a manifest; verified against hash, content and units; merged."""

import dataclasses
import json
from pathlib import Path

import pytest

from farm import artifacts, cli
from farm.artifacts import MANIFEST_NAME, SetRecord
from runtime.errors import ConfigError, FarmError, FormatError
from runtime.plan.artifacts import Fingerprint, KernelSet, TunedEntry, TunedSet, encode_tuned

DEBIAN = Fingerprint("host", "cpu", "3.1", "OpenCL 3.0", "pocl-3.1", "sources", "0.1.0")
PYPI = dataclasses.replace(DEBIAN, driver="3.0", gpu_family="pocl-3.0")
ENTRY = TunedEntry("conv|1", "conv", "-DBLOCK=8", 8, 2, (64, 16, 1), (8, 4, 1), 100, 50)


def record(fingerprint: Fingerprint, **changes: object) -> SetRecord:
    members = {
        "fingerprint": dataclasses.asdict(fingerprint),
        "device_model": "box",
        "unit": "host",
        "time": "2024-01-01T00:00:00+00:00",
        "versions": {"farm": "0.1.0"},
        "settings": {"level": "quick"},
        "launches": (),
    }
    return SetRecord.model_validate(members | changes)


def publish(folder: Path, fingerprint: Fingerprint = DEBIAN, tuned_ns: int = 50) -> tuple[Path, Path]:
    tuned_file, kernels_file = folder / "a_tuned.bin", folder / "a_compiled.bin"
    tuned = TunedSet(fingerprint, "box", (dataclasses.replace(ENTRY, tuned_ns=tuned_ns),))
    kernels = KernelSet(fingerprint, "box", {"h|": b"code"})
    artifacts.publish(tuned_file, tuned, kernels_file, kernels, record(fingerprint))
    return tuned_file, kernels_file


def texts(findings: list[artifacts.ArtifactFinding]) -> list[tuple[bool, str]]:
    return [(each.good, each.text) for each in findings]


def test_published_files_are_found_and_verified(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "opencl" / "host"
    files = publish(folder)
    assert set(artifacts.find(tmp_path)) == set(files)
    for path in files:
        findings = artifacts.verify(path, {"host": DEBIAN})
        assert [each.good for each in findings] == [True, True, True], texts(findings)
    assert artifacts.read(files[0]).kind == "tuned parameters"
    assert artifacts.read(files[1]).kind == "compiled kernels"


def test_second_driver_is_a_second_set_and_a_second_tuning_replaces_its_own(tmp_path: Path) -> None:
    tuned_file, kernels_file = publish(tmp_path)
    publish(tmp_path, PYPI)
    publish(tmp_path, DEBIAN, tuned_ns=40)
    sets = artifacts.read(tuned_file).sets
    assert {each.fingerprint: each.entries[0].tuned_ns for each in sets} == {PYPI: 50, DEBIAN: 40}  # type: ignore[union-attr]
    assert len(artifacts.read(kernels_file).sets) == 2
    assert len(artifacts.read_manifest(tmp_path).sets) == 2
    for device in (PYPI, DEBIAN):
        assert all(each.good for each in artifacts.verify(tuned_file, {"host": device}))


def test_sets_of_other_kernel_sources_are_dropped(tmp_path: Path) -> None:
    tuned_file, _ = publish(tmp_path, dataclasses.replace(PYPI, source_hash="older"))
    publish(tmp_path)
    assert [each.fingerprint for each in artifacts.read(tuned_file).sets] == [DEBIAN]


def test_damaged_files_are_written_anew(tmp_path: Path) -> None:
    tuned_file, _ = publish(tmp_path)
    tuned_file.write_bytes(b"rubbish")
    (tmp_path / MANIFEST_NAME).write_text("{}}")
    publish(tmp_path, PYPI)
    assert [each.fingerprint for each in artifacts.read(tuned_file).sets] == [PYPI]
    assert list(artifacts.read_manifest(tmp_path).files) == ["a_tuned.bin", "a_compiled.bin"]


def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a_tuned.bin").mkdir()
    with pytest.raises(FarmError, match=r"a_tuned\.bin: cannot be written"):
        publish(tmp_path)
    assert not (tmp_path / MANIFEST_NAME).exists()


def test_every_byte_counts(tmp_path: Path) -> None:
    tuned_file, _ = publish(tmp_path)
    content = bytearray(tuned_file.read_bytes())
    content[len(content) // 2] ^= 1
    tuned_file.write_bytes(content)
    ((good, text),) = texts(artifacts.verify(tuned_file, {"host": DEBIAN}))
    assert not good
    assert "damaged" in text


def test_a_good_file_that_the_manifest_does_not_know_is_said(tmp_path: Path) -> None:
    tuned_file, _ = publish(tmp_path)
    tuned_file.write_bytes(encode_tuned([]))
    assert (False, "SHA-256 differs from the manifest's") in texts(artifacts.verify(tuned_file, {}))
    stranger = tmp_path / "stranger.bin"
    stranger.write_bytes(encode_tuned([]))
    assert (False, "not in the manifest") in texts(artifacts.verify(stranger, {}))


def test_a_file_for_another_driver_names_what_differs(tmp_path: Path) -> None:
    tuned_file, _ = publish(tmp_path)
    good, text = texts(artifacts.verify(tuned_file, {"host": dataclasses.replace(DEBIAN, driver="4.0")}))[-1]
    assert not good
    assert text == "not for unit 'host': driver is '3.1', the unit's '4.0'; run `farm tune --soc host`"


@pytest.mark.parametrize("content", ["", "{", '{"files": 3}', '{"schema_version": 9}', '{"more": 1}'])
def test_strange_manifests_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST_NAME).write_text(content)
    with pytest.raises(FormatError, match=r"manifest\.json: "):
        artifacts.read_manifest(tmp_path)


def test_manifest_is_plain_json(tmp_path: Path) -> None:
    publish(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST_NAME).read_text())
    assert manifest["files"]["a_tuned.bin"]["kind"] == "tuned parameters"
    assert manifest["sets"][0]["fingerprint"]["driver"] == "3.1"


def test_merge_makes_one_file_of_many_socs(tmp_path: Path) -> None:
    phone = dataclasses.replace(DEBIAN, soc="sdm845", gpu="Adreno")
    first, _ = publish(tmp_path / "one")
    second, _ = publish(tmp_path / "two", phone)
    twin, _ = publish(tmp_path / "three", phone, tuned_ns=30)
    (choice,) = artifacts.merge([first, second, twin], tmp_path / "bundle.bin")
    merged = artifacts.read(tmp_path / "bundle.bin")
    assert {each.fingerprint: each.entries[0].tuned_ns for each in merged.sets} == {DEBIAN: 50, phone: 30}  # type: ignore[union-attr]
    assert choice.reason == "30 ns against 50 ns"


def test_kinds_do_not_mix(tmp_path: Path) -> None:
    tuned_file, kernels_file = publish(tmp_path)
    with pytest.raises(ConfigError, match="one kind at a time"):
        artifacts.merge([tuned_file, kernels_file], tmp_path / "bundle.bin")
    assert not (tmp_path / "bundle.bin").exists()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.bin: cannot be read"):
        artifacts.merge([tmp_path / "none.bin"], tmp_path / "bundle.bin")


def test_where_nothing_was_tuned_there_is_nothing_to_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.call(["artifacts", "verify"]) == 0
    assert capsys.readouterr().out == "nothing to verify: none yet; `farm tune` writes them\n"

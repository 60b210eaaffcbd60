"""Kept choices: found for the very device, graph and settings, merged by time, refused by name when they do not fit."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from farm import artifacts
from farm.artifacts import MANIFEST_NAME, ChoiceRecord
from farm.kept_choices import (
    ChoiceSet,
    ChoiceSubject,
    KeptChoice,
    decode_choices,
    encode_choices,
    find_choice,
    merge_choices,
)
from farm.rows.latency import Latency
from runtime.errors import ConfigError, FormatError
from runtime.lowering.choice import GraphChoice, NodeChoice, Place
from runtime.plan.artifacts import Fingerprint
from runtime.types import Algorithm, Precision
from tests.farm.test_artifacts import publish as publish_binaries

DEBIAN = Fingerprint("host", "cpu", "3.1", "OpenCL 3.0", "pocl-3.1", "sources", "0.1.0")
PHONE = dataclasses.replace(DEBIAN, soc="sdm845", gpu="Adreno", gpu_family="adreno-6xx")
GRAPH = "a" * 32
NODES = {"conv": NodeChoice(Place.IMAGE, Algorithm.WINOGRAD_4), "pool": NodeChoice(Place.BUFFER)}
SUBJECT = ChoiceSubject(model="net", precision="fp32", allow_cpu=False)


def kept(model: str = "net", measured_ms: float = 2.0, graph: str = GRAPH, **settings: Any) -> KeptChoice:
    subject = ChoiceSubject(model=model, precision="fp32", allow_cpu=False).model_copy(update=settings)
    choice = json.loads(GraphChoice(NODES, graph).to_json())
    chosen = subject.precision.split(",")[0] if "," in subject.precision else ""
    times = {"predicted_ms": 1.5, "measured_ms": measured_ms}
    return KeptChoice(**subject.model_dump(), choice=choice, chosen_precision=chosen, **times)


def one_set(fingerprint: Fingerprint = DEBIAN, *choices: KeptChoice) -> ChoiceSet:
    return ChoiceSet(fingerprint, "box", choices or (kept(),))


def write(folder: Path, *sets: ChoiceSet) -> Path:
    path = folder / "lib_selection.box.host.json"
    path.write_bytes(encode_choices(sets))
    return path


def record(fingerprint: Fingerprint = DEBIAN, model: str = "net") -> ChoiceRecord:
    return ChoiceRecord(
        fingerprint=dataclasses.asdict(fingerprint),
        device_model="box",
        unit="host",
        time="2026-01-01T00:00:00+00:00",
        versions={"farm": "0.1.0"},
        model=model,
        graph=GRAPH,
        settings={"precision": "fp32"},
        predicted_ms=1.5,
        predicted_before_ms=2.5,
        gap=0.0,
        origins={"measured": 5},
        default_ms=Latency.of([3.0, 3.1]),
        choice_ms=Latency.of([2.0, 2.1]),
        ratio=0.66,
        ratio_ci=(0.6, 0.7),
        trials=5,
        device_s=1.0,
    )


def test_a_choice_comes_back_for_its_device_graph_and_settings(tmp_path: Path) -> None:
    path = write(tmp_path, one_set(PHONE), one_set())
    found = find_choice(path, DEBIAN, SUBJECT, GRAPH)
    assert found.choice == GraphChoice(NODES, GRAPH) and found.kept == kept() and found.reason == ""


@pytest.mark.parametrize(
    ("fingerprint", "graph", "reason"),
    [
        (DEBIAN, "b" * 32, "made for another graph of net"),
        (dataclasses.replace(DEBIAN, driver="4.0"), GRAPH, "driver is '3.1', the unit's '4.0'"),
        (dataclasses.replace(DEBIAN, source_hash="new"), GRAPH, "source_hash is 'sources', the unit's 'new'"),
        (dataclasses.replace(DEBIAN, runtime_version="9"), GRAPH, "runtime_version is '0.1.0', the unit's '9'"),
    ],
)
def test_what_does_not_match_is_refused_by_name(
    tmp_path: Path, fingerprint: Fingerprint, graph: str, reason: str
) -> None:
    found = find_choice(write(tmp_path, one_set()), fingerprint, SUBJECT, graph)
    assert found.choice is None and reason in found.reason


@pytest.mark.parametrize("other", [{"model": "x"}, {"precision": "fp16"}, {"allow_cpu": True}, {"winograd": 4}])
def test_what_was_never_kept_needs_no_reason(tmp_path: Path, other: dict[str, Any]) -> None:
    found = find_choice(write(tmp_path, one_set()), DEBIAN, SUBJECT.model_copy(update=other), GRAPH)
    assert (found.choice, found.reason) == (None, "")
    assert find_choice(tmp_path / "none.json", DEBIAN, SUBJECT, GRAPH).reason == ""


def changed(content: bytes, **members: Any) -> bytes:
    return json.dumps(json.loads(content) | members).encode()


def test_every_damage_is_told_with_the_files_name(tmp_path: Path) -> None:
    content = encode_choices([one_set()])
    damages = {
        b"": "not JSON",
        content[:-40]: "not JSON",
        b"[]": "not a selection",
        b"{}": "not a selection",
        changed(content, version=1): "selection of version 1, this farm reads 4",
        content.replace(b"conv", b"conw"): "another hash",
        changed(content, sets=3): "another hash",
    }
    for damaged, text in damages.items():
        path = tmp_path / "x.json"
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=text) as raised:
            decode_choices(damaged, str(path))
        assert str(raised.value).startswith(str(path))
        found = find_choice(path, DEBIAN, SUBJECT, GRAPH)
        assert found.choice is None and text in found.reason
        assert path.read_bytes() == damaged, "nothing is lost"


def test_a_choice_of_another_version_within_a_whole_file_is_refused() -> None:
    strange = kept().model_copy(update={"choice": {"kind": "farm graph choice", "version": 99}})
    with pytest.raises(FormatError, match="version 99"):
        decode_choices(encode_choices([one_set(DEBIAN, strange)]), "x.json")


def test_the_faster_choice_stays_in_a_merge() -> None:
    sets, replaced = merge_choices([one_set(), one_set(PHONE), one_set(DEBIAN, kept(measured_ms=1.0), kept("other"))])
    assert {each.fingerprint.soc: [choice.measured_ms for choice in each.choices] for each in sets} == {
        "host": [1.0, 2.0],
        "sdm845": [2.0],
    }
    assert [(each.key, each.reason) for each in replaced] == [("net", "1 ms against 2 ms")]
    assert merge_choices([one_set(DEBIAN, kept(measured_ms=1.0)), one_set()])[0][0].choices[0].measured_ms == 1.0


def test_published_beside_the_tuned_files_with_evidence(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "opencl" / "host"
    binaries = publish_binaries(folder)
    path = folder / "lib_selection.box.host.json"
    artifacts.publish_choice(path, one_set(PHONE), record(PHONE))
    artifacts.publish_choice(path, one_set(), record())
    artifacts.publish_choice(path, one_set(DEBIAN, kept("other")), record(model="other"))
    assert set(artifacts.find(tmp_path)) == {*binaries, path}
    sets = artifacts.read(path).sets
    assert {each.fingerprint.soc: [one.model for one in each.choices] for each in sets} == {  # type: ignore[union-attr]
        "sdm845": ["net"],
        "host": ["net", "other"],
    }
    manifest = artifacts.read_manifest(folder)
    assert [each.model for each in manifest.choices] == ["net", "net", "other"]
    assert manifest.files[path.name].kind == "selection" and len(manifest.files) == 3 and len(manifest.sets) == 1
    findings = artifacts.verify(path, {"host": DEBIAN})
    assert [each.good for each in findings] == [True, True, True], findings
    publish_binaries(folder)
    assert len(artifacts.read_manifest(folder).choices) == 3, "tuned files that are written anew keep the choices"


def test_a_damaged_choice_is_found_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lib_selection.box.host.json"
    artifacts.publish_choice(path, one_set(PHONE), record(PHONE))
    path.write_bytes(path.read_bytes()[:-30])
    (finding,) = artifacts.verify(path, {})
    assert not finding.good and "damaged" in finding.text
    artifacts.publish_choice(path, one_set(), record())
    assert [each.fingerprint for each in artifacts.read(path).sets] == [DEBIAN]
    assert (tmp_path / MANIFEST_NAME).is_file()


def test_choices_merge_with_choices_alone(tmp_path: Path) -> None:
    tuned_file, _ = publish_binaries(tmp_path)
    path = write(tmp_path, one_set())
    with pytest.raises(ConfigError, match="one kind at a time"):
        artifacts.merge([path, tuned_file], tmp_path / "bundle.json")
    artifacts.merge([path, write(tmp_path, one_set(PHONE))], tmp_path / "bundle.json")
    assert artifacts.read(tmp_path / "bundle.json").kind == "selection"


def test_among_several_precisions_the_choice_says_which(tmp_path: Path) -> None:
    both = {"precision": "fp16_storage,fp32"}
    chosen = kept(**both)
    path = write(tmp_path, one_set(DEBIAN, kept(), chosen))
    subject = SUBJECT.model_copy(update=both)
    found = find_choice(path, DEBIAN, subject, GRAPH)
    assert found.kept == chosen and chosen.plan_precision == Precision.FP16_STORAGE
    alone = find_choice(path, DEBIAN, SUBJECT, GRAPH).kept
    assert alone == kept() and alone.plan_precision == Precision.FP32
    for precision in ("", "fp16"):
        with pytest.raises(ValueError, match="was chosen among fp16_storage, fp32"):
            KeptChoice(**chosen.model_dump(exclude={"chosen_precision"}), chosen_precision=precision)


def test_a_file_of_before_there_was_a_choice_of_precision_is_read() -> None:
    members = json.loads(encode_choices([one_set()]))
    for choice in members["sets"][0]["choices"]:
        del choice["chosen_precision"]
    digest = hashlib.sha256(json.dumps(members["sets"], sort_keys=True).encode()).hexdigest()
    content = json.dumps(members | {"version": 2, "sha256": digest}).encode()
    assert decode_choices(content, "old") == [one_set()]


@pytest.mark.parametrize(
    ("precisions", "chosen", "problem"),
    [
        ((Precision.FP32, Precision.FP16_STORAGE), "fp16_storage", ""),
        ((Precision.FP32, Precision.FP32), "fp32", ""),
        ((Precision.FP32, Precision.FP16_STORAGE), "fp32", "operators in fp16_storage in a plan of another precision"),
        ((Precision.FP32, Precision.FP16), "fp16_storage", "operators in fp16 in a plan of another precision"),
    ],
)
def test_the_precisions_of_operators_are_those_of_the_plan(
    precisions: tuple[Precision, Precision], chosen: str, problem: str
) -> None:
    nodes = {name: NodeChoice(Place.BUFFER, precision=each) for name, each in zip("ab", precisions, strict=True)}
    members = kept(precision="fp16_storage,fp32").model_dump() | {"chosen_precision": chosen}
    members["choice"] = json.loads(GraphChoice(nodes, GRAPH).to_json())
    content = encode_choices([one_set(DEBIAN, KeptChoice(**members))])
    if problem:
        with pytest.raises(FormatError, match=f"x.json: damaged: {problem}"):
            decode_choices(content, "x.json")
    else:
        (found,) = decode_choices(content, "x.json")[0].choices
        assert found.graph_choice.nodes == nodes and found.plan_precision == max(precisions)

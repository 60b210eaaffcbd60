"""Which models a night measures, and what is said of those that it does not."""

import dataclasses
from pathlib import Path

import pytest

from farm import cli
from farm.config.inventory import Unit
from farm.jobs.nightly.places import left_out, places_of
from farm.nightly import configuration
from farm.units.selection import READY, SelectableUnit
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import tiny_model, write_deployment

HOST = SelectableUnit(Unit("host", "local", "host", "PC", ("host",)), READY)


def night(text: str) -> configuration.NightlyConfiguration:
    path = Path("lab.yml")
    path.write_text(text)
    return configuration.load(path)


def test_a_night_with_nothing_to_measure_says_why_before_it_begins(own_folder: Path) -> None:
    write_deployment(own_folder, runtime="gpu")
    for key, why in {
        "runtimes: cpu": "its runtime is gpu, and lab.yml says runtimes: cpu",
        "engine: litert": "no engine of lab.yml takes it",
    }.items():
        with pytest.raises(ConfigError) as caught:
            places_of(night(f"models: tiny.yml\n{key}\n"), candidates=lambda: [HOST])
        assert str(caught.value) == f"lab.yml: nothing to measure: tiny.yml: tiny is left out: {why}"


def test_a_model_that_a_night_leaves_out_is_told(own_folder: Path) -> None:
    write_deployment(own_folder, runtime="gpu")
    Path("net.onnx").write_bytes(tiny_model().SerializeToString())
    nightly = night("models: [tiny.yml, net.onnx]\nruntimes: cpu\n")
    places = places_of(nightly, candidates=lambda: [HOST])
    assert left_out(nightly, places) == [
        "tiny.yml: tiny is left out: its runtime is gpu, and lab.yml says runtimes: cpu"
    ]


def test_files_for_different_units_may_share_their_names(own_folder: Path) -> None:
    path = write_deployment(own_folder)
    for soc in ("host", "sdm845"):
        Path(f"{soc}.yml").write_text(path.read_text().replace("models:", f"target_socs: {soc}\nmodels:", 1))
    phone = SelectableUnit(dataclasses.replace(HOST.unit, name="phone", soc="sdm845"), READY)
    places = places_of(night("models: [host.yml, sdm845.yml]\n"), candidates=lambda: [HOST, phone])
    assert [[unit.name for unit in units] for _, units in places] == [["host"], ["phone"]]


def test_two_models_of_one_name_are_refused_where_results_lie_side_by_side(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in map(Path, "ab"):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(tiny_model().SerializeToString())
    said = "b/model.onnx: its model model has the name of that in a/model.onnx, library model"
    with pytest.raises(ConfigError, match=said):
        places_of(night("models: [a/model.onnx, b/model.onnx]\n"), candidates=lambda: [HOST])
    assert cli.call(["tune", "a/model.onnx", "b/model.onnx", "--device", "host"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")
    assert cli.call(["tune", "a/model.onnx", "a/model.onnx", "--device", "host"]) == 2
    assert capsys.readouterr().err == "error: a/model.onnx: named twice; leave one out\n"

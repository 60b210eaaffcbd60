"""A model of several subgraphs in every command: a unit of work for each, and their weights on the unit once."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import helper

from farm.cluster.job_files import files_of_models
from farm.config import deployment
from farm.farmrt.unit_file_store import UnitFileStore
from farm.jobs.models.prepare import Failed, Prepared, prepare_all, validation_data
from farm.transport.local import LocalTransport
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import FLOAT, model_of

CHANNELS = 24
SUBGRAPHS = (
    '{input_tensors: x, input_shapes: "1,3,8,8", output_tensors: features}',
    f'{{name: tail, input_tensors: features, input_shapes: "1,{CHANNELS},8,8", input_data_formats: NCHW, '
    "output_tensors: [boxes, scores]}",
    "{output_tensors: boxes}",
    "{output_tensors: scores}",
)
MODELS = ["net_features", "net_tail", "net_boxes", "net_scores"]
FILE = """\
library_name: headed
target_abis: host
models:
  net:
    platform: onnx
    model_file_path: net.onnx
    runtime: cpu+gpu
    data_type: fp32_fp32
    subgraphs:
"""


def two_heads() -> onnx.ModelProto:
    """x -> two convolutions (features) -> boxes, by a convolution, and scores, by a mean and a product."""
    random = np.random.default_rng(5)
    shapes = {"w1": (16, 3, 3, 3), "w2": (CHANNELS, 16, 3, 3), "w3": (4, CHANNELS, 1, 1), "w4": (5, CHANNELS)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["inner"], pads=[1] * 4),
        helper.make_node("Conv", ["inner", "w2"], ["features"], pads=[1] * 4),
        helper.make_node("Conv", ["features", "w3"], ["boxes"]),
        helper.make_node("GlobalAveragePool", ["features"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w4"], ["scores"], transB=1),
    ]
    return model_of(
        nodes,
        [helper.make_tensor_value_info("x", FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("boxes", "scores")],
        {name: random.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape) for name, shape in shapes.items()},
    )


@pytest.fixture
def net(own_folder: Path) -> Path:
    onnx.save(two_heads(), "net.onnx")
    return write(own_folder, *SUBGRAPHS)


def write(folder: Path, *subgraphs: str) -> Path:
    path = folder / "net.yml"
    path.write_text(FILE + "".join(f"      - {each}\n" for each in subgraphs))
    return path


def rows_of(farm: CallFarm, *words: str) -> list[dict[str, Any]]:
    status, out, said = farm(*words, "--json")
    assert status == 0, said
    return sorted(json.loads(out)["rows"], key=lambda row: (MODELS.index(row["model"]), row["runtime"]))


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("memory", ["buffer", "image"])
def test_every_subgraph_runs_and_is_right(farm: CallFarm, net: Path, memory: str) -> None:
    rows = rows_of(farm, "run", "net.yml", "--round", "1", "--validate", "--memory", memory)
    assert [(row["model"], row["runtime"]) for row in rows] == [(name, on) for name in MODELS for on in ("cpu", "gpu")]
    assert {row["status"] for row in rows} == {"ok"}
    assert [len(row["outputs"]) for row in rows] == [1, 1, 2, 2, 1, 1, 1, 1]
    weights = {on: {row["hashes"]["weights"] for row in rows if row["runtime"] == on} for on in ("cpu", "gpu")}
    assert [len(hashes) for hashes in weights.values()] == [1, 1]


@pytest.mark.slow
@pytest.mark.opencl
def test_weights_in_common_lie_on_a_unit_once(farm: CallFarm, net: Path, tmp_path: Path) -> None:
    """One file for all, little larger than the largest plan's own weights: each constant is in it once."""
    rows = rows_of(farm, "convert", "net.yml")
    for runtime in ("cpu", "gpu"):
        figures = {row["model"]: row for row in rows if row["runtime"] == runtime}
        files = [Path(row["data_file"]) for row in figures.values()]
        transport = LocalTransport(tmp_path / f"unit_{runtime}")
        (stored,) = set(UnitFileStore(transport).put(files).values())
        size_bytes = (tmp_path / f"unit_{runtime}" / stored).stat().st_size
        own = {model: row["weights_bytes"] for model, row in figures.items()}
        assert own["net_boxes"] < size_bytes <= own["net_features"] + own["net_tail"] < sum(own.values()) / 2


@pytest.mark.slow
@pytest.mark.opencl
def test_a_subgraph_with_weights_of_its_own_keeps_its_file(farm: CallFarm, net: Path, own_folder: Path) -> None:
    write(own_folder, *SUBGRAPHS[:2])
    sizes = [
        (Path(row["data_file"]).stat().st_size, row["weights_bytes"]) for row in rows_of(farm, "convert", "net.yml")
    ]
    assert all(size == own for size, own in sizes) and len(set(sizes)) > 1


def test_weights_as_code_are_those_of_one_plan(net: Path) -> None:
    net.write_text(f"model_graph_format: code\nmodel_data_format: code\n{net.read_text()}")
    models = prepare_all(deployment.load(net))
    assert [isinstance(each, Prepared) and each.options().separate_weights for each in models] == [False] * 4


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    "words", [("benchmark", "--round", "2"), ("forecast",), ("inspect",)], ids=lambda words: words[0]
)
def test_a_row_for_each_subgraph(farm: CallFarm, net: Path, words: tuple[str, ...]) -> None:
    rows = rows_of(farm, words[0], "net.yml", *words[1:])
    assert list(dict.fromkeys(row["model"] for row in rows)) == MODELS
    assert {row["status"] for row in rows} == {"ok"}


@pytest.mark.slow
@pytest.mark.opencl
def test_each_subgraph_is_tuned(farm: CallFarm, net: Path, own_folder: Path) -> None:
    """Two that have weights in common."""
    write(own_folder, SUBGRAPHS[0], SUBGRAPHS[2])
    rows = rows_of(farm, "tune", "net.yml", "--budget", "0")
    named = [(row["model"], row["runtime"]) for row in rows]
    assert named == [(name, on) for name in ("net_features", "net_boxes") for on in ("cpu", "gpu")]
    assert {row["status"] for row in rows} == {"ok"}


def test_an_output_that_the_model_lacks_names_the_subgraph(net: Path, own_folder: Path) -> None:
    path = write(own_folder, SUBGRAPHS[0], "{output_tensors: boxs}")
    good, bad = prepare_all(deployment.load(path))
    assert isinstance(good, Prepared) and isinstance(bad, Failed)
    assert str(bad.error) == (
        f"{path}:11: models.net.subgraphs[1]: output tensor 'boxs' is not in the model; it has 'boxes', 'scores'"
    )


def test_validation_inputs_are_those_of_the_subgraph(net: Path, own_folder: Path) -> None:
    path = write(own_folder, SUBGRAPHS[0], "{output_tensors: boxes, validation_inputs_data: x.npy}")
    source = deployment.load(path)
    (prepared,) = [each for each in prepare_all(source) if isinstance(each, Prepared) and each.name == "net_boxes"]
    with pytest.raises(ConfigError, match=re.escape("net.yml:11: models.net.subgraphs[1].validation_inputs_data[0]: ")):
        validation_data(prepared)
    np.save("x.npy", np.full((1, 3, 8, 8), 2, np.float32))
    assert validation_data(prepared).inputs["x"].max() == 2
    sent = yaml.safe_load(files_of_models(source, ["net_boxes"], own_folder)["model.yml"].read_text())["models"]
    assert list(sent) == ["net_boxes"]
    assert sent["net_boxes"]["subgraphs"] == [
        {"output_tensors": "boxes", "validation_inputs_data": ["files/net_boxes/validation_inputs/0.npy"]}
    ]


def test_a_night_has_cases_of_each_subgraph(farm: CallFarm, net: Path) -> None:
    Path("night.yml").write_text("models: [net.yml]\nunits: [{device: host}]\nruntimes: [cpu]\njobs: [validate]\n")
    (unit,) = json.loads(farm("nightly", "night.yml", "--dry-run", "--json")[1])["units"]
    assert unit["cases"] == [f"{model} (cpu, default) on host" for model in MODELS]

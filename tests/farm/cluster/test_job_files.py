"""What a job's host is sent: a deployment file of one model, and every file that it names."""

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from farm.cluster.job_files import JobFiles
from farm.cluster.sent_jobs import each_model
from farm.config import deployment
from farm.workspace import Workspace
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import write_deployment


def sent(folder: Path, model: str = "tiny") -> JobFiles:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    works = each_model(deployment.load(Path("tiny.yml")), lambda *_: {})(scratch)
    return JobFiles.of(next(work.files for work in works if work.name == model))


def file_of(files: JobFiles, name: str) -> Path:
    return files.sources[files.hashes[name]]


def test_the_host_reads_the_same_model(own_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write_deployment(own_folder, validation_threshold="{cpu: 0.9}")
    files = sent(own_folder)
    assert set(files.hashes) == {"model.yml", "files/tiny/model_file_path/tiny.onnx"}
    host = tmp_path_factory.mktemp("host")
    (host / "model.yml").write_bytes(file_of(files, "model.yml").read_bytes())
    here, there = deployment.load(Path("tiny.yml")).models["tiny"], deployment.load(host / "model.yml").models["tiny"]
    assert there == here.model_copy(update={"model_file_path": "files/tiny/model_file_path/tiny.onnx"})


def test_only_the_model_itself_is_sent(own_folder: Path) -> None:
    write_deployment(own_folder)
    data = yaml.safe_load(Path("tiny.yml").read_text())
    data["models"]["other"] = {**copy.deepcopy(data["models"]["tiny"]), "model_file_path": "zoo://mobilenet_v1"}
    Path("tiny.yml").write_text(yaml.safe_dump(data))
    assert list(yaml.safe_load(file_of(sent(own_folder), "model.yml").read_text())["models"]) == ["tiny"]
    other = sent(own_folder, "other")
    assert set(other.hashes) == {"model.yml"}
    assert "zoo://mobilenet_v1" in file_of(other, "model.yml").read_text()


def test_weights_beside_an_onnx_file_go_with_it(own_folder: Path) -> None:
    write_deployment(own_folder)
    onnx.save(
        onnx.load("tiny.onnx"), "tiny.onnx", save_as_external_data=True, location="tiny.weights", size_threshold=0
    )
    assert "files/tiny/model_file_path/tiny.weights" in sent(own_folder).hashes


def test_validation_inputs_and_artifacts_go_too(own_folder: Path) -> None:
    np.save("x.npy", np.zeros((1, 3, 8, 8), np.float32))
    write_deployment(own_folder, validation_inputs_data="[x.npy]")
    tuned = Workspace("tinylib").tuned_file("host", "host", "host")
    tuned.parent.mkdir(parents=True)
    tuned.write_bytes(b"tuned")
    files = sent(own_folder)
    assert file_of(files, str(tuned)) == tuned
    assert file_of(files, "files/tiny/validation_inputs/0.npy") == Path("x.npy")
    model = yaml.safe_load(file_of(files, "model.yml").read_text())["models"]["tiny"]
    assert model["subgraphs"][0]["validation_inputs_data"] == ["files/tiny/validation_inputs/0.npy"]


def test_code_is_not_sent(own_folder: Path) -> None:
    write_deployment(own_folder, custom_operators="[mine.py]")
    with pytest.raises(ConfigError, match=r"tiny\.yml:\d+: models\.tiny: custom_operators are code"):
        sent(own_folder)


def test_a_missing_file_is_named(own_folder: Path) -> None:
    write_deployment(own_folder)
    Path("tiny.onnx").unlink()
    with pytest.raises(ConfigError, match=r"tiny\.onnx does not exist"):
        sent(own_folder)

"""The samples that come with farm, and the word `zoo://NAME` for them."""

from pathlib import Path

import pytest

from farm import cli
from farm.config import deployment, samples
from farm.nightly import configuration
from runtime import zoo
from runtime.errors import ConfigError


def test_each_network_of_the_zoo_has_one() -> None:
    assert set(samples.names()) == set(zoo.names())
    for name in samples.names():
        assert deployment.load(samples.find(name)).library_name == name


def test_other_words_are_paths(tmp_path: Path) -> None:
    assert samples.deployment_file("net.yml", tmp_path) == tmp_path / "net.yml"
    assert samples.deployment_file("zoo://resnet50", tmp_path) == samples.FOLDER / "resnet50.yml"


def test_a_sample_of_another_size_is_a_copy() -> None:
    with pytest.raises(ConfigError, match=r"size=64: no such sample.*copy it with `farm zoo deployment`"):
        samples.deployment_file("zoo://mobilenet_v1?size=64")


def test_a_night_may_name_samples_and_files(tmp_path: Path) -> None:
    path = tmp_path / "night.yml"
    path.write_text("models: [zoo://resnet50, net.yml]\n")
    assert configuration.load(path).model_files == [samples.find("resnet50"), tmp_path / "net.yml"]


def test_a_copy_to_start_from(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["zoo", "deployment", "mobilenet_v1", "-o", "mine.yml"]) == 0
    assert deployment.load(own_folder / "mine.yml").models["mobilenet_v1"].runtime == "gpu"
    assert cli.call(["zoo", "deployment", "mobilenet_v1"]) == 0
    assert capsys.readouterr().out == (own_folder / "mine.yml").read_text()

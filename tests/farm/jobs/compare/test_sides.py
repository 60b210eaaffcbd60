"""What the two words of `farm compare` stand for."""

from pathlib import Path

import pytest

from farm.config import deployment, inventory
from farm.jobs.compare import sides
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.jobs.compare.contender import Contender
from farm.rows.compare import Side
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import write_deployment


def test_sample_models_are_told_by_the_names_that_the_user_gave() -> None:
    both = sides.contenders("model", "zoo://squeezenet_v11", "zoo://mobilenet_v1", None)
    assert [contender.side.name for contender in both] == ["zoo://squeezenet_v11", "zoo://mobilenet_v1"]
    assert all(contender.source.path.is_file() for contender in both)


def test_a_model_of_several_other_engines_is_refused_before_anything_runs(own_folder: Path) -> None:
    for place, its in (("a", "farmrt"), ("b", "[onnxruntime, mnn]")):
        (own_folder / place).mkdir()
        write_deployment(own_folder / place, runtime="cpu", engine=its)
    both = sides.contenders("model", "a/tiny.yml", "b/tiny.yml", None)
    with pytest.raises(ConfigError) as raised:
        list(compare_job(both, [inventory.HOST], CompareOptions()))
    line = next(
        number for number, text in enumerate(Path("b/tiny.yml").read_text().splitlines(), 1) if "onnxruntime" in text
    )
    assert str(raised.value) == (
        f"b/tiny.yml:{line}: models.tiny.engine: onnxruntime, mnn: `farm engines` compares several"
    )


def test_a_misspelt_engine_is_told_as_one(own_folder: Path) -> None:
    assert sides.common_kind("farmrt", "onnxruntime==1.31.0", None) == "engine"
    with pytest.raises(ConfigError, match=r"'onxruntime' is no engine, did you mean 'onnxruntime'\?"):
        sides.common_kind("onxruntime", "farmrt", None)
    with pytest.raises(ConfigError, match=r"MODEL is missing: what shall the engines farmrt and onnxruntime run\?"):
        sides.contenders("engine", "farmrt", "onnxruntime", None)


def test_a_build_of_farm_runs_no_other_engine(own_folder: Path) -> None:
    source = deployment.load(write_deployment(own_folder, runtime="cpu", engine="onnxruntime"))
    assert Contender(Side(kind="model"), source).engine_of("tiny") == "onnxruntime"
    assert Contender(Side(kind="engine"), source, engine="farmrt").engine_of("tiny") == "farmrt"
    with pytest.raises(ConfigError, match="onnxruntime: a build of farm runs farmrt alone"):
        Contender(Side(kind="build"), source).engine_of("tiny")

"""What the two words of `farm compare` stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.config import inventory
from farm.jobs.compare import sides
from farm.jobs.compare.builds import CompareOptions, compare_job
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import write_deployment


def test_sample_models_are_told_by_the_names_that_the_user_gave() -> None:
    both = sides.contenders("model", "zoo://squeezenet_v11", "zoo://mobilenet_v1", None)
    assert [contender.side.name for contender in both] == ["zoo://squeezenet_v11", "zoo://mobilenet_v1"]
    assert all(contender.source.path.is_file() for contender in both)


def test_a_model_of_other_engines_alone_is_refused_before_anything_runs(own_folder: Path) -> None:
    for place, its in (("a", "farmrt"), ("b", "onnxruntime")):
        (own_folder / place).mkdir()
        write_deployment(own_folder / place, runtime="cpu", engine=its)
    both = sides.contenders("model", "a/tiny.yml", "b/tiny.yml", None)
    with pytest.raises(ConfigError) as raised:
        list(compare_job(both, [inventory.HOST], CompareOptions()))
    line = next(
        number for number, text in enumerate(Path("b/tiny.yml").read_text().splitlines(), 1) if "onnxruntime" in text
    )
    assert str(raised.value).startswith(f"b/tiny.yml:{line}: models.tiny.engine: onnxruntime: here farmrt alone")
    assert str(raised.value).endswith("`farm engines` compares several, and with --against VERSION two versions of one")

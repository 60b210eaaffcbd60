"""What the two words of `farm compare` stand for."""

from __future__ import annotations

from farm.jobs.compare import sides


def test_sample_models_are_told_by_the_names_that_the_user_gave() -> None:
    both = sides.contenders("model", "zoo://squeezenet_v11", "zoo://mobilenet_v1", None)
    assert [contender.side.name for contender in both] == ["zoo://squeezenet_v11", "zoo://mobilenet_v1"]
    assert all(contender.source.path.is_file() for contender in both)

"""The file that says how a model is executed on a CPU: whose it is, and what becomes of a bad one."""

import dataclasses
import json
from pathlib import Path

import pytest

from farm.config.execution import Execution
from farm.farmrt.answers import CpuAnswer
from farm.jobs.models import cpu_choice
from farm.jobs.models.cpu_choice import CpuChoice
from runtime.errors import ConfigError
from runtime.graph import Graph
from runtime.lowering.options import CpuOptions
from runtime.types import Algorithm
from tests.runtime.graphs import GraphMaker

CPU = CpuAnswer(model="a", features=["avx2"], cores=4)


def graph(channels: int = 8) -> Graph:
    maker = GraphMaker()
    return maker.finish(maker.conv(maker.input(1, 3, 6, 6), channels))


def a_choice() -> CpuChoice:
    return CpuChoice(valid_for=cpu_choice.validity(graph(), CPU), block=16, winograd=frozenset({"conv0"}), threads=2)


def test_a_choice_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "choice.json"
    cpu_choice.write(path, a_choice())
    read = cpu_choice.read(path, cpu_choice.validity(graph(), CPU))
    assert read == a_choice()
    assert read.options == CpuOptions(16, {"conv0": Algorithm.WINOGRAD_4})


@pytest.mark.parametrize(
    "other",
    [
        cpu_choice.validity(graph(9), CPU),
        cpu_choice.validity(graph(), CPU.model_copy(update={"model": "b"})),
        cpu_choice.validity(graph(), CPU.model_copy(update={"features": ["avx2", "avx512f"]})),
    ],
)
def test_a_choice_for_something_else_is_passed_over(tmp_path: Path, other: str) -> None:
    path = tmp_path / "choice.json"
    cpu_choice.write(path, a_choice())
    assert cpu_choice.read(path, other) is None
    assert cpu_choice.read(tmp_path / "missing.json", other) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        json.dumps(a_choice().model_dump() | {"version": 2}),
        json.dumps(a_choice().model_dump() | {"block": 12}),
        json.dumps(a_choice().model_dump() | {"threads": 0}),
        json.dumps(a_choice().model_dump() | {"affinity": "sometimes"}),
        json.dumps(a_choice().model_dump() | {"more": 1}),
    ],
)
def test_a_damaged_choice_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "choice.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"choice\.json: damaged, or of another version"):
        cpu_choice.read(path, "")


def test_what_the_user_says_goes_before_the_choice() -> None:
    assert cpu_choice.with_choice(Execution(num_threads=1), a_choice()).num_threads == 1
    assert cpu_choice.with_choice(Execution(), a_choice()).num_threads == 2
    given = Execution(gpu_perf_hint="low")
    assert cpu_choice.with_choice(given, None) == given
    assert cpu_choice.with_choice(given, a_choice()) == dataclasses.replace(given, num_threads=2)


def test_the_file_lists_the_layers_of_winograds_algorithm_in_order(tmp_path: Path) -> None:
    path, kept = tmp_path / "choice.json", a_choice().model_copy(update={"winograd": frozenset({"b", "c", "a"})})
    cpu_choice.write(path, kept)
    assert json.loads(path.read_bytes())["winograd"] == ["a", "b", "c"]
    assert cpu_choice.read(path, kept.valid_for) == kept

"""Engines as the two sides of `farm compare`, and their versions as the commits of `farm bisect`."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from farm.config import deployment, inventory
from farm.engines import registry
from farm.engines.base import Engine, EngineRun, EngineSnapshot, EngineTask, EngineUnit
from farm.jobs.compare import contender
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.rows.compare import CompareRow, ComparisonOutcome
from farm.rows.status import Status
from tests.farm.conftest import CallFarm
from tests.farm.engines import played_engines
from tests.farm.engines.test_engines_job import InterruptedAt
from tests.farm.model.tiny_model import write_deployment

offered = played_engines.offered
pytestmark = pytest.mark.slow
VERSIONS = [f"1.{number}" for number in range(6)]
SLOW_SINCE = 3


class AgingEngine(Engine):
    """Tells planted times: 4 ms a round, from some version on more. All of its versions are there."""

    name = "aging"
    version = "1.0"
    slow_ms = 8.0

    def at(self, version: str) -> AgingEngine:
        aged = copy.copy(self)
        aged.name, aged.version = f"aging=={version}", version
        return aged

    @contextlib.contextmanager
    def ready(self, unit: EngineUnit) -> Iterator[Callable[[EngineTask], EngineRun]]:
        noise = random.Random(self.version)
        level_ms = self.slow_ms if int(self.version.partition(".")[2]) >= SLOW_SINCE else 4.0

        def run(task: EngineTask) -> EngineRun:
            samples_ms = tuple(level_ms * noise.uniform(0.98, 1.02) for _ in range(task.rounds))
            outputs = {"y": np.ones((1, 5), np.float32)}
            return EngineRun(
                version=self.version,
                init_ms=1.0,
                first_ms=level_ms,
                samples_ms=samples_ms,
                outputs=outputs,
                hashes={"engine": self.version},
                snapshot=EngineSnapshot(self.version, {"model": task.model.onnx_file}),
            )

        yield run


AGING = AgingEngine()


@pytest.fixture
def aging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("farm.jobs.bisect.commits.wheel_versions", lambda *_: VERSIONS)
    known = {**registry.adapters(), "aging": AGING}
    monkeypatch.setattr(registry, "adapters", lambda: known)
    yield


def rows_of(out: str) -> list[CompareRow]:
    return [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]


def test_two_engines_are_compared_in_turns(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    words = ("compare", "farmrt", "onnxruntime", "tiny.yml", "--device", "host", "--turns", "8")
    status, out, err = farm(*words, "--json")
    (row,) = rows_of(out)
    assert (row.status, row.engine, row.runtime, len(row.blocks)) == (Status.OK, "onnxruntime", "cpu", 16), err
    assert [(side.name, side.kind, side.model) for side in (row.a, row.b)] == [
        ("farmrt", "engine", "tiny"),
        ("onnxruntime", "engine", "tiny"),
    ]
    assert row.sqnr_db and row.sqnr_db > 60 and row.ratio and row.ratio_ci and row.b.versions["onnxruntime"]
    assert [block.arm for block in row.blocks] == ["a", "b"] * 8 and status == int(row.outcome == "slower")
    assert not list(Path("build").rglob("*.turns.jsonl"))


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("engine", "status", "reason"),
    [
        ("crashes", "failed", "B: crashes: ended with exit status 134 (SIGABRT): last words"),
        ("refuses", "unsupported", "B: refuses refuses the model: NotImplementedError: no kernel for Erf"),
        ("wrong", "wrong_result", "B's outputs depart from A's: y: "),
    ],
)
def test_one_that_fails_says_which_it_was(
    farm: CallFarm, own_folder: Path, engine: str, status: str, reason: str
) -> None:
    write_deployment(own_folder, runtime="cpu")
    found, out, _ = farm("compare", "onnxruntime", engine, "tiny.yml", "--device", "host", "--turns", "8", "--json")
    (row,) = rows_of(out)
    assert (found, row.status) == (1, status) and row.reason.startswith(reason)


@pytest.mark.usefixtures("aging")
def test_an_interrupted_comparison_goes_on_and_finds_the_slower_version(own_folder: Path) -> None:
    source = deployment.load(write_deployment(own_folder, runtime="cpu"))
    both, options = contender.in_engines("aging==1.0", "aging==1.5", source), CompareOptions(8, runtimes=("cpu",))
    with pytest.raises(KeyboardInterrupt):
        list(compare_job(both, [inventory.HOST], options, progress=InterruptedAt("turn 6 of 8")))
    again = InterruptedAt("never")
    (row,) = compare_job(both, [inventory.HOST], options, progress=again)
    assert [text.partition(": ")[2] for text in again.told if "turn" in text] == [f"turn {n} of 8" for n in (6, 7, 8)]
    assert row.outcome == ComparisonOutcome.SLOWER and row.ratio and 1.5 < row.ratio < 2.5, row.verdict


@pytest.mark.usefixtures("aging")
def test_bisect_finds_the_version_that_became_slower(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    words = ("bisect", "1.0", "1.5", "tiny.yml", "--engine", "aging", "--device", "host", "--turns", "8")
    status, out, err = farm(*words, "--store", "none")
    assert status == 0, err
    assert "BAD over GOOD:" in out and "5 versions" in out and "1.3 aging==1.3" in out
    status, out, _ = farm(*words, "--store", "none", "--json")
    told = json.loads(out)
    assert status == 0 and told["suspects"] == [{"commit": "1.3", "subject": "aging==1.3"}]


def test_what_does_not_go_with_an_engine_is_told(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    status, _, err = farm("bisect", "1.0", "1.5", "tiny.yml", "--engine", "onnxruntime", "--repository", ".")
    assert status == 2 and "leave out --repository and --cluster" in err
    status, _, err = farm("bisect", "1.0", "1.5", "tiny.yml", "--engine", "onxruntime")
    assert status == 2 and "'onxruntime' is no engine, did you mean 'onnxruntime'?" in err

"""Two sides of a comparison on their way to a host, and the names that their rows have when they come back."""

import dataclasses
from pathlib import Path

import click
import pytest

from farm.cli import farm
from farm.cli.clusters import AllHosts
from farm.cluster import remote_comparison
from farm.config import deployment
from farm.jobs.compare import contender
from farm.jobs.compare.builds import CompareOptions
from farm.jobs.compare.contender import Contender
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import SILENT
from farm.rows.compare import CompareFigures, CompareRow, Side
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity
from runtime.errors import ConfigError, JobError
from tests.farm.cluster.test_remote_rows import UNITS, Hosts, printed
from tests.farm.model.tiny_model import write_deployment

OPTIONS = CompareOptions(turns=7, margin_percent=2.5, runtimes=("cpu",), profiled_turns=3)


def models(a: Path, b: Path) -> tuple[Contender, Contender]:
    return contender.models(deployment.load(a), deployment.load(b))


def build(text: str, model: Path) -> Contender:
    return contender.build(text, deployment.load(model))


@pytest.fixture
def folder(own_folder: Path) -> Path:
    """Two versions of a model."""
    (own_folder / "new").mkdir()
    for place in (own_folder, own_folder / "new"):
        write_deployment(place, runtime="cpu")
    return own_folder


def test_a_comparison_of_models_is_asked_for_and_named_as_here(folder: Path) -> None:
    hosts, both = Hosts(), models(Path("tiny.yml"), Path("new/tiny.yml"))
    identity = Identity(unit="host", soc="sdm845", device_model="MI 8", library="l", model="tiny", runtime="cpu")
    row = make_row(CompareRow, identity, Conditions({}), Failure.of(JobError("slow")))
    sides = CompareFigures(a=Side(name="a/model.yml", model="tiny"), b=Side(name="b/model.yml", model="tiny"))
    hosts.answers = {"mi8": [printed(row.model_copy(update=dict(sides)).model_dump(mode="json"))]}
    with click.Context(farm):
        (found,) = AllHosts(hosts).compare(both, UNITS[:1], OPTIONS, FleetOptions(wait_s=5), SILENT)  # type: ignore[arg-type]
    assert (found.unit, found.a.name, found.b.name) == ("mi8", "tiny.yml", "new/tiny.yml")
    assert (found.a.kind, found.a.model) == ("model", "tiny")
    ((unit, work, words),) = hosts.asked
    assert (unit, work, words[:3]) == ("mi8", "compare", ("compare", "a/model.yml", "b/model.yml"))
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options == {
        "--retries": "0",
        "--turns": "7",
        "--margin": "2.5",
        "--profiled-turns": "3",
        "--repeat": "1",
        "--wait": "5",
        "--runtime": "cpu",
    }


def test_models_in_other_engines_owe_rows_of_the_engine(folder: Path, tmp_path: Path) -> None:
    write_deployment(folder / "new", runtime="cpu", engine="onnxruntime")
    both = models(Path("tiny.yml"), Path("new/tiny.yml"))
    (work,) = remote_comparison.works(both, dataclasses.replace(OPTIONS, runtimes=("gpu", "cpu")))(tmp_path)
    assert [(owed.model, owed.runtime, owed.engine) for owed in work.owed] == [("tiny", "cpu", "onnxruntime")]
    assert "engine: onnxruntime" in work.files["b/model.yml"].read_text()


def test_engines_are_sent_by_name(folder: Path, tmp_path: Path) -> None:
    both = contender.in_engines("onnxruntime==1.22.1", "onnxruntime", deployment.load(Path("tiny.yml")))
    (work,) = remote_comparison.works(both, OPTIONS)(tmp_path)
    assert work.arguments == ("onnxruntime==1.22.1", "onnxruntime", "a/model.yml")
    assert not [name for name in work.files if name.startswith("b/")]
    assert [(owed.runtime, owed.engine) for owed in work.owed] == [("cpu", "onnxruntime")]


def test_what_no_runtime_has_in_common_is_told_before_it_is_sent(folder: Path, tmp_path: Path) -> None:
    both = contender.in_engines("farmrt", "onnxruntime", deployment.load(Path("tiny.yml")))
    with pytest.raises(ConfigError, match=r"tiny.yml: no model that both have runs on gpu"):
        remote_comparison.works(both, dataclasses.replace(OPTIONS, runtimes=("gpu",)))(tmp_path)


def test_builds_are_sent_as_sources_without_what_was_made_of_them(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        for file in ("farm/__init__.py", "farm/jobs/compare/bundle.py", "runtime/x.c", "farm/__pycache__/x.pyc", "y"):
            path = folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    both = tuple(build(name, Path("tiny.yml")) for name in ("one", "two"))
    (work,) = remote_comparison.works((both[0], both[1]), OPTIONS)(tmp_path)
    assert work.arguments == ("a/sources", "b/sources", "a/model.yml")
    assert {name for name in work.files if "sources" in name} == {
        f"{side}/sources/{file}"
        for side in ("a", "b")
        for file in ("farm/__init__.py", "farm/jobs/compare/bundle.py", "runtime/x.c")
    }
    assert [(owed.model, owed.runtime) for owed in work.owed] == [("tiny", "cpu")]


def test_what_is_compared_with_itself_is_sent_once(folder: Path, tmp_path: Path) -> None:
    path = folder / "one/farm/jobs/compare/bundle.py"
    path.parent.mkdir(parents=True)
    for file in (path, folder / "one/farm/__init__.py"):
        file.touch()
    model = Path("tiny.yml")
    for both, words in (
        (models(model, model), ("a/model.yml", "a/model.yml")),
        ((build("one", model), build("one", model)), ("a/sources", "a/sources", "a/model.yml")),
    ):
        (work,) = remote_comparison.works(both, OPTIONS)(tmp_path)
        assert work.arguments == words and not [name for name in work.files if name.startswith("b/")]

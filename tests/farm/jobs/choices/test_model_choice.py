"""What tuning kept is shown for a unit that is known but not there, as it is used on one that is."""

import dataclasses
import json
from pathlib import Path

import pytest

from farm.config import deployment
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.choices.model_choice import model_choice, subject_of
from farm.jobs.fleet.planner import choose_target
from farm.jobs.forecast import forecast_for_file
from farm.jobs.inspect import inspect_for_file
from farm.jobs.models import cpu_choice
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared, prepare
from farm.kept_choices import ChoiceSet, KeptChoice, encode_choices
from farm.model.fetch import Fetcher
from farm.tables.inspect import inspect_tables
from farm.units.target_files import read_target_file
from farm.workspace import Workspace
from runtime.lowering.choice import Place, graph_choice
from runtime.plan.artifacts import fingerprint_of
from runtime.selection.listing import find_candidates
from runtime.target import Target
from tests.farm.model.tiny_model import write_deployment
from tests.farm.test_forecast import target_file


@dataclasses.dataclass(frozen=True)
class Phone:
    """A model and a phone that is not here."""

    source: deployment.Deployment
    file: Path
    prepared: Prepared

    def target(self, runtime: deployment.Runtime) -> Target:
        return choose_target(*read_target_file(self.file), self.prepared, runtime)

    @property
    def probe(self) -> ProbeAnswer:
        return read_target_file(self.file)[1]


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    monkeypatch.chdir(tmp_path)
    source = deployment.load(write_deployment(tmp_path, runtime="cpu+gpu"))
    return Phone(source, target_file(tmp_path, soc="sdm845"), prepare(source, "tiny", Fetcher(source)))


def keep(path: Path, prepared: Prepared, target: Target, place: Place) -> None:
    """A file that tuning would leave, with every operator in one place where it can run there."""
    graph = prepared.graph
    found = find_candidates(graph, target, prepared.options())
    chosen = {
        node.output: next((one for one in found.choices(node) if one.place == place), found.choices(node)[0])
        for node in graph.nodes
    }
    choice = json.loads(graph_choice(graph, chosen).to_json())
    kept = KeptChoice(**subject_of(prepared, target).model_dump(), choice=choice, predicted_ms=1.0, measured_ms=1.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_choices([ChoiceSet(fingerprint_of(target), "Mi 8", (kept,))]))


def test_a_kept_choice_is_shown_of_a_phone_that_is_not_here(phone: Phone) -> None:
    target = phone.target("gpu")
    path = Workspace("tinylib").selection_file("arm64-v8a", "Mi 8", "sdm845")
    default = list(inspect_for_file(phone.source, phone.file))[1]
    assert "buffer_to_image" in {operator.kernel for operator in default.operators}
    keep(path, phone.prepared, target, Place.BUFFER)
    _, gpu = inspect_for_file(phone.source, phone.file)
    assert gpu.selection.match == "exact" and str(path) in dict(list(inspect_tables(gpu, False))[-1].rows)["plan"]
    assert {tensor.memory for tensor in gpu.tensors} == {"buffer"}
    _, told = forecast_for_file(phone.source, phone.file)
    assert [operator.kernel for operator in told.operators] == [operator.kernel for operator in gpu.operators]
    assert "buffer_to_image" not in {operator.kernel for operator in told.operators}
    (_, images) = inspect_for_file(phone.source, phone.file, memory="image")
    assert images.operators == default.operators, "one memory type throughout leaves no choice"


def test_what_tuning_chose_for_the_cpu_is_shown(phone: Phone) -> None:
    default, _ = inspect_for_file(phone.source, phone.file)
    assert not default.is_tuned_for_cpu and "nchw8c" in {tensor.storage_format for tensor in default.tensors}
    path = Workspace("tinylib").cpu_choice_file("tiny", "arm64-v8a", "Mi 8", "sdm845")
    valid_for = cpu_choice.validity(phone.prepared.graph, phone.probe.cpu)
    cpu_choice.write(path, CpuChoice(valid_for=valid_for, block=16, winograd=frozenset(), threads=2))
    cpu, _ = inspect_for_file(phone.source, phone.file)
    assert cpu.is_tuned_for_cpu and "nchw16c" in {tensor.storage_format for tensor in cpu.tensors}
    way = model_choice(*read_target_file(phone.file), phone.prepared, "cpu", phone.target("cpu"))
    assert way.execution(phone.prepared.settings.execution).num_threads == 2
    cpu_choice.write(path, CpuChoice(valid_for="another graph", block=16, winograd=frozenset()))
    assert next(inspect_for_file(phone.source, phone.file)).tensors == default.tensors


def test_memory_that_no_choice_keeps_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = target_file(tmp_path, soc="sdm845")
    source = deployment.load(write_deployment(tmp_path, activation_limit_mb="0.001"))
    (row,) = forecast_for_file(source, path)
    assert "no choice keeps activations within 1000 bytes" in row.reason
    source = deployment.load(write_deployment(tmp_path, activation_limit_mb="1", activation_slowdown="0.1"))
    (row,) = forecast_for_file(source, path)
    assert row.reason == "" and row.cheapest

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from farm.config import deployment
from farm.jobs.choices.costs import trials_fingerprint
from farm.jobs.forecast import forecast_for_file, forecast_for_soc
from farm.jobs.models.prepare import Prepared, prepare_all
from farm.plans.forecast import forecast
from farm.rows.forecast import ForecastRow
from farm.rows.status import Status
from farm.tables.forecast import forecast_tables
from farm.tables.table import plain
from farm.units.shipped_facts import shipped_probe
from farm.units.target_files import read_target_file
from farm.workspace import journal_file
from runtime.errors import ConfigError, UnsupportedError
from runtime.lowering.launch import Launch
from runtime.lowering.lower import Options, lower
from runtime.peaks import peaks_of
from runtime.selection.calibration import by_key
from runtime.selection.costs import cost_key, modelled_costs
from runtime.selection.listing import find_candidates
from runtime.selection.peak_probes import probes
from runtime.target import Target
from tests.farm.jobs.fleet.test_unit import probe
from tests.farm.model.tiny_model import write_deployment
from tests.runtime.graphs import GraphMaker
from tuner.journal import Journal
from tuner.trial import DRIVERS_CHOICE, Candidate, Trial, TrialStatus

TARGET = Target(soc="x", abi="x", gpu_family="unknown", memory="buffer", allow_cpu=True)


def test_operators_conversions_work_and_memory() -> None:
    maker = GraphMaker()
    x = maker.input(1, 5, 8, 8)
    for _ in range(3):
        x = maker.conv(x, 8)
    figures = forecast(lower(maker.finish(x), TARGET, Options()))
    assert [op.type for op in figures.operators] == ["Transpose", "Conv2D", "Conv2D", "Conv2D", "Transpose"]
    assert [op.is_conversion for op in figures.operators] == [True, False, False, False, True]
    assert (figures.conversions, figures.gpu_operators, figures.cpu_fallbacks) == (2, 5, 0)
    assert figures.macs == 64 * 9 * (5 * 8 + 8 * 8 + 8 * 8)
    assert figures.activations_peak_bytes and figures.activations_sum_bytes and figures.weights_bytes
    assert 0 < figures.activations_peak_bytes < figures.activations_sum_bytes
    assert figures.weights_bytes >= 4 * 9 * (5 * 8 + 8 * 8 + 8 * 8)


@pytest.mark.parametrize("memory", ["buffer", "image"])
def test_conversions_are_the_steps_that_only_move_elements(memory: str) -> None:
    """Grouped convolutions leave the images and say so with an arrow; transpositions of the model have no note."""
    maker = GraphMaker()
    x = maker.input(1, 12, 6, 6)
    for _ in range(3):
        x = maker.conv(maker.conv(x, 12), 12, group=2)
        x = maker.add("Transpose", maker.add("Relu", x), perm=(0, 1, 3, 2))
    graph = maker.finish(maker.add("ReduceSum", x, axes=(1, 3), keepdims=True))
    plan = lower(graph, dataclasses.replace(TARGET, memory=memory), Options())
    moving = [step.kernel.name in ("copy", "buffer_to_image", "image_to_buffer") for step in plan.steps]
    figures = forecast(plan)
    assert [operator.is_conversion for operator in figures.operators] == moving
    assert figures.conversions == sum(moving)
    assert sum(operator.name.startswith("n_transpose") for operator in figures.operators) == 3
    assert memory == "buffer" or any("groups of 6 -> 6" in operator.note for operator in figures.operators)


def test_a_cpu_runtime_does_not_fall_back() -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 3, 8, 8), 8))
    figures = forecast(lower(graph, dataclasses.replace(TARGET, memory="cpu"), Options()))
    assert {op.device for op in figures.operators} == {"cpu"}
    assert (figures.gpu_operators, figures.cpu_fallbacks) == (0, 0)


def target_file(folder: Path, **more: object) -> Path:
    path = folder / "phone.json"
    path.write_text(json.dumps(probe().model_dump() | more))
    return path


def rows(folder: Path, **keys: str) -> list[ForecastRow]:
    return list(forecast_for_file(deployment.load(write_deployment(folder, **keys)), target_file(folder, soc="sdm845")))


def test_a_phone_that_is_not_here_is_forecast_from_its_probe(tmp_path: Path) -> None:
    cpu, gpu = rows(tmp_path, runtime="cpu+gpu")
    assert (gpu.unit, gpu.soc, gpu.status) == ("phone", "sdm845", Status.OK)
    assert gpu.fingerprint["gpu"] == "Adreno (TM) 630"
    assert {op.kernel for op in gpu.operators} >= {"buffer_to_image", "conv2d"}
    assert {op.device for op in cpu.operators} == {"cpu"}


def test_what_the_phone_lacks_is_a_row(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, data_type="fp16_fp16")
    assert row.status == Status.UNSUPPORTED and "no fp16 arithmetic" in row.reason
    (row,) = rows(tmp_path, model=b"damaged")
    assert row.status == Status.FAILED and "not an ONNX model" in row.reason


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "not JSON; write there what `farmrt probe` prints on the unit"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "'abi' and 'opencl' are missing"),
        (b'{"abi": "x", "opencl": []}', "'abi' and 'opencl' are missing"),
        (b'{"abi": "x", "opencl": {"device": {"name": "x"}}}', "'opencl.device.driver' is missing or wrong"),
    ],
)
def test_target_files_that_are_none_are_refused(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "target.json"
    path.write_bytes(content)
    found = deployment.load(write_deployment(tmp_path))
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: .*{re.escape(text)}"):
        list(forecast_for_file(found, path))


def test_a_missing_target_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_target_file(tmp_path / "none.json")


def test_tables_name_notes_and_totals(tmp_path: Path) -> None:
    _, row = rows(tmp_path, runtime="cpu+gpu")
    operators, totals, choice = forecast_tables(row)
    assert row.cheapest and [cells[-1] for cells in choice.rows] == [op.name for op in row.cheapest.operators]
    assert operators.title == "tiny on phone (gpu)"
    assert any("FLAT -> IMAGE" in cells[-1] for cells in operators.rows)
    assert dict(totals.rows)["multiply-accumulates"] == f"{row.macs:,}"


def test_a_soc_that_is_not_plugged_in_is_forecast_from_facts_and_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a SoC of the same GPU family, in which images win, decides; costs say so."""
    monkeypatch.chdir(tmp_path)
    source = deployment.load(write_deployment(tmp_path))
    (first,) = forecast_for_soc(source, "sdm845")
    assert first.status == Status.OK and first.cost_origins == {"modelled": len(first.operators)}
    assert first.predicted_ms == pytest.approx(sum(op.cost_ms or 0.0 for op in first.operators))
    (model,) = prepare_all(source)
    assert isinstance(model, Prepared)
    twin = dataclasses.replace(TARGET, soc="sdm670", gpu_family="adreno-6xx", allow_cpu=False)
    every = {cost_key(each): each for each in find_candidates(model.graph, twin).launches()}
    with Journal(journal_file("sdm670"), "twin", {"gpu_family": "adreno-6xx"}) as journal:
        for key, each in every.items():
            trial = Trial(TrialStatus.OK, (1e5 if each.kernel.memory == "image" else 1e7,))
            journal.add(each.kernel.name, key, Candidate(each.variant, DRIVERS_CHOICE), trial)
    (row,) = forecast_for_soc(source, "sdm845")
    assert row.cost_source == "sdm670" and set(row.cost_origins) == {"family"}
    assert row.cheapest and row.cheapest.gap == pytest.approx(0.0, abs=1e-6)
    assert row.cheapest.predicted_ms <= (row.predicted_ms or 0.0) + 1e-9
    conv = next(op for op in row.cheapest.operators if op.type == "Conv")
    assert (conv.runs_on, conv.alternative) == ("image", "buffer") and (conv.alternative_ms or 0.0) > 0
    assert len(row.cheapest.conversions) <= (row.format_conversions or 0) + 2
    text = "\n".join(map(plain, forecast_tables(row)))
    assert "sdm670" in text and "Best other way" in text and "farm tune" in text


def write_times(soc: str, times: Mapping[str, float], launches: Mapping[str, Launch], target: Target) -> None:
    """A journal of a device on which launches take so many ms, by key."""
    with Journal(journal_file(soc), trials_fingerprint(target)) as journal:
        for key, ms in times.items():
            trial = Trial(TrialStatus.OK, (1e6 * ms,))
            journal.add(launches[key].kernel.name, key, Candidate(launches[key].variant, DRIVERS_CHOICE), trial)


def shipped_target(soc: str) -> Target:
    probe = shipped_probe(soc, "arm64-v8a")
    assert probe
    return probe.target(soc, allow_cpu=False)


SLOWER = 1000.0


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_device_that_is_far_slower_than_its_family_is_forecast_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """By the launches that it has timed, so many, or without any by its peaks."""
    monkeypatch.chdir(tmp_path)
    source = deployment.load(write_deployment(tmp_path))
    (family,) = forecast_for_soc(source, "sdm845")
    assert family.predicted_ms and family.measured_peaks == {} and family.model_scales == {}
    assert "typical of the GPU family" in "\n".join(map(plain, forecast_tables(family)))
    (model,) = prepare_all(source)
    assert isinstance(model, Prepared)
    target = shipped_target("sdm845")
    every = by_key(find_candidates(model.graph, target).launches())
    costs = modelled_costs(target)
    slow = {key: SLOWER * costs.milliseconds(launch) for key, launch in every.items()}
    if count:
        write_times("sdm845", dict(list(slow.items())[:count]), every, target)
    else:
        known, peaks = probes(target), peaks_of(target)
        rates = {"macs": peaks.macs, "buffer_bytes": peaks.buffer_bytes, "image_bytes": peaks.image_bytes}
        took = {probe.key: SLOWER * (peaks.launch_ms + probe.work / rates.get(probe.figure, 1e30)) for probe in known}
        write_times("sdm845", took, {probe.key: probe.launch for probe in known}, target)
    (row,) = forecast_for_soc(source, "sdm845")
    assert row.predicted_ms and SLOWER / 3.1 < row.predicted_ms / family.predicted_ms < 2 * SLOWER
    assert row.cheapest and row.predicted_ms / 10 < row.cheapest.predicted_ms <= row.predicted_ms + 1e-6
    assert bool(row.measured_peaks) == (count == 0) and bool(row.model_scales) == (count > 0)
    text = "\n".join(map(plain, forecast_tables(row)))
    assert ("GMAC/s" in text) == (count == 0) and ("multiplied by" in text) == (count > 0)


def test_a_soc_of_which_nothing_is_known_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match="its GPU is not known"):
        list(forecast_for_soc(deployment.load(write_deployment(tmp_path)), "nosuch1"))

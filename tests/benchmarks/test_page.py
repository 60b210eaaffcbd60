"""The benchmarks' page shows figures, judges them and names failures; the figures here are made up."""

from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks import engines_page
from benchmarks.figures import ONNX_RUNTIME, ColdStart, Entrant, Interval, Machine, Report, Run, Start, Tuning
from benchmarks.onnx_cases import Case
from benchmarks.onnx_versions import in_version, versions
from benchmarks.operators_page import MACE_OPERATORS
from benchmarks.page import page
from farm.rows.latency import Latency
from farm.rows.status import Status
from runtime.importers.handlers import FARM_HANDLERS
from tests.farm.report.test_single_pages import rows_of
from tests.runtime.onnx_models import one_op, random_array

MACHINE = Machine(cpu="Abacus", cores=2, memory_bytes=2**34, system="Linux", versions={"farm": "1"})


def report(**members: Any) -> Report:
    known = {"command": "models.py", "date": "today", "machine": MACHINE, "drivers": ()}
    return Report(**known | {"wall_s": 60.0, "others_cores": 0.0} | members)


def entrant(name: str, ms: float, ratio: float, **members: Any) -> Entrant:
    interval = Interval(value=ratio, low=ratio - 0.1, high=ratio + 0.1)
    return Entrant(name=name, latency_ms=Latency.of([ms - 1, ms, ms + 1]), to_onnxruntime=interval, **members)


def line(text: str, start: str) -> str:
    return next(found for found in text.splitlines() if found.startswith(start))


def run(*entrants: Entrant, **members: Any) -> Run:
    reference = entrant(ONNX_RUNTIME, 10.0, 1.0)
    return Run(model="mobilenet_v1", driver="system", entrants=(reference, *entrants), **members)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.99, "1.0: reached"), (1.01, "1.0: missed")])
def test_ratios_come_first_and_the_aim_is_judged_by_the_tuned_one(ratio: float, verdict: str) -> None:
    text = page(report(runs=(run(entrant("default", 15.0, 0.5), entrant("tuned", 9.0, ratio)),)))
    row = line(text, "| mobilenet_v1 | system")
    assert f"{verdict} | 0.50 (0.40–0.60) | {ratio:.2f}" in row
    assert row.endswith("| 10.00 (9.50–10.50) |")


def test_a_wrong_result_shows_its_status_and_reason_instead_of_a_figure() -> None:
    wrong = entrant("tuned", 1.0, 0.1, status=Status.WRONG_RESULT, reason="prob: cosine 0.2")
    text = page(report(runs=(run(entrant("default", 15.0, 1.5), wrong),)))
    assert (
        line(text, "| mobilenet_v1 | system")
        == "| mobilenet_v1 | system | 1.0 | 1.50 (1.40–1.60) | wrong_result | 10.00 (9.50–10.50) |"
    )
    assert "- mobilenet_v1 on system: tuned: wrong_result: prob: cosine 0.2" in text


def test_a_model_that_failed_has_a_row_and_a_reason() -> None:
    text = page(report(runs=(Run(model="resnet50", driver="pypi", failures=("set-up: no OpenCL driver",)),)))
    assert line(text, "| resnet50") == "| resnet50 | pypi | 4.0 | - | - |"
    assert "- resnet50 on pypi: set-up: no OpenCL driver" in text


def test_cold_starts_are_compared_with_the_same_launches() -> None:
    starts = ColdStart(
        tuned=Start(seconds=(4.0, 3.0, 5.0), built=9),
        compiled=Start(seconds=(0.1, 0.3, 0.2), built=0),
        onnxruntime_s=0.05,
    )
    text = page(report(runs=(run(entrant("default", 15.0, 1.5), cold_start=starts),)))
    assert "| mobilenet_v1 | system | 20 | 4.00; 9 programs | 0.20 | 0.05 |" in text


def test_tuning_that_failed_shows_its_status() -> None:
    nothing = dict.fromkeys(("device_s", "wall_s", "trials", "launches", "launches_tuned"), 0)
    failed = Tuning(level="quick", status=Status.DEVICE_LOST, **nothing)
    text = page(report(runs=(run(tunings=(failed,)),)))
    assert "| mobilenet_v1 | system | device_lost | - |" in text


def test_figures_of_a_busy_machine_are_marked_and_not_judged() -> None:
    text = page(report(runs=(run(entrant("tuned", 9.0, 0.9)),), others_cores=0.8))
    assert "disturbed" in text
    assert "| mobilenet_v1 | system | 1.0 | 0.90" in text
    assert "disturbed" not in page(report())


def test_figures_survive_json() -> None:
    found = report(runs=(run(entrant("default", 15.0, 1.5)),))
    assert Report.model_validate_json(found.model_dump_json()) == found


def test_the_table_has_all_engines_and_its_verdicts() -> None:
    rows = rows_of("host", farmrt=2.0, onnxruntime=1.0)
    text = engines_page.text_of({"net": rows}, others_cores=0.0)
    assert "- net on host: onnxruntime (cpu) is the fastest of 2: farmrt (cpu) takes 2.00 times as long" in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| net |")]
    assert [line[1] for line in lines] == ["**onnxruntime (cpu)**", "farmrt (cpu)", "crashes (cpu)"]
    assert lines[1][3].startswith("2.00 (") and lines[2][2:4] == ["-", "-"] and lines[2][-1].startswith(Status.FAILED)
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    assert "Other work" not in text and "Other work" in engines_page.text_of({"net": rows}, 1.0)


def test_the_page_has_its_place_for_the_table() -> None:
    page = engines_page.PAGE.read_text()
    assert page.count(engines_page.BEGIN) == page.count(engines_page.END) == 1
    assert page.index(engines_page.BEGIN) < page.index(engines_page.END)


def test_networks_are_those_of_the_zoo_for_an_image() -> None:
    known = engines_page.networks()
    images = ["squeezenet_v11", "mobilenet_v2", "mobilenet_v1", "resnet50", "inception_v3"]
    images += ["mobilenet_v3_large", "efficientnet_lite0"]
    assert sorted(name for name in known if "." not in name and "8bit" not in name) == sorted(images)
    assert {"mobilenet_v2_8bit", "squeezenet_v11_8bit"} <= set(known)
    with known["squeezenet_v11"]() as source:
        assert source.models["squeezenet_v11"].runtimes == ("cpu", "gpu")


def case(model: onnx.ModelProto, **inputs: object) -> Case:
    """A case of one operator, of which the outputs do not count."""
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    return Case("case", model.graph.node[0].op_type, model, arrays, {"y": np.zeros(1)}, 0, 0)


def test_versions_are_those_of_the_main_domain_that_are_in_force() -> None:
    assert versions("DepthToSpace") == [1, 11, 13, 28]
    assert 10 not in versions("Upsample")  # deprecated
    assert versions("SpaceToBatch") == []


def test_inputs_become_the_attributes_that_they_were() -> None:
    x = random_array((2, 1, 3))
    older = in_version(case(one_op("Squeeze", {"x": (2, 1, 3), "axes": (1,)}, opset=13), x=x, axes=[1]), 11)
    assert older is not None
    (node,), (opset,) = older.model.graph.node, older.model.opset_import
    assert (list(node.input), node.attribute[0].name, list(node.attribute[0].ints)) == (["x"], "axes", [1])
    assert opset.version == 11 and older.inputs.keys() == {"x"}
    np.testing.assert_array_equal(older.outputs["y"], x[:, 0])


def test_a_default_that_changed_is_written_out() -> None:
    x = random_array((2, 3, 4))
    older = in_version(case(one_op("Softmax", {"x": (2, 3, 4)}, opset=13), x=x), 11)
    assert older is not None
    assert onnx.helper.get_attribute_value(older.model.graph.node[0].attribute[0]) == -1
    np.testing.assert_allclose(older.outputs["y"].sum(axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "version"),
    [
        (one_op("DepthToSpace", {"x": (1, 4, 2, 2)}, opset=13, blocksize=2, mode="CRD"), 1),
        (one_op("Dropout", {"x": (1, 4, 2, 2), "ratio": ()}, opset=13), 1),
    ],
    ids=["mode", "is_test and consumed_inputs"],
)
def test_what_an_older_version_cannot_say_is_no_case_of_it(model: onnx.ModelProto, version: int) -> None:
    shapes = {value.name: [each.dim_value for each in value.type.tensor_type.shape.dim] for value in model.graph.input}
    values = {name: random_array(shape) for name, shape in shapes.items()}
    assert in_version(case(model, **values), version) is None


def test_mace_operators_are_done_by_operators_that_are_there() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()} | {f"farm.{name}" for name in FARM_HANDLERS}
    assert len(MACE_OPERATORS) == 51
    assert {each for operators, _ in MACE_OPERATORS.values() for each in operators} <= known

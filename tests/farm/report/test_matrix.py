"""The matrix of models and SoCs."""

import dataclasses

import pytest

from farm.decision.judgement import Verdict
from farm.nightly.night import CaseReport
from farm.report.lines import links_of
from farm.report.matrix import Cell, engine_matrix, matrix
from farm.report.pages import pages
from farm.rows.series import SeriesKey
from tests.farm.report import nights


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str], Cell | None]:
    night = nights.night(30)
    made = matrix(night, links_of(night))
    assert made.columns == ["gs201", "rk3399", "sdm845"]
    return {(title, soc): cell for title, found in made.rows for soc, cell in zip(made.columns, found, strict=True)}


def test_a_cell_shows_the_worst_unit_and_leads_to_its_series(cells: dict[tuple[str, str], Cell | None]) -> None:
    cell = cells["squeezenet (gpu)", "gs201"]
    assert cell and cell.word.one == "improvement" and "pixel, worst of 2" in cell.remarks
    assert cell.href.startswith("series/pixel-squeezenet-gpu-default-latency_ms")
    assert any(remark.startswith("tuned ") for remark in cell.remarks)


def test_a_worse_series_than_the_latency_gives_the_cell_its_verdict_and_link() -> None:
    night = nights.night(12, nights.PHONES[:1])
    latency, *others = night.devices[0].cases[0].series
    unchanged = dataclasses.replace(
        latency, judgement=dataclasses.replace(latency.judgement, verdict=Verdict.UNCHANGED)
    )
    wrong = dataclasses.replace(
        others[2], judgement=dataclasses.replace(others[2].judgement, verdict=Verdict.WRONG_RESULT)
    )
    case = dataclasses.replace(night.devices[0].cases[0], series=[unchanged, wrong])
    changed = dataclasses.replace(night, devices=[dataclasses.replace(night.devices[0], cases=[case])])
    links = links_of(changed)
    ((_, (cell,)),) = matrix(changed, links).rows
    assert cell and cell.word.one == "wrong result" and cell.href == links.series[wrong.key]
    assert cell.value.endswith(" ms")


@pytest.mark.parametrize("ratios", [(1.8, 2.1), (2.1, 1.8)])
def test_of_units_with_one_verdict_the_one_that_became_slowest_is_the_worst(ratios: tuple[float, float]) -> None:
    night = nights.night(12, nights.PHONES[:1])
    first = night.devices[0].cases[0]
    cases = []
    for number, ratio in enumerate(ratios):
        series = [
            dataclasses.replace(each, judgement=dataclasses.replace(each.judgement, ratio=ratio, verdict=verdict))
            for each, verdict in zip(first.series[:2], (Verdict.REGRESSION, Verdict.UNCHANGED), strict=True)
        ]
        case = dataclasses.replace(first.case, unit=f"unit_{number}")
        cases.append(dataclasses.replace(first, case=case, series=series))
    changed = dataclasses.replace(night, devices=[dataclasses.replace(night.devices[0], cases=cases)])
    ((_, (cell,)),) = matrix(changed, links_of(night)).rows
    assert cell and f"unit_{ratios.index(2.1)}, worst of 2" in cell.remarks


def test_units_that_are_all_as_before_are_counted(cells: dict[tuple[str, str], Cell | None]) -> None:
    cell = cells["resnet50 (cpu)", "gs201"]
    assert cell and not cell.is_changed and cell.remarks[-1] == "2 units"
    alone = cells["resnet50 (cpu)", "rk3399"]
    assert alone and len(alone.remarks) == 1


def test_a_soc_without_the_case_has_no_cell() -> None:
    night = nights.night(12, [nights.PHONES[0], nights.PHONES[3]])
    night.devices[1].cases[:] = night.devices[1].cases[:1]  # type: ignore[index]
    rows = matrix(night, links_of(night)).rows
    assert [cells.count(None) for _, cells in rows] == [0 if title == "mobilenet_v1 (gpu)" else 1 for title, _ in rows]


def _in_engine(case: CaseReport, engine: str, factor: float) -> CaseReport:
    """The same case as another engine runs it, in so many times the time."""
    of_engine = dataclasses.replace(case.case, engine=engine)
    assert case.row
    blocks = [
        block.model_copy(update={"samples": tuple(factor * sample for sample in block.samples)})
        for block in case.row.blocks
    ]
    row = case.row.model_copy(update={"engine": engine, "blocks": tuple(blocks)})
    series = [dataclasses.replace(each, key=SeriesKey(of_engine, each.key.metric)) for each in case.series]
    return dataclasses.replace(case, case=of_engine, row=row, series=series)


def test_engines_stand_beside_each_other_on_each_unit_with_their_history() -> None:
    night = nights.night(12, nights.PHONES[2:])
    assert not engine_matrix(night, links_of(night)).rows, "nobody compares engines there"
    first, *others = night.devices[0].cases
    assert first.row and len(first.row.blocks) >= 5
    device = dataclasses.replace(night.devices[0], cases=[first, _in_engine(first, "mnn", 2.0), *others])
    compared = dataclasses.replace(night, devices=[device, *night.devices[1:]])
    links = links_of(compared)
    made = engine_matrix(compared, links)
    assert made.columns == ["mi8", "rock"]
    assert [title for title, _ in made.rows if "mnn" in title] == ["mobilenet_v1: mnn (gpu)"]
    found = {title: dict(zip(made.columns, cells, strict=True)) for title, cells in made.rows}
    own, other = found["mobilenet_v1: farmrt (gpu)"]["mi8"], found["mobilenet_v1: mnn (gpu)"]["mi8"]
    assert own and other and other.spark and other.href == links.series[device.cases[1].series[0].key]
    assert any(remark.startswith("2.00 of farmrt's time (") for remark in other.remarks)
    assert not any("farmrt" in remark for remark in own.remarks)
    assert found["mobilenet_v1: mnn (gpu)"]["rock"] is None and not any("resnet50" in title for title in found)
    page = dict(pages(compared))["index.html"]
    assert "Latency by engine and unit" in page and other.spark in page and "of farmrt&#39;s time" in page

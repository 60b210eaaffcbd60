"""Other engines in a nightly run on this machine: cases, rows, series and report of their own; those that fail."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from farm.config import deployment
from farm.config.inventory import Unit
from farm.jobs.nightly.matrix import cases_of
from farm.nightly import configuration
from farm.rows.nightly import NightlyRow
from farm.rows.series import Case, Metric, SeriesKey
from farm.store import Store
from farm.store.series import series_key
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.engines import played_engines, test_compared_engines
from tests.farm.engines.test_compared_engines import AgingEngine
from tests.farm.model.tiny_model import write_deployment

offered, aging = played_engines.offered, test_compared_engines.aging
FILE = """\
models: tiny.yml
units: [{device: host}]
repeats: 2
rounds: 3
rest_seconds: 0
most_rests: 0
most_reruns: 0
"""


def night_of(farm: CallFarm, *more: str) -> tuple[int, dict[str, Any], str]:
    status, out, err = farm("nightly", "lab.yml", "--json", *more)
    return status, json.loads(out) if out else {}, err


def stored_rows() -> list[NightlyRow]:
    with Store.open() as store:
        return store.nightly_rows(store.runs(name="lab", limit=1)[0].id)


def cases(text: str, folder: Path, **keys: Any) -> list[str]:
    (folder / "lab.yml").write_text(FILE + text)
    nightly = configuration.load(folder / "lab.yml")
    source = deployment.load(write_deployment(folder, **keys))
    unit = Unit(name="host", transport="local", soc="host", model="host", abis=("host",))
    return [str(case) for of_unit in cases_of(nightly, [(source, [unit])]).values() for case in of_unit]


def test_cases_are_of_the_engines_that_take_the_model(own_folder: Path) -> None:
    own = "tiny (cpu, default) on host"
    assert cases("", own_folder, runtime="cpu") == [own]
    other = "tiny (cpu of onnxruntime, default) on host"
    assert cases("", own_folder, runtime="cpu", engine="onnxruntime") == [other]
    named = "engine: [farmrt, onnxruntime, litert]\n"
    assert cases(named, own_folder, runtime="cpu") == [own, other], "litert takes no ONNX model"
    refused = "tiny (cpu of litert, default) on host"
    assert cases("", own_folder, runtime="cpu", engine="litert") == [refused], "the model's own file names it"
    settings = "settings: {default: {}, untuned: {tuned: none}, two: {num_threads: 2}}\n"
    found = cases(named + settings, own_folder, runtime="cpu")
    assert [case for case in found if "onnxruntime" in case] == [other, other.replace("default", "two")]


def test_an_unknown_engine_is_told_with_its_place(own_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"lab.yml:8: engine: 'onxruntime' is no engine, did you mean 'onnxruntime'"):
        cases("engine: onxruntime\n", own_folder)
    with pytest.raises(ConfigError, match=r"tiny.yml:\d+: models.tiny.engine: 'frmrt' is no engine"):
        cases("", own_folder, engine="frmrt")


def test_series_of_an_engine_are_never_those_of_farmrt() -> None:
    own, other = Case("u", "l", "m", "cpu", "default"), Case("u", "l", "m", "cpu", "default", "mnn")
    assert own != other and str(other) == "m (cpu of mnn, default) on u"
    assert series_key(["u", "l", "m", "cpu", "default", "latency_ms"]) == SeriesKey(own, Metric.LATENCY)
    assert series_key(["u", "l", "m", "cpu", "default", "mnn", "latency_ms"]) == SeriesKey(other, Metric.LATENCY)


@pytest.mark.slow
def test_nights_have_cases_of_several_engines(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    Path("lab.yml").write_text(FILE + "engine: [farmrt, onnxruntime]\njobs: [validate, benchmark]\n")
    for _ in range(2):
        status, verdict, err = night_of(farm)
        assert (status, verdict["outcome"]) == (0, "nothing worse"), err
    found = {row.engine: row for row in stored_rows()}
    assert list(found) == ["farmrt", "onnxruntime"]
    row = found["onnxruntime"]
    assert row.versions["onnxruntime"] and set(row.hashes) == {"engine", "model"} and row.sqnr_db and row.sqnr_db > 60
    assert "data_type" not in row.settings and row.settings["rounds"] == 3 and row.peak_memory
    assert [len(block.samples) for block in row.blocks] == [3, 3] and row.blocks[0].init_ms and row.first_ms
    assert row.file_bytes["engine"] > row.file_bytes["model"] and row.fingerprint["engine"].startswith("onnxruntime 1.")
    with Store.open() as store:
        series = dict(store.each_series())
        engines = {key.case.engine: len(points) for key, points in series.items() if key.metric == Metric.LATENCY}
        assert engines == {"farmrt": 2, "onnxruntime": 2}
    pages = " ".join(path.read_text() for path in Path("reports/lab").rglob("index.html"))
    assert "tiny (cpu)" in pages and "tiny (cpu of onnxruntime)" in pages
    status, out, _ = farm("compare", "run:1", "run:2", "--json")
    assert [row["engine"] for row in json.loads(out)["rows"]] == ["farmrt", "onnxruntime"]
    assert farm("store", "export", "flat", "--format", "csv")[0] == 0
    for name in ("rows", "samples", "points"):
        with Path(f"flat/{name}.csv").open() as file:
            assert {line["engine"] for line in csv.DictReader(file)} == {"farmrt", "onnxruntime"}, name


@pytest.mark.slow
@pytest.mark.usefixtures("offered")
def test_an_engine_that_fails_is_a_row_and_the_others_go_on(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu", round_limit=2)
    named = ["crashes", "absent", "refuses", "babbles", "wrong", "hangs", "onnxruntime"]
    Path("lab.yml").write_text(f"{FILE}engine: [{', '.join(named)}]\n")
    status, verdict, err = night_of(farm)
    found = {row.engine: row for row in stored_rows()}
    assert (status, verdict["outcome"], list(found)) == (1, "worse", named), err
    assert (found["onnxruntime"].status, len(found["onnxruntime"].blocks)) == ("ok", 2)
    assert found["crashes"].reason == "crashes: ended with exit status 134 (SIGABRT): last words"
    assert found["absent"].reason.endswith("pip install no_such_engine")
    assert found["refuses"].status == "unsupported" and found["babbles"].status == "failed"
    assert found["wrong"].status == "wrong_result" and found["hangs"].status == "timeout"
    told = {(each["engine"], each["verdict"]) for each in verdict["series"] if each["metric"] == "latency_ms"}
    assert {("crashes", "failed"), ("wrong", "wrong_result"), ("hangs", "failed")} <= told


def latency(verdict: dict[str, Any]) -> dict[str, Any]:
    (told,) = [each for each in verdict["series"] if each["metric"] == "latency_ms"]
    return dict(told)


def write_bench(round_ms: float, build: int = 1) -> None:
    """An engine that is a script: it prints a round's time with some noise."""
    Path("engines.yml").write_text(
        "engines:\n  bench:\n    program: ./bench\n    arguments: [round]\n    figures:\n"
        "      latency_ms: {pattern: 'round ([0-9.]+)', unit: ms}\n"
    )
    Path("bench").write_text(f"#!/bin/sh\n# build {build}\nfor i in 1 2 3; do echo $1 {round_ms}00$(($$ % 10)); done\n")
    Path("bench").chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("build", [1, 2], ids=["mended by the same bytes", "by other bytes"])
def test_a_slower_program_is_a_regression_until_it_is_mended(farm: CallFarm, own_folder: Path, build: int) -> None:
    """A duet runs the program of the earlier night, whose file has been replaced since."""
    write_deployment(own_folder, runtime="cpu")
    Path("lab.yml").write_text(FILE + "engine: bench\njobs: [benchmark]\n")
    write_bench(4.0)
    assert night_of(farm)[0] == 0
    write_bench(8.0)
    status, verdict, err = night_of(farm)
    (row,) = stored_rows()
    assert status == 1 and latency(verdict)["verdict"] == "regression", err
    assert row.duet and (row.duet.against, row.duet.verdict) == (1, "slower") and len(row.duet.pairs) >= 16
    assert row.duet.ratio == pytest.approx(2.0, rel=0.05) and "against that of run 1" in latency(verdict)["reason"]
    write_bench(4.0, build)
    status, verdict, err = night_of(farm)
    (row,) = stored_rows()
    assert status == 0 and row.duet and row.duet.verdict == "same" and row.duet.identical == (build == 1), err
    assert len(row.duet.pairs) == (0 if build == 1 else 6)


@pytest.mark.slow
@pytest.mark.usefixtures("aging")
def test_a_slower_release_of_an_engine_is_a_regression(
    farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By 5 %, less than builds of one source differ by: it is the release that is shipped."""
    monkeypatch.setattr(AgingEngine, "slow_ms", 4.2)
    write_deployment(own_folder, runtime="cpu")
    Path("lab.yml").write_text(FILE + "engine: aging\njobs: [benchmark]\n")
    assert night_of(farm)[0] == 0
    monkeypatch.setattr(AgingEngine, "version", "1.5")
    status, verdict, err = night_of(farm)
    (row,) = stored_rows()
    assert status == 1 and latency(verdict)["verdict"] == "regression", err
    assert row.duet and row.duet.against == 1 and row.duet.claim is None
    assert {pair.before.arm + pair.tonight.arm for pair in row.duet.pairs} == {"ab"}


@pytest.mark.slow
def test_figures_of_a_program_are_series_that_the_night_watches(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    Path("lab.yml").write_text(FILE + "engine: [llama]\n")
    Path("engines.yml").write_text(
        "engines:\n  llama:\n    program: {host: ./bench}\n    figures:\n"
        "      prompt: {pattern: '([0-9.]+) t/s', unit: tokens/s, better: up}\n"
    )
    Path("bench").write_text(f"#!/bin/sh\ncat {own_folder}/speed\n")
    Path("bench").chmod(0o755)
    for night in range(6):
        Path("speed").write_text(f"{100 + night % 3} t/s {102 + night % 3} t/s\n")
        status, verdict, err = night_of(farm)
        assert status == 0, err
    Path("speed").write_text("50 t/s\n")
    status, verdict, _ = night_of(farm)
    told = {each["metric"]: each for each in verdict["series"]}
    series = told["figure:up:prompt:tokens/s"]
    assert "latency_ms" not in told and series["engine"] == "llama"
    assert series["verdict"] in ("regression", "provisional_regression"), series
    row = stored_rows()[0]
    assert [block.figures for block in row.blocks] == [{"prompt": 50.0}] * 2 and not row.blocks[0].samples
    assert row.latency_ms is None and [figure.samples for figure in row.figures] == [(50.0, 50.0)]
    pages = " ".join(path.read_text() for path in Path("reports/lab").rglob("*.html"))
    assert "50.00 tokens/s" in pages and "prompt of tiny (cpu of llama)" in pages
    status, _, err = farm("report")
    assert status in (0, 1), err
    assert farm("store", "export", "flat", "--format", "csv")[0] == 0
    with Path("flat/points.csv").open() as file:
        assert "figure:up:prompt:tokens/s" in {line["metric"] for line in csv.DictReader(file)}

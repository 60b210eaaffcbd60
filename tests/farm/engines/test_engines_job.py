"""`farm engines`: several engines in turns on this machine, with those that fail."""

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import farm as farm_package
from farm import cli
from farm.cli import view
from farm.config import deployment, inventory
from farm.jobs.engines.job import ROUNDS, TURNS, EnginesOptions, engines_job
from farm.rows.engines import EnginesRow, Standing
from farm.rows.latency import Latency
from farm.rows.status import Status
from farm.store import Store
from farm.tables.engines import engine_tables, fastest_lines
from farm.tables.table import plain
from runtime.errors import JobError
from tests.farm.conftest import CallFarm
from tests.farm.engines import played_engines
from tests.farm.jobs.compare.test_builds import InterruptedAt
from tests.farm.model.tiny_model import write_deployment

offered = played_engines.offered
QUICK = ("--device", "host", "--turns", "3", "--round", "2")


@pytest.mark.slow
def test_engines_that_are_installed_take_turns(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    status, out, err = farm("engines", "tiny.yml", *QUICK, "--json", "--store", "s.db")
    rows = [EnginesRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert status == 0, err
    assert {"farmrt", "onnxruntime"} <= {row.engine for row in rows}
    for row in rows:
        assert row.status == Status.OK and len(row.blocks_ms) == 3 and row.sqnr_db and row.sqnr_db > 60
        assert row.latency_ms and len(row.latency_ms.samples) == 6 and row.init_ms and row.first_ms
        assert row.standing and row.file_bytes["engine"] > row.file_bytes["model"] > 0 and row.peak_memory
        assert row.settings["turns"] == 3 and row.versions[row.engine]
    assert sum(bool(row.standing and row.standing.leads) for row in rows) == 1
    told, out, _ = farm("store", "info", "--store", "s.db")
    assert told == 0 and "engines" in out


@pytest.mark.slow
@pytest.mark.usefixtures("offered")
def test_those_that_fail_are_rows_out_of_the_race(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    named = ("crashes", "absent", "refuses", "wrong", "farmrt", "onnxruntime")
    words = [word for name in named for word in ("--engine", name)]
    status, out, err = farm("engines", "tiny.yml", *QUICK, *words)
    assert status == 1 and "pip install no_such_engine" in err and "exit status 134 (SIGABRT): last words" in err
    lines = [line for line in out.splitlines() if "|" in line][1:]
    assert sorted(line.split()[0] for line in lines) == sorted(named)
    assert {line.split()[0] for line in lines[:2]} == {"farmrt", "onnxruntime"}, "those in the race come first"
    assert "tiny on host: " in out and "leads, but not surely before" in out, "three turns are too few"


@pytest.mark.slow
@pytest.mark.opencl
def test_engines_that_nobody_named_and_that_lack_the_runtime_are_no_rows(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="gpu")
    status, out, _ = farm("engines", "tiny.yml", *QUICK, "--json")
    assert status == 0 and [row["engine"] for row in json.loads(out)["rows"]] == ["farmrt"]
    status, out, _ = farm("engines", "tiny.yml", *QUICK, "--json", "--engine", "onnxruntime")
    assert status == 1 and [row["status"] for row in json.loads(out)["rows"]] == ["unsupported"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "--against 1.31.0 is a version of one engine: name it once, with --engine"),
        (("--engine", "farmrt"), "farmrt==1.31.0: farmrt is of this farm; `farm compare` takes commits"),
        (("--engine", "onnxruntime==new"), "onnxruntime==new: write a version as 1.31.0"),
        (("--engine", "onxruntime"), "'onxruntime' is no engine, did you mean 'onnxruntime'?"),
    ],
)
def test_two_versions_are_of_one_engine(farm: CallFarm, own_folder: Path, words: tuple[str, ...], problem: str) -> None:
    write_deployment(own_folder, runtime="cpu")
    status, _, err = farm("engines", "tiny.yml", *QUICK, "--against", "1.31.0", *words)
    assert status == 2 and problem in err


@pytest.mark.slow
def test_a_version_that_cannot_be_fetched_is_a_row(
    farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deployment(own_folder, runtime="cpu")

    def none(packages: list[str], python: object) -> list[Path]:
        raise JobError(f"pip finds no wheels of {packages[0]}")

    monkeypatch.setattr("farm.engines.python_engine.fetch_wheels", none)
    words = (*QUICK, "--engine", "onnxruntime", "--against", "0.1")
    status, out, _ = farm("engines", "tiny.yml", *words, "--json")
    found = {row["engine"]: (row["status"], row["reason"]) for row in json.loads(out)["rows"]}
    assert status == 1 and found["onnxruntime"] == ("ok", "")
    assert found["onnxruntime==0.1"] == ("failed", "pip finds no wheels of onnxruntime==0.1")


@pytest.mark.slow
def test_the_same_from_python(own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    rows = list(farm_package.engines("tiny.yml", ["host"], engines=["farmrt"], turns=1, rounds=2))
    assert [(row.engine, row.status, len(row.blocks_ms)) for row in rows] == [("farmrt", Status.OK, 1)]
    assert sum(rows[0].settings["nodes"].values()) >= 1


@pytest.mark.slow
def test_blocks_of_short_rounds_have_many(own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    (row,) = farm_package.engines("tiny.yml", ["host"], engines=["farmrt"])
    assert row.latency_ms and len(row.blocks_ms) == TURNS and len(row.latency_ms.samples) > 10 * TURNS * ROUNDS


@pytest.mark.slow
def test_an_interrupted_race_goes_on_with_its_turns(own_folder: Path) -> None:
    source = deployment.load(write_deployment(own_folder, runtime="cpu"))
    options = EnginesOptions(("farmrt", "onnxruntime"), turns=4, rounds=2)
    rows: list[EnginesRow] = []
    with pytest.raises(KeyboardInterrupt):
        for row in engines_job(source, [inventory.HOST], options, progress=InterruptedAt("turn 3 of 4")):
            rows.append(row)
    assert [(row.engine, row.status, len(row.blocks_ms)) for row in rows] == [
        ("farmrt", Status.OK, 2),
        ("onnxruntime", Status.OK, 2),
    ]
    again = InterruptedAt("never")
    finished = list(engines_job(source, [inventory.HOST], options, progress=again))
    assert [text for text in again.told if "turn" in text] == ["tiny: turn 3 of 4", "tiny: turn 4 of 4"]
    assert [row.blocks_ms[:2] for row in finished] == [row.blocks_ms for row in rows]
    assert all(len(row.blocks_ms) == 4 and row.standing for row in finished)
    assert not list(Path("build").rglob("*.turns.jsonl")), "its rows are there"


@pytest.mark.slow
def test_other_rounds_and_a_fresh_start_measure_all_turns(own_folder: Path) -> None:
    source = deployment.load(write_deployment(own_folder, runtime="cpu"))
    options = EnginesOptions(("farmrt",), turns=2, rounds=2)
    for changed in ({"rounds": 3}, {"fresh": True}):
        with pytest.raises(KeyboardInterrupt):
            list(engines_job(source, [inventory.HOST], options, progress=InterruptedAt("turn 2 of 2")))
        again = InterruptedAt("never")
        list(engines_job(source, [inventory.HOST], dataclasses.replace(options, **changed), progress=again))
        assert [text for text in again.told if "turn" in text] == ["tiny: turn 1 of 2", "tiny: turn 2 of 2"]


@pytest.fixture
def ctrl_c_in_turn_3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user interrupts the process as soon as the third turn is told."""
    tell = view.PlainView.stage

    def stage(self: view.PlainView, unit: str, text: str) -> None:
        tell(self, unit, text)
        if "turn 3 of" in text:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(view.PlainView, "stage", stage)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background ignores it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c_in_turn_3")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_shows_and_keeps_what_was_measured(farm: CallFarm, own_folder: Path, form: tuple[str, ...]) -> None:
    write_deployment(own_folder, runtime="cpu")
    engines = ("--engine", "farmrt", "--engine", "onnxruntime", "--store", "s.db")
    status, out, err = farm("engines", "tiny.yml", "--device", "host", "--turns", "500", *engines, *form)
    assert status == cli.INTERRUPTED and "interrupted; what was measured is shown and kept, the same command" in err
    with Store.open("s.db") as store:
        kept = list(store.rows())
    rows = [EnginesRow.model_validate(row) for row in kept]
    assert sorted(row.engine for row in rows) == ["farmrt", "onnxruntime"]
    assert all(row.status == Status.OK and 2 <= len(row.blocks_ms) < 500 and row.standing for row in rows)
    if form:
        told = json.loads(out)
        assert told["rows"] == kept
        assert told["error"]["message"].startswith("interrupted;")
    else:
        assert {line.split()[0] for line in out.splitlines() if "|" in line} >= {"farmrt", "onnxruntime"}


def row_of(engine: str, standing: Standing | None, status: Status = Status.OK) -> EnginesRow:
    identity = {"unit": "u", "soc": "s", "device_model": "d", "library": "l", "model": "m", "runtime": "cpu"}
    return EnginesRow(
        **identity, engine=engine, status=status, latency_ms=Latency.of([2.0]), standing=standing, sqnr_db=90.0
    )


def test_the_fastest_is_named_with_its_interval() -> None:
    second = Standing(ratio=1.5, ratio_ci=(1.4, 1.625))
    rows = [row_of("b", second), row_of("a", Standing(leads=True, is_fastest=True)), row_of("c", None, Status.FAILED)]
    assert fastest_lines(rows) == [
        "m on u: a (cpu) is the fastest of 2: b (cpu) takes 1.50 times as long (1.40 to 1.62)"
    ]
    (table,) = engine_tables(rows)
    assert [line.split()[0] for line in plain(table).splitlines()[4:]] == ["a", "b", "c"]


def test_nodes_and_the_error_of_wrong_outputs_are_told() -> None:
    nodes = {"nodes": {"QNNExecutionProvider": 12, "CPUExecutionProvider": 3}}
    rows = [
        row_of("b", Standing(leads=True)).model_copy(update={"settings": nodes}),
        row_of("c", None, Status.WRONG_RESULT).model_copy(update={"sqnr_db": 7.6}),
    ]
    (table,) = engine_tables(rows)
    told = [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    assert [(each["Nodes"], each["Outputs"]) for each in told] == [
        ("QNN 12, CPU 3", "right, 90 dB"),
        ("-", "wrong_result, 8 dB"),
    ]


@pytest.mark.slow
def test_only_the_runtimes_that_are_asked_for_take_part(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu+gpu")
    words = (*QUICK, "--engine", "farmrt", "--engine", "onnxruntime", "--json")
    status, out, err = farm("engines", "tiny.yml", *words, "--runtime", "cpu")
    assert status == 0 and [(row["engine"], row["runtime"]) for row in json.loads(out)["rows"]] == [
        ("farmrt", "cpu"),
        ("onnxruntime", "cpu"),
    ], err
    status, _, err = farm("engines", "tiny.yml", *QUICK, "--engine", "onnxruntime", "--runtime", "gpu")
    assert status == 1 and "runs models on cpu, not on gpu" in err


def test_no_winner_where_an_interval_reaches_over_one() -> None:
    close, far = Standing(ratio=1.01, ratio_ci=(0.9, 1.1)), Standing(ratio=2.0, ratio_ci=(1.9, 2.1))
    rows = [row_of("a", Standing(leads=True)), row_of("b", close), row_of("c", far)]
    assert fastest_lines(rows) == ["m on u: a (cpu) leads, but not surely before b (cpu)"]


def test_an_unknown_engine_is_told_before_any_work(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder)
    status, _, err = farm("engines", "tiny.yml", "--engine", "tflite")
    assert status == 2 and "'tflite' is no engine" in err

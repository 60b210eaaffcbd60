"""Whole nightly runs on emulated phones: verdict, report, exit status; killed runs; phones that are away or hot."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from farm.nightly import notification
from farm.rows.nightly import NightlyRow
from farm.rows.run_info import RunInfo
from farm.store import Store
from tests.farm.emulated_units import EmulatedUnits, is_clean, wait_for_result
from tests.farm.jobs.nightly.nightly_command import nightly
from tests.farm.model.tiny_model import write_deployment
from tests.farm.nightly.web_receiver import WebReceiver

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

FILE = """
models: tiny.yml
units: [{all: yes}]
runtimes: gpu
repeats: 2
rounds: 3
rest_seconds: 0.1
most_rests: 1
most_reruns: 0
"""


@pytest.fixture(autouse=True)
def lab(tmp_path: Path) -> None:
    (tmp_path / "lab.yml").write_text(FILE)


def stored() -> tuple[RunInfo, list[NightlyRow]]:
    """The newest run, and its rows."""
    with Store.open() as store:
        run = store.runs(name="lab", limit=1)[0]
        return run, store.nightly_rows(run.id)


def test_nights_are_measured_stored_and_reported(emulated: EmulatedUnits, capsys: Any) -> None:
    phone = emulated.phone()
    for _ in range(2):
        status, verdict, err = nightly(capsys)
        assert (status, verdict["outcome"]) == (0, "nothing worse"), err
    assert set(verdict["counts"]) == {"new", "unchanged"}, "accuracy and sizes can be judged from the second night on"
    run, (row,) = stored()
    assert (run.state, run.id, row.status, row.unit) == ("finished", verdict["run"], "ok", "mi8")
    assert sorted(block.arm for block in row.blocks) == ["a", "b"]
    assert all(len(block.samples) == 3 for block in row.blocks)
    assert row.passive and row.identity and row.ops and row.cosine is not None and row.file_bytes["farmrt"] > 0
    assert set(row.hashes) == {"farmrt", "plan", "weights"}
    assert [NightlyRow.model_validate(found) for found in verdict["rows"]] == [row], "--json has the night's rows"
    assert Path(verdict["report"]).is_file()
    assert is_clean(phone)


def test_the_plan_is_shown_and_nothing_measured(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    assert nightly(capsys)[0] == 0
    status, plan, _ = nightly(capsys, "--dry-run")
    (unit,) = plan["units"]
    assert (status, unit["unit"], unit["cases"]) == (0, "mi8", ["tiny (gpu, default) on mi8"])
    assert unit["expected_s"] > 0
    with Store.open() as store:
        assert len(store.runs()) == 1


def test_a_run_that_was_killed_goes_on_where_it_was(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    Path("lab.yml").write_text(FILE.replace("repeats: 2", "repeats: 12"))
    process = emulated.start("nightly", "lab.yml")
    noted: list[tuple[str, dict[str, Any]]] = []
    end_s = time.monotonic() + 300
    while len(noted) < 4:
        assert time.monotonic() < end_s and process.poll() is None
        time.sleep(0.1)
        with Store.open() as store:
            noted = store.progress(store.runs(name="lab")[0].id) if store.runs(name="lab") else []
    process.send_signal(signal.SIGKILL)
    process.wait()
    capsys.readouterr()
    with Store.open() as store:
        (run,) = store.runs(name="lab")
        noted = [data for key, data in store.progress(run.id) if key != "plan"]
    assert run.state == "interrupted"
    wait_for_result(process)
    status, verdict, err = nightly(capsys, "--resume", "--wait", "120")
    assert (status, verdict["run"]) == (0, run.id), err
    _, (row,) = stored()
    assert len(row.blocks) == 12
    assert [block.model_dump(mode="json") for block in row.blocks[: len(noted)]] == noted, "nothing is measured twice"
    assert nightly(capsys, "--resume")[0] == 2


def test_only_what_was_interrupted_and_is_the_same_goes_on(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    status, _, err = nightly(capsys, "--resume")
    assert status == 2 and "there is no run yet" in err
    assert nightly(capsys)[0] == 0
    with Store.open() as store:
        store.end(1, "interrupted")
    Path("lab.yml").write_text(FILE.replace("rounds: 3", "rounds: 4"))
    status, _, err = nightly(capsys, "--resume")
    assert status == 2 and "has changed since run 1" in err


def test_a_phone_that_stays_away_is_told_and_the_other_measured(emulated: EmulatedUnits, capsys: Any) -> None:
    phones = [emulated.phone("first"), emulated.phone("second")]
    assert nightly(capsys)[0] == 0
    phones[0].inject("disconnect:away=600")
    status, verdict, _ = nightly(capsys)
    told = {(each["unit"], each["verdict"]) for each in verdict["series"]}
    assert (
        status == 1
        and ("first", "failed") in told
        and not [unit for unit, _ in told if unit == "second" and _ == "failed"]
    )
    _, rows = stored()
    assert {row.unit: row.status for row in rows} == {"first": "device_lost", "second": "ok"}


def test_a_hot_phone_is_left_out_and_no_alarm(emulated: EmulatedUnits, capsys: Any) -> None:
    phone = emulated.phone()
    phone.inject("throttle:status=4,at=shell,on=farmrt.*serve")
    status, verdict, err = nightly(capsys)
    assert status == 0, err
    assert {each["verdict"] for each in verdict["series"] if each["metric"] == "latency_ms"} == {"spoiled"}
    _, (row,) = stored()
    assert all("thermal status" in block.throttled for block in row.blocks)


def test_a_wrong_result_is_no_good_night(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    write_deployment(emulated.folder, data_type="fp16_fp32", validation_threshold="{GPU: 1.0}")
    status, verdict, _ = nightly(capsys)
    assert (status, verdict["outcome"]) == (1, "worse")
    assert [each["verdict"] for each in verdict["series"] if each["metric"] == "latency_ms"] == ["wrong_result"]


def test_no_unit_and_a_model_that_is_missing(emulated: EmulatedUnits, capsys: Any) -> None:
    Path("lab.yml").write_text(FILE.replace("{all: yes}", "{soc: sm8550}"))
    emulated.phone()
    status, _, err = nightly(capsys)
    assert status == 3 and "sm8550" in err
    Path("lab.yml").write_text(FILE.replace("tiny.yml", "nothing.yml"))
    status, _, err = nightly(capsys)
    assert status == 2 and "nothing.yml" in err


def test_a_command_gets_the_verdict_on_its_standard_input(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    script = "import sys; open('told.json', 'w').write(sys.stdin.read())"
    command = json.dumps([sys.executable, "-c", script])
    Path("lab.yml").write_text(f"{FILE}notify_command: {command}\n")
    status, document, _ = nightly(capsys)
    verdict = json.loads(Path("told.json").read_text())
    assert status == 0 and verdict["series"] and verdict.items() <= document.items()
    Path("lab.yml").write_text(f"{FILE}notify_command: [/nowhere/notify]\n")
    status, _, err = nightly(capsys)
    assert status == 1 and "notify_command /nowhere/notify" in err


def test_a_web_address_gets_the_signed_verdict_and_cannot_break_the_night(
    emulated: EmulatedUnits, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated.phone()
    monkeypatch.setattr("farm.nightly.notification.PAUSES_S", ())
    Path("key").write_text("secret\n")
    with WebReceiver() as receiver:
        Path("lab.yml").write_text(f"{FILE}webhook: {receiver.url}\nwebhook_secret_file: key\n")
        status, document, _ = nightly(capsys)
    ((headers, body),) = receiver.got
    verdict = json.loads(body)
    assert status == 0 and verdict["schema_version"] == 1 and verdict.items() <= document.items()
    assert headers["X-Farm-Signature"] == notification.signature(body, b"secret")
    Path("key").unlink()
    status, _, err = nightly(capsys)
    assert status == 0 and "webhook_secret_file key: cannot be read" in err


def test_what_the_budget_does_not_reach_is_a_row_that_says_so(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    Path("lab.yml").write_text(f"{FILE}budget_minutes: 0.00001\n")
    status, verdict, _ = nightly(capsys)
    assert status == 1 and "budget_minutes" in verdict["series"][0]["reason"]
    _, (row,) = stored()
    assert row.status == "timeout"

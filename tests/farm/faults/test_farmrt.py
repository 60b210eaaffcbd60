"""Whole jobs with a farmrt that misbehaves, a storage that is full, files that are altered, a broken driver."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from farm.emulation import EmulatedPhone
from farm.jobs.fleet import unit as unit_jobs
from farm.store import Store
from tests.farm.emulated_units import Bench, Done, at_command, is_clean, running_on

pytestmark = [pytest.mark.slow, pytest.mark.opencl]
SERVE = "at=shell,on=farmrt.*serve"


@pytest.fixture
def phone(bench: Bench) -> EmulatedPhone:
    return bench.phone()


def works_again(bench: Bench, phone: EmulatedPhone) -> None:
    """The fault left nothing behind that the next job would feel."""
    phone.clear_faults()
    again = bench.run("--wait", "0")
    assert (again.status, again.row["status"]) == (0, "ok"), again
    assert is_clean(phone)


def told(done: Done, status: str, *words: str) -> None:
    """It is one row with that status, whose reason has these words and can be printed."""
    assert (done.status, done.row["status"]) == (1, status), done
    assert all(word in done.row["reason"] for word in words), done.row["reason"]
    assert len(done.row["reason"]) < 5000
    assert f"tiny on mi8 (gpu): {status}: " in done.err and is_printable(done.err)


def is_printable(text: str) -> bool:
    return all(line.isprintable() for line in text.splitlines())


def test_farmrt_that_dies_at_once(bench: Bench, phone: EmulatedPhone) -> None:
    phone.inject(f"exit:{SERVE},status=139")
    begun_s = time.monotonic()
    told(bench.run(), "failed", "mi8", "139")
    assert time.monotonic() - begun_s < 90, "who never began is not waited for"
    works_again(bench, phone)


def test_farmrt_that_hangs(bench: Bench, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_jobs, "PROBE_DEADLINE_S", 1.5)
    phone.inject(f"hang:{SERVE}")
    told(bench.run(), "timeout", "probe", "did not answer within 1.5 s")
    monkeypatch.undo()
    monkeypatch.chdir(bench.folder)
    works_again(bench, phone)


def test_farmrt_that_dies_in_a_job_costs_its_row_only(
    bench: Bench, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.folder / "tiny.yml").write_text((bench.folder / "tiny.yml").read_text().replace("gpu", "cpu+gpu"))
    at_command(monkeypatch, "run", lambda: [each.kill() for each in running_on(phone)])
    done = bench.run()
    assert done.status == 1 and len(done.rows) == 2
    assert sorted(row["status"] for row in done.rows) == ["device_lost", "ok"], done
    assert "137 (SIGKILL)" in done.err
    works_again_with(bench, phone, rows=2)


def works_again_with(bench: Bench, phone: EmulatedPhone, rows: int) -> None:
    phone.clear_faults()
    again = bench.run()
    assert again.status == 0 and len(again.rows) == rows, again
    assert is_clean(phone)


@pytest.mark.parametrize("fault", ["garbage", "garbage:bytes=1500", "garbage:size=6000000"])
def test_garbage_from_farmrt_is_a_row(
    bench: Bench, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    for name in ("PROBE_DEADLINE_S", "LOAD_DEADLINE_S"):  # of an answer that the garbage swallows
        monkeypatch.setattr(unit_jobs, name, 5.0)
    phone.inject(f"{fault}{',' if ':' in fault else ':'}{SERVE}")
    done = bench.run()
    if done.status:
        assert done.row["status"] in ("failed", "device_lost", "timeout") and "mi8" in done.err, done
    assert is_printable(done.err) and len(done.err) < 6000
    works_again(bench, phone)


@pytest.mark.parametrize("where", ["", ",bytes=1500"])
def test_a_flood_from_farmrt_is_passed_over_or_cut_off(bench: Bench, phone: EmulatedPhone, where: str) -> None:
    phone.inject(f"flood:{SERVE}{where}")
    begun_s = time.monotonic()
    done = bench.run()
    assert time.monotonic() - begun_s < 180
    if done.status:
        told(done, "failed", "mi8", "print")
    works_again(bench, phone)


def test_a_full_storage_while_files_are_sent(bench: Bench, phone: EmulatedPhone) -> None:
    phone.inject("storage:free=20K,at=push")
    told(bench.run(), "failed", "mi8")
    works_again(bench, phone)


def test_kernels_that_cannot_be_written(bench: Bench, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    at_command(monkeypatch, "save_kernels", lambda: (phone.root / "data/local/tmp/farm/kernels.bin").mkdir())
    told(bench.tune(), "failed", "save_kernels")
    assert not list(Path("build/tinylib/opencl").rglob("*.bin")), "no artifact without its kernels"
    (phone.root / "data/local/tmp/farm/kernels.bin").rmdir()
    again = bench.tune()
    assert (again.status, again.row["status"]) == (0, "ok"), again
    works_again(bench, phone)


@pytest.mark.parametrize("fault", ["alter:at=pull,bytes=7", "truncate:at=pull,bytes=7"])
def test_outputs_that_are_altered_on_their_way_are_no_result(bench: Bench, phone: EmulatedPhone, fault: str) -> None:
    phone.inject(fault)
    done = bench.run("--output-dir", "kept")
    told(done, "failed", "arrived with another content")
    assert not list(Path("kept").rglob("*")), "nothing that is wrong is kept"
    works_again(bench, phone)


@pytest.mark.parametrize("fault", ["alter:at=pull,on=kernels,bytes=70", "truncate:at=pull,on=kernels,bytes=70"])
def test_kernels_that_are_altered_on_their_way_are_not_published(
    bench: Bench, phone: EmulatedPhone, fault: str
) -> None:
    phone.inject(fault)
    told(bench.tune(), "failed", "arrived with another content")
    assert not list(Path("build/tinylib/opencl").rglob("*.bin"))
    works_again(bench, phone)


def test_a_driver_that_is_broken(bench: Bench, phone: EmulatedPhone) -> None:
    broken = phone.root / "data/local/tmp/libOpenCL.so"
    broken.write_bytes(b"\x7fELF no library")
    told(bench.run("--opencl", str(broken)), "unsupported", "mi8", "libOpenCL.so")
    works_again(bench, phone)


HOSTILE = r"\x1b[31mred\x1b]0;title\x07\nsecond line"


def test_what_a_phone_says_of_itself_is_data(bench: Bench, phone: EmulatedPhone) -> None:
    for name in ("ro.product.model", "ro.build.version.release", "ro.product.manufacturer", "ro.hardware"):
        phone.inject(f"property:name={name},value={HOSTILE}")
        phone.inject(f"property:name={name}.extra,value=x,length=1M")
    done = bench.run()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert is_printable(done.err)
    table = bench.text("run", "tiny.yml", "--all", "--round", "2")
    assert is_printable(table) and "tiny" in table
    with Store.open() as store:
        assert "\\u001b" not in json.dumps(list(store.rows()))


def test_a_clock_that_jumps_on_the_phone_changes_nothing(
    bench: Bench, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_command(monkeypatch, "load", lambda: phone.inject("clock:jump=-9h"))
    at_command(monkeypatch, "run", lambda: phone.inject("clock:jump=1000h"))
    done = bench.run()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    works_again(bench, phone)


def test_a_clock_that_jumps_here_changes_nothing(
    bench: Bench, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    at_command(monkeypatch, "trial", lambda: monkeypatch.setattr(time, "time", lambda: real() - 86_400), skip=5)
    done = bench.tune()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    works_again(bench, phone)

"""Whole jobs with a farmrt that misbehaves, a storage that is full, files that are altered, a broken driver."""

import dataclasses
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from farm import cli
from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone
from farm.jobs.fleet import unit as unit_jobs
from farm.jobs.fleet.opening import open_unit
from farm.soc import UNKNOWN
from farm.store import Store
from runtime.errors import DeviceError
from tests.farm.disks import disk_at, fill
from tests.farm.emulated_units import (
    CommandResult,
    EmulatedUnits,
    do_before_command,
    farmrt_processes,
    host_farmrt_processes,
    is_clean,
)
from tests.farm.emulation.test_phone import shell

pytestmark = [pytest.mark.slow, pytest.mark.opencl]
SERVE = "at=shell,on=farmrt.*serve"


@pytest.fixture
def phone(emulated: EmulatedUnits) -> EmulatedPhone:
    return emulated.phone()


def works_again(emulated: EmulatedUnits, phone: EmulatedPhone) -> None:
    """The fault left nothing behind that the next job would feel."""
    phone.clear_faults()
    again = emulated.run("--wait", "0")
    assert (again.status, again.row["status"]) == (0, "ok"), again
    assert is_clean(phone)


def told(done: CommandResult, status: str, *words: str) -> None:
    """It is one row with that status, whose reason has these words and can be printed."""
    assert (done.status, done.row["status"]) == (1, status), done
    assert all(word in done.row["reason"] for word in words), done.row["reason"]
    assert len(done.row["reason"]) < 5000
    assert f"tiny on mi8 (gpu): {status}: " in done.err and is_printable(done.err)


def left_on(phone: EmulatedPhone) -> list[str]:
    """The files of the phone's folder that are neither in the store nor farm's own notes."""
    return [path.name for path in (phone.root / "data/local/tmp/farm").glob("[!.]*") if path.name != "objects"]


def is_printable(text: str) -> bool:
    return all(line.isprintable() for line in text.splitlines())


def test_farmrt_that_dies_at_once(emulated: EmulatedUnits, phone: EmulatedPhone) -> None:
    phone.inject(f"exit:{SERVE},status=139")
    begun_s = time.monotonic()
    told(emulated.run(), "failed", "mi8", "139")
    assert time.monotonic() - begun_s < 90, "who never began is not waited for"
    works_again(emulated, phone)


def test_farmrt_that_hangs(emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit_jobs.START_DEADLINE_S < 30
    monkeypatch.setattr(unit_jobs, "START_DEADLINE_S", 1.5)
    phone.inject(f"hang:{SERVE}")
    told(emulated.run(), "timeout", "memory", "did not answer within 1.5 s")
    monkeypatch.undo()
    monkeypatch.chdir(emulated.folder)
    works_again(emulated, phone)


def test_farmrt_that_dies_in_a_job_costs_its_row_only(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    (emulated.folder / "tiny.yml").write_text((emulated.folder / "tiny.yml").read_text().replace("gpu", "cpu+gpu"))
    do_before_command(monkeypatch, "run", lambda: [each.kill() for each in farmrt_processes(phone)])
    done = emulated.run("--retries", "0")
    assert done.status == 1 and len(done.rows) == 2
    assert sorted(row["status"] for row in done.rows) == ["killed", "ok"], done
    assert "farmrt: ended with exit status 137 (SIGKILL), killed by the system" in done.err
    assert "MB of memory were free before" in done.err and "sh:" not in done.err
    works_again_with(emulated, phone, rows=2)


@pytest.mark.parametrize(("by", "words"), [("phantom", "phantom-process killer"), ("memory", "want of memory (lmkd)")])
def test_who_killed_farmrt_stands_in_the_reason(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch, by: str, words: str
) -> None:
    def kill() -> None:
        phone.inject(f"exit:on=victim,times=1,status=137,by={by}")
        assert shell(phone, "sleep 10; echo victim").exit_status == 137
        for each in farmrt_processes(phone):
            each.kill()

    do_before_command(monkeypatch, "run", kill)
    told(emulated.run("--retries", "0"), "killed", words)


def test_a_phone_that_dozes_is_named(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doze() -> None:
        phone.inject("doze")
        for each in farmrt_processes(phone):
            each.suspend()

    monkeypatch.setattr(unit_jobs, "COMPILE_S", 0.5)
    do_before_command(monkeypatch, "run", doze)
    told(emulated.run("--retries", "0", "--round-limit", "1"), "timeout", "the phone dozes")


def test_a_phone_that_went_with_its_screen_off_is_named(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_before_command(monkeypatch, "probe", lambda: phone.inject("asleep"))
    do_before_command(monkeypatch, "load", lambda: phone.inject("offline"))
    told(emulated.run("--retries", "0"), "device_lost", "its screen was off before")


def test_farmrt_that_is_killed_is_tried_again(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[object] = []
    do_before_command(monkeypatch, "run", lambda: killed.extend(each.kill() for each in farmrt_processes(phone)))
    done = emulated.run("--retries", "1")
    assert killed and (done.status, done.row["status"]) == (0, "ok"), done


@pytest.mark.parametrize(("retries", "status"), [("0", "killed"), ("1", "ok")])
def test_farmrt_that_is_killed_on_this_machine(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch, retries: str, status: str
) -> None:
    (emulated.folder / "devices.yml").unlink()
    do_before_command(monkeypatch, "run", lambda: [each.kill() for each in host_farmrt_processes(emulated)])
    done = emulated.farm("run", "tiny.yml", "--device", "host", "--round", "3", "--retries", retries)
    assert done.row["status"] == status, done


@pytest.mark.parametrize(("retries", "status"), [("0", "killed"), ("1", "ok")])
def test_a_benchmark_whose_farmrt_is_killed_is_done_again(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch, retries: str, status: str
) -> None:
    """That one alone; the others have their rows once."""
    (emulated.folder / "devices.yml").unlink()
    do_before_command(monkeypatch, "trial", lambda: [each.kill() for each in host_farmrt_processes(emulated)], skip=3)
    done = emulated.farm(
        *("opbench", "--filter", "^softmax.*/buffer/fp32/", "--min-time", "0.01", "--device", "host"),
        *("--retries", retries),
    )
    names = [row["model"] for row in done.rows]
    assert len(names) == len(set(names)) > 0
    assert sorted({row["status"] for row in done.rows} - {"ok"}) == [word for word in [status] if word != "ok"], done


@pytest.mark.parametrize(("retries", "status"), [("0", "killed"), ("1", "ok")])
def test_a_block_of_a_night_whose_farmrt_is_killed_is_measured_again(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch, retries: str, status: str
) -> None:
    (emulated.folder / "devices.yml").unlink()
    night = "models: tiny.yml\nunits: [{all: yes}]\nruntimes: gpu\nrepeats: 2\nrounds: 3\nmost_reruns: 0\n"
    (emulated.folder / "lab.yml").write_text(night)
    do_before_command(monkeypatch, "run", lambda: [each.kill() for each in host_farmrt_processes(emulated)], skip=5)
    cli.call(["nightly", "lab.yml", "--retries", retries])
    with Store.open() as store:
        (row,) = store.nightly_rows(store.runs(name="lab", limit=1)[0].id)
    assert (row.status, len(row.blocks) == 2) == (status, status == "ok"), row.reason


def works_again_with(emulated: EmulatedUnits, phone: EmulatedPhone, rows: int) -> None:
    phone.clear_faults()
    again = emulated.run()
    assert again.status == 0 and len(again.rows) == rows, again
    assert is_clean(phone)


@pytest.mark.parametrize("fault", ["garbage", "garbage:bytes=1500", "garbage:size=6000000"])
def test_garbage_from_farmrt_is_a_row(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    for name in ("START_DEADLINE_S", "PROBE_DEADLINE_S", "LOAD_DEADLINE_S"):  # of an answer that the garbage swallows
        monkeypatch.setattr(unit_jobs, name, 5.0)
    phone.inject(f"{fault}{',' if ':' in fault else ':'}{SERVE}")
    done = emulated.run()
    if done.status:
        assert done.row["status"] in ("failed", "device_lost", "timeout") and "mi8" in done.err, done
    assert is_printable(done.err) and len(done.err) < 6000
    works_again(emulated, phone)


@pytest.mark.parametrize("where", ["", ",bytes=1500"])
def test_a_flood_from_farmrt_is_passed_over_or_cut_off(
    emulated: EmulatedUnits, phone: EmulatedPhone, where: str
) -> None:
    phone.inject(f"flood:{SERVE}{where}")
    begun_s = time.monotonic()
    done = emulated.run()
    assert time.monotonic() - begun_s < 180
    if done.status:
        told(done, "failed", "mi8", "print")
    works_again(emulated, phone)


def test_a_full_storage_while_files_are_sent(emulated: EmulatedUnits, phone: EmulatedPhone) -> None:
    phone.inject("storage:free=20K,at=push")
    told(emulated.run(), "no_room", "mi8")
    works_again(emulated, phone)


@pytest.mark.parametrize("command", ["load", "trial", "save_kernels"])
@pytest.mark.parametrize("by_farm", [False, True])
def test_a_storage_that_is_filled_while_tuning(
    emulated: EmulatedUnits, phone: EmulatedPhone, command: str, by_farm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with disk_at(phone.root / "data/local/tmp/farm", 30) as folder:
        filler = folder / "objects" / hashlib.sha256().hexdigest() / "data" if by_farm else folder / "film"

        def fill_up() -> None:
            fill(filler)
            os.utime(filler, (1, 1))  # longest unused

        do_before_command(monkeypatch, command, fill_up)
        done = emulated.tune()
        if by_farm:
            assert (done.status, done.row["status"], filler.exists()) == (0, "ok", False), done
        else:
            told(done, "no_room", "No space left on device; make room there")
            assert filler.exists(), "what others have there is theirs"


def test_kernels_that_cannot_be_written(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = [phone.root / "data/local/tmp/farm" / name for name in ("kernels0.bin", "kernels.bin")]
    do_before_command(monkeypatch, "save_kernels", lambda: [folder.mkdir() for folder in in_the_way])
    told(emulated.tune(), "failed", "save_kernels")
    assert not list(Path("build/tinylib/opencl").rglob("*.bin")), "no artifact without its kernels"
    for folder in in_the_way:
        folder.rmdir()
    again = emulated.tune()
    assert (again.status, again.row["status"]) == (0, "ok"), again
    works_again(emulated, phone)
    assert not left_on(phone)


@pytest.mark.parametrize("fault", ["alter:at=pull,bytes=7", "truncate:at=pull,bytes=7"])
def test_outputs_that_are_altered_on_their_way_are_no_result(
    emulated: EmulatedUnits, phone: EmulatedPhone, fault: str
) -> None:
    phone.inject(fault)
    done = emulated.run("--output-dir", "kept")
    told(done, "failed", "arrived with another content")
    assert not list(Path("kept").rglob("*")), "nothing that is wrong is kept"
    assert not left_on(phone)
    works_again(emulated, phone)


@pytest.mark.parametrize("fault", ["alter:at=pull,on=kernels,bytes=70", "truncate:at=pull,on=kernels,bytes=70"])
def test_kernels_that_are_altered_on_their_way_are_not_published(
    emulated: EmulatedUnits, phone: EmulatedPhone, fault: str
) -> None:
    phone.inject(fault)
    told(emulated.tune(), "failed", "arrived with another content")
    assert not list(Path("build/tinylib/opencl").rglob("*.bin"))
    works_again(emulated, phone)


def test_a_driver_that_is_broken(emulated: EmulatedUnits, phone: EmulatedPhone) -> None:
    broken = phone.root / "data/local/tmp/libOpenCL.so"
    broken.write_bytes(b"\x7fELF no library")
    told(emulated.run("--opencl", str(broken)), "unsupported", "mi8", "libOpenCL.so")
    works_again(emulated, phone)


def test_a_phone_that_was_away_when_it_was_chosen_says_what_it_is(
    emulated: EmulatedUnits, phone: EmulatedPhone
) -> None:
    """What runs nothing known there is its own failure, and ends no other unit's jobs."""
    address = AdbAddress(port=emulated.server)
    unit = Unit("away", "adb", UNKNOWN, "away", (), serial=f"127.0.0.1:{phone.port}", adb_server=address)
    with open_unit(unit) as opened:
        assert (opened.unit.abis, opened.unit.soc) == (("host",), "sdm845")
    phone.inject("property:name=ro.product.cpu.abilist,value=riscv64")
    with pytest.raises(DeviceError, match=r"^other: it runs no ABI that farm knows; target_abis in devices\.yml"):
        open_unit(dataclasses.replace(unit, name="other")).__enter__()


HOSTILE = r"\x1b[31mred\x1b]0;title\x07\nsecond line"


def test_what_a_phone_says_of_itself_is_data(emulated: EmulatedUnits, phone: EmulatedPhone) -> None:
    for name in ("ro.product.model", "ro.build.version.release", "ro.product.manufacturer", "ro.hardware"):
        phone.inject(f"property:name={name},value={HOSTILE}")
        phone.inject(f"property:name={name}.extra,value=x,length=1M")
    done = emulated.run()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert is_printable(done.err)
    table = emulated.text("run", "tiny.yml", "--all", "--round", "2")
    assert is_printable(table) and "tiny" in table
    with Store.open() as store:
        assert "\\u001b" not in json.dumps(list(store.rows()))


def test_a_clock_that_jumps_on_the_phone_changes_nothing(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_before_command(monkeypatch, "load", lambda: phone.inject("clock:jump=-9h"))
    do_before_command(monkeypatch, "run", lambda: phone.inject("clock:jump=1000h"))
    done = emulated.run()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    works_again(emulated, phone)


@pytest.mark.parametrize(
    "fault",
    [
        "denied",
        "lacks:programs=timeout,pgrep,pidof,stat,df,find,sha256sum,logcat,settaskprofile,getconf,nproc",
        r"banner:text=Welcome\r",
    ],
)
def test_what_a_phone_refuses_lacks_or_prints_ends_no_job(
    emulated: EmulatedUnits, phone: EmulatedPhone, fault: str
) -> None:
    phone.inject(fault)
    done = emulated.run()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert is_clean(phone) and "Welcome" not in done.err


def test_a_folder_in_which_nothing_may_be_executed_is_named(emulated: EmulatedUnits, phone: EmulatedPhone) -> None:
    """Though the files there are right, and their modes too."""
    phone.inject("noexec")
    told(
        emulated.run(), "failed", "/farmrt: nothing in /data/local/tmp/farm may be executed", "`folder` in devices.yml"
    )
    works_again(emulated, phone)


def test_a_clock_that_jumps_here_changes_nothing(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    do_before_command(monkeypatch, "trial", lambda: monkeypatch.setattr(time, "time", lambda: real() - 86_400), skip=5)
    done = emulated.tune()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    works_again(emulated, phone)


def test_a_damaged_file_is_named_as_it_is_called_here(emulated: EmulatedUnits) -> None:
    (emulated.folder / "devices.yml").unlink()
    Path("broken.bin").write_bytes(b"[1, 2]")
    done = emulated.farm("run", "tiny.yml", "--device", "host", "--round", "1", "--tuned", "broken.bin")
    assert (done.status, done.row["status"]) == (1, "failed"), done
    assert done.row["reason"] == "load: broken.bin: truncated: 6 bytes are no FARMTUNE file"

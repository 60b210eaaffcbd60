"""Controllers that want one phone, that are killed at any moment; and many phones of which some fail."""

import contextlib
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from farm.emulation import EmulatedPhone
from farm.lease.lease import holder as lease_holder
from farm.transport import adb
from farm.transport.local import LocalTransport
from tests.farm.emulated_units import EmulatedUnits, farmrt_processes, is_clean, wait_for_result

pytestmark = [pytest.mark.slow, pytest.mark.opencl]
RUN = ("run", "tiny.yml", "--all")
TUNE = ("tune", "tiny.yml", "--all", "--budget", "60")
KNOWN = re.compile(r"mi8: (\d+) trials are known from before")
JOURNAL = Path("build/tuning/sdm845.jsonl")
INTERRUPTED_S = 120.0  # of a busy machine; 2 s are the aim


@contextlib.contextmanager
def busy(emulated: EmulatedUnits, phone: EmulatedPhone, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A controller in a process of its own, from the moment that its farmrt runs; killed at the end."""
    with killed(emulated, lambda: bool(farmrt_processes(phone)), *arguments) as process:
        yield process


@contextlib.contextmanager
def killed(emulated: EmulatedUnits, moment: Callable[[], bool], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A controller in a process of its own, from some moment; killed at the end."""
    process = emulated.start(*arguments)
    try:
        until(moment)
        yield process
    finally:
        process.kill()
        process.communicate()


def until(there: Callable[[], bool]) -> None:
    """Waits for something."""
    end_s = time.monotonic() + 300
    while not there():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_of_two_controllers_one_waits_and_both_do_their_jobs(emulated: EmulatedUnits) -> None:
    phone = emulated.phone()
    with busy(emulated, phone, *RUN, "--round", "2000") as first:
        first.send_signal(signal.SIGSTOP)  # so that it is not done before the other one asks
        threading.Timer(1.0, first.send_signal, (signal.SIGCONT,)).start()
        second = emulated.run("--wait", "300")
        done = wait_for_result(first)
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert (second.status, second.row["status"]) == (0, "ok"), second
    assert second.row["time"] >= done.row["time"], "one after the other"
    assert is_clean(phone)


def test_who_does_not_wait_is_told_who_holds_the_phone(emulated: EmulatedUnits) -> None:
    phone = emulated.phone()
    with busy(emulated, phone, *RUN, "--round", "2000") as first:
        first.send_signal(signal.SIGSTOP)
        second = emulated.run("--wait", "0")
        first.send_signal(signal.SIGCONT)
        done = wait_for_result(first)
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert (second.status, second.row["status"]) == (1, "failed"), second
    for words in ("mi8: held by", f"pid {first.pid}", "--wait", "farm devices release mi8 --force"):
        assert words in second.row["reason"]


def lease(phone: EmulatedPhone) -> bool:
    return (phone.root / "data/local/tmp/farm/.lease").is_dir()


MOMENTS: dict[str, Callable[[EmulatedPhone], bool]] = {
    "at the lease": lease,
    "when farmrt runs": lambda phone: bool(farmrt_processes(phone)),
    "when the model is there": lambda phone: len(list((phone.root / "data/local/tmp/farm/objects").glob("*/data"))) > 1,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_is_killed_blocks_nobody(emulated: EmulatedUnits, moment: str) -> None:
    phone = emulated.phone()
    with killed(emulated, lambda: MOMENTS[moment](phone), *RUN, "--round", "100000"):
        pass
    again = emulated.run("--wait", "0")
    assert (again.status, again.row["status"]) == (0, "ok"), again
    assert is_clean(phone)


@pytest.mark.parametrize("arguments", [(*RUN, "--round", "100000"), TUNE], ids=["run", "tune"])
def test_a_job_that_is_interrupted_leaves_its_phone_free(emulated: EmulatedUnits, arguments: Sequence[str]) -> None:
    phone = emulated.phone()
    with busy(emulated, phone, *arguments) as process:
        begun_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=INTERRUPTED_S)
    assert process.returncode == 130 and "interrupted" in err, (time.monotonic() - begun_s, err)
    assert is_clean(phone)
    assert lease_holder(LocalTransport(phone.root / "data/local/tmp/farm")) is None, "free for other hosts, too"


def trials_of(lines: Sequence[str]) -> set[tuple[object, ...]]:
    """The trials that a journal's lines tell of: a re-test that went well is none of its own."""
    records = [json.loads(line) for line in lines if '"kernel"' in line]
    found = (each for each in records if not (each.get("retest") and each["status"] == "ok"))
    return {(each["kernel"], each["key"], each["variant"], *each["local"]) for each in found}


@pytest.mark.parametrize("trials", [1, 8])
def test_a_search_that_is_killed_goes_on_from_its_journal(emulated: EmulatedUnits, trials: int) -> None:
    phone = emulated.phone()
    with killed(emulated, lambda: JOURNAL.is_file() and JOURNAL.read_bytes().count(b"\n") > trials, *TUNE):
        pass
    kept = JOURNAL.read_text().splitlines()
    done = emulated.tune("--wait", "0")
    assert (done.status, done.row["status"], done.row["tuned"]["match"]) == (0, "ok", "exact"), done
    assert any(int(count) >= len(trials_of(kept)) for count in KNOWN.findall(done.err)), done.err
    lines = JOURNAL.read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert not trials_of(kept) & trials_of(lines[len(kept) :]), "measured again"
    assert is_clean(phone)


def test_a_tuning_that_is_killed_in_its_proof_is_repeated(emulated: EmulatedUnits) -> None:
    phone = emulated.phone()
    process = emulated.start("tune", "tiny.yml", "--all", "--budget", "5")
    assert process.stderr
    for line in process.stderr:
        if "default against tuned" in line:
            break
    process.kill()
    process.communicate()
    done = emulated.tune("--wait", "0")
    assert (done.status, done.row["status"], done.row["tuned"]["match"]) == (0, "ok", "exact"), done
    ran = emulated.farm("run", "tiny.yml", "--soc", "sdm845", "--round", "1")
    assert {row["kernels"]["match"] for row in ran.rows if row["kernels"]} == {"exact"}, ran
    folder = Path(done.row["artifacts"][0]).parent
    assert len([path for path in folder.iterdir() if path.suffix == ".bin"]) == 2
    assert is_clean(phone)


def test_twenty_phones_of_which_five_fail(emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in another way; tests/farm/jobs/fleet has fifty units, which cost less than phones do."""
    monkeypatch.setattr(adb, "ANSWER_S", 60.0)  # so many of them share this machine
    faults = ["offline", "unauthorized", "exit:at=shell,on=farmrt", "disconnect:at=push,away=300", "storage:at=push"]
    phones = {f"p{number:02}": emulated.phone(f"p{number:02}") for number in range(20)}
    failing = list(phones)[::4]
    for name, fault in zip(failing, faults, strict=True):
        phones[name].inject(fault)
    (emulated.folder / "tiny.yml").write_text((emulated.folder / "tiny.yml").read_text().replace("gpu", "cpu"))
    done = emulated.farm("run", "tiny.yml", "--all", "--round", "1", "--warmup", "0", "--retries", "0")
    assert done.status == 1 and len(done.rows) == 20
    bad = {row["unit"]: row for row in done.rows if row["status"] != "ok"}
    assert sorted(bad) == sorted(failing), done.err
    for name, row in bad.items():
        assert name in row["reason"] and row["status"] in ("failed", "device_lost", "no_room"), row
        assert f"tiny on {name} (cpu): {row['status']}: " in done.err

"""Tuners that follow each other in a shared folder: trials and deadly candidates cross, and no line is lost."""

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.kernels.spec import variant
from runtime.lowering.trials import TrialLaunch
from tests.tuner.simulated_device import LAUNCHES, TARGET, SimulatedDevice
from tuner import shared_journal, space
from tuner.device_pool import pool_of_one
from tuner.journal import HEADER_LINE, Journal, read_records, unite
from tuner.search import LEVELS, SearchResult, search
from tuner.shared_journal import SharedJournal
from tuner.trial import Candidate, Trial, TrialStatus
from tuner.trial_runner import TrialRunner

FEW = LAUNCHES[4:6]
ONE, TWO = (Candidate(variant(BLOCK=4), (size, 4, 1)) for size in (8, 16))
OK = Trial(TrialStatus.OK, (100.0, 110.0), 0.2, 0.1)
DEADLY = Trial(TrialStatus.CRASH, reason="took the runtime down")
TRIAL_S = 0.001  # what a trial takes here


def shared(folder: Path) -> SharedJournal:
    """Looks at all files each time."""
    made = SharedJournal(folder, "sim", HEADER_LINE)
    made.poll_s = 0.0
    return made


def opened(tmp_path: Path, name: str, fresh: bool = False) -> Journal:
    return Journal(tmp_path / f"{name}.jsonl", "f", {"by": name}, fresh, shared(tmp_path / "shared"))


def test_a_trial_is_known_to_others_at_once_and_in_every_journal_at_the_end(tmp_path: Path) -> None:
    with opened(tmp_path, "a") as a, opened(tmp_path, "b") as b:
        a.add("conv", "key", ONE, OK)
        assert b.find("conv", "key", ONE) == OK
        b.add("conv", "key", TWO, DEADLY)
        assert a.is_fatal("conv", TWO) and a.find("conv", "key", TWO) == DEADLY
        assert (a.has_company, b.has_company) == (True, True)
    with opened(tmp_path, "late") as late:
        assert (late.resumed, late.has_company) == (2, False)
    for name in ("a", "b", "late"):
        assert [(record["by"], record["local"]) for record in read_records(tmp_path / f"{name}.jsonl")] == [
            ("a", [8, 4, 1]),
            ("b", [16, 4, 1]),
        ]


def test_ones_own_trial_stays_and_a_fresh_search_takes_over_what_kills_alone(tmp_path: Path) -> None:
    slower = Trial(TrialStatus.OK, (900.0,), 0.1)
    with opened(tmp_path, "a") as a, opened(tmp_path, "b", fresh=True) as b:
        b.add("conv", "key", ONE, OK)
        a.add("conv", "key", ONE, slower)
        a.add("conv", "other", ONE, slower)
        a.add("conv", "key", TWO, DEADLY)
        assert b.find("conv", "key", ONE) == OK and b.find("conv", "other", ONE) is None
        assert b.is_fatal("conv", TWO)


def test_a_line_is_read_when_it_is_complete_and_one_that_never_will_be_is_passed_over(tmp_path: Path) -> None:
    with opened(tmp_path, "a") as a:
        a.add("conv", "key", ONE, OK)
    (segment,) = (tmp_path / "shared").iterdir()
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    with opened(tmp_path, "b") as b:
        assert b.find("conv", "key", ONE) is None
        segment.write_bytes(whole)
        assert b.find("conv", "key", ONE) == OK
    segment.write_bytes(whole + whole.splitlines()[1][:30])
    with opened(tmp_path, "c") as c:
        c.add("conv", "key", TWO, OK)
    with opened(tmp_path, "d") as d:
        assert [d.find("conv", "key", each) for each in (ONE, TWO)] == [OK, OK]


def test_a_folder_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("a file")
    with pytest.raises(ConfigError, match=r"shared: trials cannot be shared there"), opened(tmp_path, "a") as a:
        a.add("conv", "key", ONE, OK)


def test_journals_are_united_line_by_line(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    for path, candidates in ((ours, (ONE,)), (theirs, (ONE, TWO))):
        with Journal(path, "f") as journal:
            for each in candidates:
                journal.add("conv", "key", each, OK)
    assert unite(ours, theirs.read_bytes()) == 1 and unite(ours, theirs.read_bytes()) == 0
    assert ours.read_bytes() == theirs.read_bytes()
    assert unite(ours, b"nonsense\n{}") == 0
    assert unite(tmp_path / "sub/new.jsonl", ours.read_bytes()) == 3, "the header is a line"
    assert (tmp_path / "sub/new.jsonl").read_bytes() == ours.read_bytes()


class SlowDevice:
    """A simulated device that takes its time, and counts the programs that it was given."""

    def __init__(self, seed: int, deadly: str = "") -> None:
        self._device, self._deadly = SimulatedDevice(seed=seed), deadly
        self.programs: Counter[tuple[str, str]] = Counter()

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        time.sleep(TRIAL_S)
        self.programs[launch.options(candidate.variant), str(candidate)] += 1
        if self._deadly and self._deadly in candidate.variant.name:
            return DEADLY
        return self._device(launch, candidate, reps)


def tuned(device: SlowDevice, journal: Journal) -> SearchResult:
    def expand(each: TrialLaunch, multiple: int) -> dict[Candidate, float]:
        return dict(space.candidate_costs(each, TARGET, multiple))

    with journal:
        return search(FEW, expand, TrialRunner(pool_of_one(device), journal), LEVELS["normal"])


def tuned_at_once(tmp_path: Path, devices: list[SlowDevice], together: bool) -> None:
    """Each device is tuned in a thread of its own."""
    journals = [
        opened(tmp_path, str(number)) if together else Journal(tmp_path / f"alone{number}.jsonl", "f")
        for number in range(len(devices))
    ]
    threads = [threading.Thread(target=tuned, args=pair) for pair in zip(devices, journals, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_two_that_tune_one_soc_share_the_work(tmp_path: Path) -> None:
    alone, together = ([SlowDevice(seed) for seed in (1, 2)] for _ in range(2))
    tuned_at_once(tmp_path, alone, together=False)
    tuned_at_once(tmp_path, together, together=True)
    built = [sum(len(device.programs) for device in devices) for devices in (alone, together)]
    assert built[1] < 0.95 * built[0], built
    for name in ("0", "1"):
        assert {record["by"] for record in read_records(tmp_path / f"{name}.jsonl")} == {"0", "1"}


@pytest.mark.slow
def test_what_killed_one_is_not_tried_by_the_other(tmp_path: Path) -> None:
    first = SlowDevice(1, deadly="BLOCK8")
    tuned(first, opened(tmp_path, "first"))
    second = SlowDevice(2, deadly="BLOCK8")
    with opened(tmp_path, "second", fresh=True) as journal:
        known = {
            str(candidate)
            for launch in FEW
            for candidate in space.candidate_costs(launch, TARGET, 8)
            if journal.is_fatal(launch.kernel.name, candidate)
        }
        tuned(second, journal)
    tried = {candidate for _, candidate in second.programs if "BLOCK8" in candidate}
    assert known and not tried & known


def endless(folder: Path) -> None:
    with opened(folder, "killed") as journal:
        tuned(SlowDevice(1), journal)


@pytest.mark.slow
def test_a_tuner_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=endless, args=(tmp_path,))
    process.start()
    try:
        deadline_s = time.monotonic() + 300
        while len(lines := _shared_lines(tmp_path)) < 20 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    finally:
        if process.pid:
            os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert len(lines) >= 20
    with opened(tmp_path, "heir") as heir:
        assert heir.resumed >= len(lines) - 1, "what was a re-test counts for people alone"


def test_hosts_of_one_name_write_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the other has been here before; the same host goes on with its file until it is started anew."""
    files = []
    for boot in ("1f3a", "77aa", "1f3a"):
        monkeypatch.setattr("tuner.shared_journal.host_id", lambda boot=boot: boot)
        with opened(tmp_path, boot) as journal:
            journal.add("conv", boot, ONE, OK)
        files.append(sorted(path.name for path in (tmp_path / "shared").iterdir()))
    assert [len(found) for found in files] == [1, 2, 2] and files[1] == files[2]


def test_a_host_is_told_from_others_by_what_its_system_drew_and_else_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared_journal.host_id() == shared_journal.host_id()
    monkeypatch.setattr(shared_journal, "BOOT_ID", tmp_path / "nothing")
    assert shared_journal.host_id() != shared_journal.host_id()


def _shared_lines(tmp_path: Path) -> list[bytes]:
    return [line for path in (tmp_path / "shared").glob("*.jsonl") for line in path.read_bytes().splitlines()[1:-1]]

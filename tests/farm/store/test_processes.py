"""Several processes, some of them killed, in one store."""

import random
import subprocess
import sys
import time

import pytest

from farm.store import Store

WRITER = """
import sys
from farm.store import Store
from tests.farm.store.rows import a_nightly_row, a_row
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Store.open(url) as store:
    run = store.begin(name, "")
    print("begun", flush=True)
    for number in range(count):
        unit = f"{name}-{number}"
        store.add(run, [a_row(unit=unit, reason="x" * 3000), a_nightly_row(unit=unit)])
        store.note_progress(run, unit, {"number": number})
        print("kept", flush=True)
    store.end(run)
"""


def writer(url: str, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, url, name, str(count)], stdout=subprocess.PIPE)


@pytest.mark.slow
def test_four_processes_add_at_once(url: str) -> None:
    writers = [writer(url, f"w{number}", 25) for number in range(4)]
    assert [each.wait() for each in writers if each.communicate()] == [0] * 4
    with Store.open(url) as store:
        assert {run.name: len(list(store.rows(run.id))) for run in store.runs()} == {f"w{n}": 50 for n in range(4)}
        assert {run.state for run in store.runs()} == {"finished"}
        assert len(store.series()) == 100 * 4


KILLS = 12


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_whole_rows(url: str) -> None:
    moments = random.Random(4)
    with Store.open(url) as store:
        for number in range(KILLS):
            killed = writer(url, f"killed{number}", 1000)
            for _ in range(1 + (number % 3 > 0)):  # that it has begun; of two in three, that rows are kept
                assert killed.stdout and killed.stdout.readline()
            time.sleep(moments.uniform(0, 0.15))
            killed.kill()
            killed.communicate()
            time.sleep(0.05)  # a server may still be ending what it was told
            _check_last(store)
        assert len(store.runs()) == KILLS
        assert {run.state for run in store.runs()} == {"interrupted"}
        assert sum(len(list(store.rows(run.id))) for run in store.runs()) > KILLS
    with Store.open(url) as store:
        store.end(store.begin("after", ""))


def _check_last(store: Store) -> None:
    """What one transaction adds is there as a whole: both rows, and the points of the nightly one."""
    (run,) = store.runs(limit=1)
    units = [row["unit"] for row in store.rows(run.id)]
    numbers = range(len(units) // 2)
    assert units == [f"{run.name}-{number}" for number in numbers for _ in "ab"]
    assert {key.case.unit for key in store.series(name=run.name)} == set(units)
    assert [data["number"] for _, data in store.progress(run.id)] in (list(numbers), list(numbers)[:-1])

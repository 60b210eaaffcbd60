"""Commands as runs of the store: what is kept of them when all goes well, and when it does not."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from farm import cli
from farm.cli import INTERRUPTED, store_options, work
from farm.cli.commands import options as declared
from farm.rows.row import Row
from farm.rows.status import Status
from farm.store import Store, engine
from farm.store.importing import import_file
from farm.store.lines import new_run
from farm.store.recorder import NOWHERE, Recorder
from runtime.errors import ConfigError, FormatError
from tests.farm.conftest import CallFarm
from tests.farm.rows.nightly_rows import nightly_case
from tests.farm.store.rows import a_nightly_row, a_row
from tests.farm.store.test_faults import holding

STORE = Path("reports/farm.db")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "LOCK_WAIT_S", 0.05)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def recorder(told: list[str]) -> Recorder:
    return Recorder(None, new_run("run", "farm run x.yml", "c0ffee"), told.append)


def states() -> list[str]:
    with Store.open() as store:
        return [run.state for run in store.runs()]


def test_each_row_is_recorded_as_it_comes(recorder: Recorder, told: list[str]) -> None:
    def measured() -> Iterator[Row]:
        yield a_row(unit="a")
        with Store.open() as store:
            assert [row["unit"] for row in store.rows()] == ["a"]
            assert store.run(1).state == "running"
        yield a_row(unit="b")

    with recorder:
        assert len(list(recorder.recorded(measured()))) == 2
    assert (recorder.exit_status, told, states()) == (0, [], ["finished"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConfigError])
def test_a_run_that_ends_by_an_error_is_interrupted(recorder: Recorder, error: type[BaseException]) -> None:
    def measured() -> Iterator[Row]:
        yield a_row()
        raise error

    with pytest.raises(error), recorder:
        list(recorder.recorded(measured()))
    assert states() == ["interrupted"]
    with Store.open() as store:
        assert len(list(store.rows())) == 1


@pytest.mark.slow
def test_a_store_that_was_locked_has_all_rows_in_the_end(recorder: Recorder, told: list[str]) -> None:
    rows = [a_row(), a_nightly_row(), a_row(unit="other")]
    with recorder:
        recorder.record(rows[0])
        with holding(STORE):
            recorder.record(rows[1])
        recorder.record(rows[2])
        (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    assert told[0].startswith("not kept in the store: reports/farm.db: locked for 0.05 s by process")
    assert told[1:] == [
        f"rows are kept in {spilled}; `farm store import` takes them over",
        "the store works again: all rows are kept in it",
    ]
    with Store.open() as store:
        assert [row["unit"] for row in store.rows(1)] == ["pixel", "pixel", "other"]
        assert store.nightly_rows(1) == [rows[1]] and store.series() and states() == ["finished"]
    assert recorder.exit_status == 0 and not spilled.exists()


@pytest.mark.slow
def another_store() -> None:
    STORE.rename("old.db")
    Store.open().close()


@pytest.mark.parametrize("lose", [STORE.unlink, lambda: shutil.rmtree("reports"), another_store])
def test_a_store_that_is_deleted_meanwhile_costs_no_row(
    recorder: Recorder, told: list[str], lose: Callable[[], Any]
) -> None:
    with recorder:
        recorder.record(a_row(unit="a"))
        recorder.note("block", {"number": 1})
        lose()
        recorder.record(a_row(unit="b"))
        recorder.note("block", {"number": 2})
    assert told[0] == "not kept in the store: reports/farm.db: deleted or replaced since this command began"
    assert told[-1] == "the store works again: all rows are kept in it" and recorder.exit_status == 0
    with Store.open() as store:
        assert [row["unit"] for row in store.rows(recorder.number)] == ["a", "b"]
        assert [data["number"] for _, data in store.progress(recorder.number)] == [1, 2]
    assert states() == ["finished"] and not list(Path("reports").glob("unsaved-*"))


def test_an_imported_file_says_how_its_command_ended(recorder: Recorder) -> None:
    with recorder:
        recorder.record(a_row())
        holder = contextlib.ExitStack()
        holder.enter_context(holding(STORE))
        recorder.record(a_row(unit="other"))
        recorder.note("case", {"block": 1})
    assert recorder.exit_status == 1 and states() == ["running"]
    holder.close()
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    with Store.open() as store:
        for new_rows in (1, 0):
            with store.writing() as connection:
                assert import_file(connection, spilled).rows == new_rows
        assert store.progress(1) == [("case", {"block": 1})]
    assert states() == ["finished"]


KILLED = """
import os, signal
from farm.store import Store
from farm.store.lines import new_run
from farm.store.recorder import Recorder
from tests.farm.store.rows import a_row
Store.add = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Recorder(None, new_run("run", "", ""), print) as recorder:
    recorder.record(a_row())
"""


@pytest.mark.slow
def test_a_row_is_on_the_disk_before_the_store_is_asked(recorder: Recorder) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False).returncode == -signal.SIGKILL
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    with Store.open() as store, store.writing() as connection:
        assert import_file(connection, spilled).rows == 1
    assert states() == ["interrupted"]


def test_rows_that_nothing_takes_are_told_and_kept_in_memory(
    recorder: Recorder, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("reports").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(Path("reports").absolute()))
    with recorder:
        recorder.record(a_row())
        assert [line.partition(":")[0] for line in told] == ["not kept in the store", "rows are kept in memory alone"]
        Path("reports").unlink()
    assert recorder.exit_status == 0 and told[2:] == ["the store works again: all rows are kept in it"]
    with Store.open() as store:
        assert len(list(store.rows())) == 1


def test_a_frozen_server_costs_no_row(postgresql_url: str, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ANSWER_S", 0.3)
    with Recorder(postgresql_url, new_run("run", "", ""), told.append) as recorder:
        assert recorder.store
        with recorder.store.reading() as connection:
            session = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            monkeypatch.setattr(engine, "CONNECT_S", 1)
        recorder.store.engine.pool._pre_ping = False  # as if it froze between the ping and the row
        os.kill(session, signal.SIGSTOP)
        try:
            recorder.record(a_row())
        finally:
            os.kill(session, signal.SIGCONT)
        assert "no answer for 0.3 s; look whether the server is frozen" in told[0]
    assert recorder.exit_status == 0 and told[-1] == "the store works again: all rows are kept in it"
    with Store.open(postgresql_url) as store:
        assert (len(list(store.rows())), store.run(1).state) == (1, "finished")


def test_ctrl_c_between_rows_waits_for_no_frozen_server_and_costs_no_row(
    postgresql_url: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HURRIED_S", 0.3)
    sessions = list[int]()
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            Recorder(postgresql_url, new_run("run", "", ""), told.append) as recorder,
        ):
            recorder.record(a_row())
            assert recorder.store
            with recorder.store.reading() as connection:
                sessions.append(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
            recorder.store.engine.pool._pre_ping = False  # as if no other session were to be had
            os.kill(sessions[0], signal.SIGSTOP)
            raise KeyboardInterrupt
    finally:
        for session in sessions:
            os.kill(session, signal.SIGCONT)
    assert "no answer for 0.3 s" in told[0] and recorder.exit_status == 1
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    with Store.open() as store, store.writing() as connection:
        import_file(connection, spilled)
    with Store.open() as store:
        assert (len(list(store.rows())), store.run(1).state) == (1, "interrupted")


FROZEN = """
import os, signal, sys
from farm.cli import interruption
from farm.store.lines import new_run
from farm.store.recorder import Recorder
from tests.farm.store.rows import a_row
with interruption.announced("told"), Recorder(sys.argv[1], new_run("run", "", ""), print) as recorder:
    with recorder.store.reading() as connection:
        session = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    os.kill(session, signal.SIGSTOP)
    print(session, flush=True)
    recorder.record(a_row())
"""


@pytest.mark.slow
def test_a_second_ctrl_c_at_a_frozen_server_ends_within_a_second_and_costs_no_row(postgresql_url: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FROZEN, postgresql_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        session = int(process.stdout.readline())
        try:
            while not (spilled := list(Path("reports").glob("unsaved-*.jsonl"))):
                assert process.poll() is None
            for _ in range(2):
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)  # of a busy machine; far below what the store may take to answer
            assert process.poll() in (-signal.SIGINT, INTERRUPTED)
        finally:
            process.kill()
            os.kill(session, signal.SIGCONT)
    with Store.open() as store, store.writing() as connection:
        assert import_file(connection, *spilled).rows == 1


def test_rows_are_recorded_in_a_file_when_the_store_cannot_be_created(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("reports").touch()  # no folder: nothing can be written there
    monkeypatch.setattr(tempfile, "tempdir", str(Path("temporary").absolute()))
    with Recorder(None, new_run("run", "", ""), told.append) as recorder:
        recorder.record(a_row())
    (spilled,) = Path("temporary").glob("unsaved-*.jsonl")
    assert recorder.exit_status == 1 and len(told) == 2 and "reports/farm.db: cannot be made: " in told[0]
    with Store.open("other.db") as store, store.writing() as connection:
        assert import_file(connection, spilled).rows == 1


def test_rows_are_recorded_in_a_file_when_damage_is_found_while_measuring(
    recorder: Recorder, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> None:
        raise FormatError("reports/farm.db: damaged")

    with recorder:
        monkeypatch.setattr(Store, "add", damaged)
        recorder.record(a_row())
    assert told[0] == "not kept in the store: reports/farm.db: damaged" and recorder.exit_status == 1
    assert len(list(Path("reports").glob("unsaved-*.jsonl"))) == 1


def test_a_row_whose_writing_is_interrupted_stays_in_a_file(
    recorder: Recorder, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), recorder, monkeypatch.context() as patch:
        patch.setattr(Store, "add", interrupted)
        recorder.record(a_row())
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    assert told[0] == "not kept in the store: interrupted before it had taken all" and str(spilled) in told[1]
    with Store.open() as store, store.writing() as connection:
        assert import_file(connection, spilled).rows == 1
    assert states() == ["interrupted"]


def test_the_wrong_store_is_refused_before_anything_is_measured(recorder: Recorder) -> None:
    STORE.parent.mkdir()
    STORE.write_bytes(b"no store" * 1000)
    with pytest.raises(FormatError, match="damaged"), recorder:
        raise AssertionError("measured")


@click.command(name="measure")
@declared.store_option
@declared.json_option
def measure(store: str | None, as_json: bool) -> int:
    """Stands for a command that measures."""
    with store_options.keeping(store) as recorder:
        rows = list(recorder.recorded([a_row(), a_row(unit="bad", status=Status.OK)]))
    return work.finish(rows, as_json, lambda _: None, recorder)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, farm: CallFarm) -> CallFarm:
    """Runs a command line of farm with one more command; returns exit status, stdout and stderr."""
    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: measure)
    monkeypatch.setitem(cli.COMMANDS, "measure", "")
    return farm


def test_a_command_is_a_run_with_its_command_line(call: Any) -> None:
    environment = os.environ | {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    environment |= {"GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null"}
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], check=True, env=environment)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    status, out, err = call("measure", "--json")
    assert (status, err, len(json.loads(out)["rows"])) == (0, "", 2)
    with Store.open() as store:
        (run,) = store.runs()
    assert (run.name, run.command, run.commit, run.state) == ("measure", "farm measure --json", commit, "finished")


def test_a_folder_without_git_has_an_empty_commit(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("measure")[0] == 0
    monkeypatch.setenv("PATH", "")
    assert call("measure")[0] == 0
    with Store.open() as store:
        assert [run.commit for run in store.runs()] == ["", ""]


@pytest.mark.slow
def test_a_command_prints_its_rows_even_if_they_cannot_be_stored(call: Any) -> None:
    Store.open().close()
    with holding(STORE):
        status, out, err = call("measure", "--json")
    assert status == 1 and len(json.loads(out)["rows"]) == 2
    assert err.startswith("not kept in the store: reports/farm.db: locked")
    assert len(err.splitlines()) == 2 and "reports/unsaved-" in err
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    with Store.open() as store, store.writing() as connection:
        assert import_file(connection, spilled).rows == 2


@pytest.mark.parametrize("form", ["--store={}", "--store {}"])
def test_a_password_is_neither_shown_nor_stored(form: str, call: Any) -> None:
    url = "postgresql://farm:s3cret@127.0.0.1:1/farm?password=s3cret"
    status, out, err = call("measure", *form.format(url).split(" "))
    assert status == 1 and "s3cret" not in out + err and "farm:***@127.0.0.1:1/farm" in err
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    assert "s3cret" not in spilled.read_text() and "farm:***@" in spilled.read_text()


def test_an_unknown_kind_of_store_is_a_mistake_of_usage(call: Any) -> None:
    status, out, err = call("measure", "--store", "mysql://me:s3cret@host/db")
    assert (
        (status, out) == (2, "")
        and err.startswith("error: --store: of no kind that farm knows; use")
        and "s3cret" not in err
    )


def test_a_run_that_is_brought_twice_is_kept_once(told: list[str]) -> None:
    run = new_run("run", "farm run x.yml --detach", "")
    for count in (1, 2):
        with Recorder(None, run, told.append) as recorder:
            for seed in range(count):
                recorder.record(a_row(unit=f"pixel{seed}"))
    with Store.open() as store:
        (found,) = store.runs()
        assert (found.state, [row["unit"] for row in store.rows(found.id)]) == ("finished", ["pixel0", "pixel1"])
    assert not told


def test_rows_that_nobody_keeps_are_handed_on(own_folder: Path) -> None:
    rows = [nightly_case(seed=1), nightly_case(seed=2)]
    with Recorder(NOWHERE, new_run("run", "farm run", ""), print) as recorder:
        assert list(recorder.recorded(rows)) == rows
    assert recorder.exit_status == 0 and not list(own_folder.iterdir())

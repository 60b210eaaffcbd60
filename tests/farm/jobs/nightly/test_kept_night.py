"""Nights whose store is away when they begin or end: measured, judged as far as it goes, and nothing is lost."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.decision.judgement import Verdict
from farm.jobs.nightly import run as nightly_run
from farm.jobs.nightly.unit import NightSettings
from farm.nightly.configuration import NightlyConfiguration, load
from farm.nightly.night import Night
from farm.rows.nightly import NightlyRow
from farm.rows.series import case_of
from farm.store import Store, engine
from farm.store.importing import import_file
from farm.store.recorder import NOWHERE, Recorder
from runtime.errors import StoreError
from tests.farm.store.rows import a_block, a_nightly_row
from tests.farm.store.test_faults import holding

STORE = Path("reports/farm.db")


@pytest.fixture
def nightly(own_folder: Path) -> NightlyConfiguration:
    Path("lab.yml").write_text("models: net.yml\n")
    return load(Path("lab.yml"))


def away(*_: object, **__: object) -> None:
    raise StoreError("reports/farm.db: cannot be written: the disk is full")


def measured(nightly: NightlyConfiguration, keeper: Recorder, is_locked: bool = False) -> Night:
    """A night of one row with a block, whose store another process locks when both are measured."""
    with contextlib.ExitStack() as locked:

        def job(settings: NightSettings) -> Iterator[NightlyRow]:
            row = a_nightly_row(a_block())
            if is_locked:
                locked.enter_context(holding(STORE))
            settings.notebook.note(case_of(row), row.blocks[0])
            yield row

        return nightly_run.measure(keeper, nightly, job, 0, lambda _: None)


def keeper(nightly: NightlyConfiguration, told: list[str], url: str | None = None) -> Recorder:
    return Recorder(url, nightly_run.begun(nightly, "farm nightly lab.yml"), told.append)


def taken_over() -> Store:
    """The store after the file beside it was imported."""
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    store = Store.open()
    with store.writing() as connection:
        assert import_file(connection, spilled).rows == 1
    return store


@pytest.mark.slow
def test_a_store_that_goes_away_before_the_end_loses_no_row(
    nightly: NightlyConfiguration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT_S", 0.05)
    told: list[str] = []
    recorder = keeper(nightly, told)
    night = measured(nightly, recorder, is_locked=True)
    assert [row.unit for row in night.rows] == ["pixel"] and recorder.exit_status == 1
    assert "locked for 0.05 s" in told[0] and "unsaved-" in told[1]
    with taken_over() as store:
        assert store.run(1).state == "finished" and len(store.nightly_rows(1)) == 1
        assert [key == nightly_run.PLAN for key, _ in store.progress(1)] == [True, False]


def test_a_store_that_is_away_from_the_beginning_keeps_no_night_from_being_measured(
    nightly: NightlyConfiguration, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    recorder = keeper(nightly, told)
    with monkeypatch.context() as fault:
        fault.setattr(Store, "open", away)
        night = measured(nightly, recorder)
    assert {report.judgement.verdict for report in night.series} == {Verdict.NEW} and recorder.exit_status == 1
    with taken_over() as store:
        assert [run.state for run in store.runs(nightly.title)] == ["finished"]


def test_a_night_that_lost_its_store_goes_on_after_the_import(
    nightly: NightlyConfiguration, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(settings: NightSettings) -> Iterator[NightlyRow]:
        row = a_nightly_row(a_block())
        settings.notebook.note(case_of(row), row.blocks[0])
        raise KeyboardInterrupt
        yield

    with monkeypatch.context() as fault, pytest.raises(KeyboardInterrupt):
        fault.setattr(Store, "open", away)
        nightly_run.measure(keeper(nightly, []), nightly, interrupted, 0, print)
    (spilled,) = Path("reports").glob("unsaved-*.jsonl")
    with Store.open() as store, store.writing() as connection:
        import_file(connection, spilled)

    def going_on(settings: NightSettings) -> Iterator[NightlyRow]:
        row = a_nightly_row(a_block())
        assert settings.notebook.blocks(case_of(row)) == list(row.blocks)
        yield row

    recorder = Recorder(None, nightly_run.resumed(None, nightly), print)
    night = nightly_run.measure(recorder, nightly, going_on, 0, print)
    assert (night.run.id, night.run.state, recorder.exit_status) == (1, "finished", 0)


def test_a_night_that_nobody_keeps_is_judged_by_itself(nightly: NightlyConfiguration) -> None:
    recorder = keeper(nightly, [], NOWHERE)
    assert len(measured(nightly, recorder).rows) == 1 and recorder.exit_status == 0
    assert not Path("reports").exists() and not Path(NOWHERE).exists()

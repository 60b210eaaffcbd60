"""Stores of other layouts: older ones are migrated after a backup, newer ones and other databases are left alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from farm.rows.series import Metric
from farm.store import Store, address, engine, migrate, schema
from farm.store.adding import new_run
from farm.store.rows import row_columns, row_data
from runtime.errors import FormatError
from tests.farm.store.rows import a_nightly_row, a_row

ROWS = [a_row(), a_nightly_row(), a_nightly_row(unit="twin")]


@pytest.fixture
def sql(url: str) -> Iterator[Callable[..., Any]]:
    """Runs one statement in the store, as another program might."""
    where = address.parse_address(url)
    found = engine.sqlite_engine(address.sqlite_url(where.path, "rwc")) if where.path else engine.engine_of(where)

    def execute(statement: Any, *values: Any) -> Any:
        with found.begin() as connection:
            done = connection.execute(sa.text(statement) if isinstance(statement, str) else statement, *values)
            return done.all() if done.returns_rows else None

    execute.engine = found  # type: ignore[attr-defined]
    yield execute
    found.dispose()


@pytest.fixture
def layout_1(sql: Any) -> Any:
    """A store as the first layout had it, with a run of `ROWS`."""
    with sql.engine.begin() as connection:
        migrate.upgrade(connection, 1)
        run = new_run("lab", "farm nightly", "c0ffee")
        connection.execute(schema.runs.insert().values(run.model_dump()))
        for row in ROWS:
            connection.execute(schema.rows.insert().values(row_columns(1, run.uid, row_data(row))))
    return sql


def test_an_older_store_is_migrated_after_a_backup(url: str, layout_1: Any, tmp_path: Path) -> None:
    told: list[str] = []
    with Store.open(url, tell=told.append) as store:
        assert list(store.rows()) == [row_data(row) for row in ROWS]
        series = store.series(name="lab")
        assert {key.case.unit for key in series} == {"pixel", "twin"}
        assert {key.metric for key in series} == {Metric.LATENCY, Metric.INIT, Metric.FIRST, Metric.COSINE}
        assert [point.commit for point in next(iter(series.values()))] == ["c0ffee"]
        store.set_baseline("good", 1)
    (line,) = told
    assert "layout 1 becomes 2; backup: " in line
    backup = line.rpartition("backup: ")[2]
    if url == str(tmp_path / "farm.db"):
        with sqlite3.connect(backup) as copy:
            assert copy.execute("SELECT version_num FROM farm_layout").fetchall() == [("1",)]
            assert copy.execute("SELECT count(*) FROM rows").fetchall() == [(3,)]
        copy.close()
    else:
        name = backup.removeprefix("schema ")
        assert layout_1(f"SELECT version_num FROM {name}.farm_layout") == [("1",)]
        assert layout_1(f"SELECT count(*) FROM {name}.rows") == [(3,)]
        layout_1(f"DROP SCHEMA {name} CASCADE")
    with Store.open(url, tell=told.append):
        assert len(told) == 1


def test_a_migration_that_fails_leaves_the_older_store(
    url: str, layout_1: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "derive_all_points", lambda _: 1 / 0)
    monkeypatch.setattr(migrate, "_copied_schema", lambda *_: "")
    with pytest.raises(ZeroDivisionError):
        Store.open(url, tell=lambda _: None)
    assert layout_1("SELECT version_num FROM farm_layout") == [("1",)]
    assert "points" not in sa.inspect(layout_1.engine).get_table_names()


def test_a_newer_store_is_refused_and_left_alone(url: str, sql: Any) -> None:
    Store.open(url).close()
    sql("UPDATE farm_layout SET version_num = '3'")
    with pytest.raises(
        FormatError, match=r"store of layout 3, which a newer farm wrote; this farm reads up to 2: use the newer"
    ):
        Store.open(url)
    sql("UPDATE farm_layout SET version_num = 'x\x1b[2J'")
    with pytest.raises(FormatError, match=r"store of layout x\\x1b\[2J, which a newer"):
        Store.open(url)
    assert sql("SELECT count(*) FROM runs") == [(0,)]


def test_another_program_s_database_is_refused(url: str, sql: Any) -> None:
    sql("CREATE TABLE runs (id INTEGER)")
    with pytest.raises(FormatError, match="no store of farm, but another database; name another with --store"):
        Store.open(url)
    assert sa.inspect(sql.engine).get_table_names() == ["runs"]


def test_tables_of_others_beside_it_do_not_matter_to_postgresql(postgresql_url: str) -> None:
    with Store.open(postgresql_url) as store, store.writing() as connection:
        connection.execute(sa.text("CREATE TABLE someone (id INTEGER)"))
    with Store.open(postgresql_url) as store:
        store.begin("run", "")


def test_the_migrations_lead_to_the_tables_that_the_code_expects(store: Store) -> None:
    def is_own(name: str | None, kind: str, _: Any) -> bool:
        return kind != "table" or name != schema.VERSION_TABLE

    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": is_own, "compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


@pytest.mark.slow
def test_processes_that_create_a_store_at_once_share_one(url: str) -> None:
    make = f"import sys; sys.stdin.read(1); from farm.store import Store; s = Store.open({url!r}); s.begin('x', '')"
    makers = [subprocess.Popen([sys.executable, "-c", make], stdin=subprocess.PIPE) for _ in range(3)]
    starters = [threading.Thread(target=maker.communicate, args=(b"x",)) for maker in makers]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    assert [maker.returncode for maker in makers] == [0, 0, 0]
    with Store.open(url) as store:
        assert len(store.runs()) == 3

"""A store of another layout, and another program's database, are refused and left alone."""

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from farm.store import Store, address, engine, schema
from runtime.errors import FormatError


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


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (
            "1",
            r"store of layout 1, which an older farm wrote; this farm reads layout 2: `farm store export FILE` there, ",
        ),
        (
            "3",
            r"store of layout 3, which a newer farm wrote; this farm reads layout 2: use it, or name another ",
        ),
        ("x\x1b[2J", r"store of layout x\\x1b\[2J, which a newer farm wrote; this farm reads layout 2: "),
    ],
    ids=["older", "newer", "control characters"],
)
def test_a_store_of_another_layout_is_refused_and_left_alone(url: str, sql: Any, version: str, said: str) -> None:
    Store.open(url).close()
    sql(sa.text("UPDATE farm_layout SET version_num = :version"), {"version": version})
    with pytest.raises(FormatError, match=said):
        Store.open(url)
    assert sql("SELECT version_num FROM farm_layout") == [(version,)]
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


def test_a_layout_is_not_changed_without_a_new_number() -> None:
    """Today's stores stay readable; whoever changes a table counts `LAYOUT` up, and renews what stands here."""
    columns = [
        f"{table.name}.{column.name} {column.type} {column.nullable} {column.primary_key} {column.unique}"
        for table in schema.metadata.sorted_tables
        for column in table.columns
    ]
    digest = hashlib.sha256("\n".join(sorted(columns)).encode()).hexdigest()[:12]
    assert (schema.LAYOUT, digest) == (2, "2074c0bc055b")


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

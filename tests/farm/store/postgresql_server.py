"""The PostgreSQL server that tests use; `.ci/postgresql start` makes one."""

import contextlib
import os
import uuid
from collections.abc import Iterator

import psycopg

from tests.conftest import require

SERVER = os.environ.get("FARM_TEST_POSTGRESQL", "")


def postgresql() -> str:
    """The URL of the server's database; skips where there is none."""
    require("postgresql", "" if SERVER else 'no PostgreSQL server: eval "$(.ci/postgresql start)" starts one')
    return SERVER


@contextlib.contextmanager
def empty_schema() -> Iterator[str]:
    """The URL of an empty schema, until the block ends."""
    server, schema = postgresql(), f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{server}?options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")

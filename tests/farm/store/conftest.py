"""Stores to test with: each test that takes `url` runs on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from farm.store import Store
from tests.conftest import require

SERVER = os.environ.get("FARM_TEST_POSTGRESQL", "")


def postgresql() -> str:
    """The URL of the server's database; skips where there is none."""
    require("postgresql", "" if SERVER else 'no PostgreSQL server: eval "$(.ci/postgresql start)" starts one')
    return SERVER


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty schema of its own."""
    server, schema = postgresql(), f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{server}?options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where there is no store yet."""
    if request.param == "sqlite":
        return str(tmp_path / "farm.db")
    found: str = request.getfixturevalue("postgresql_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A new store."""
    with Store.open(url) as opened:
        yield opened

"""Parses a store's address, which `--store` names, and shows it to people without its password."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from farm.safe_text import one_line
from runtime.errors import ConfigError

if TYPE_CHECKING:  # takes a quarter of a second to import, for a command that keeps nothing in vain
    from sqlalchemy import URL

DEFAULT_PATH = Path("reports/farm.db")
SQLITE, POSTGRESQL = "sqlite", "postgresql"
HIDDEN = "***"
FORMS = "use a path, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE"


@dataclasses.dataclass(frozen=True)
class Address:
    """A SQLite file (`path`) or a PostgreSQL database (`url`). As text it has no password."""

    url: URL
    path: Path | None = None

    def __str__(self) -> str:
        return one_line(str(self.path) if self.path else _without_password(self.url))

    @property
    def engine_url(self) -> URL:
        """What SQLAlchemy opens; it never makes a SQLite file."""
        if not self.path:
            return self.url.set(drivername="postgresql+psycopg")
        return sqlite_url(self.path) if _is_writable(self.path) else read_only_url(self.path)

    def without_secrets(self, text: str) -> str:
        """Removes the password from a message of a server or driver."""
        for secret in _secrets(self.url):
            text = text.replace(secret, HIDDEN)
        return text


def parse_address(text: str | None) -> Address:
    """Parses the address that a user gave; None is the default. Raises ConfigError where it is invalid."""
    if text is None:
        return _sqlite(DEFAULT_PATH)
    if "://" not in text:
        return _sqlite(Path(text)) if text and "\0" not in text else _refuse("no path")
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        return _refuse("not a URL")
    if url.drivername == SQLITE:
        if not url.database or url.database == ":memory:" or url.query or url.host:
            return _refuse("sqlite:// needs the path of a file, and nothing else")
        return _sqlite(Path(url.database))
    if url.drivername in (POSTGRESQL, "postgres", "postgresql+psycopg"):
        return Address(url) if url.database else _refuse("the database is missing")
    return _refuse("of no kind that farm knows")


def sqlite_url(path: Path, mode: str = "rw") -> URL:
    """A SQLite file in one of SQLite's open modes: `rw` opens it, `rwc` makes it too."""
    from sqlalchemy import URL

    return URL.create(SQLITE, database=f"file:{quote(str(path))}", query={"mode": mode, "uri": "true"})


def _is_writable(path: Path) -> bool:
    """Whether SQLite may write a file, and its log beside it; so where there is no file yet."""
    effective = os.access in os.supports_effective_ids
    return all(not each.exists() or os.access(each, os.W_OK, effective_ids=effective) for each in (path, path.parent))


def read_only_url(path: Path) -> URL:
    """A file that nobody writes, as in an archive, can be read without a lock; not so where a log has rows of it."""
    url = sqlite_url(path, "ro")
    log = path.with_name(f"{path.name}-wal")
    has_log = log.exists() and log.stat().st_size
    return url if has_log else url.update_query_dict({"immutable": "1"})


def without_password(text: str) -> str:
    """An address as the user gave it, without its password, to be shown and stored."""
    try:
        return str(parse_address(text))
    except ConfigError:
        return HIDDEN


def _sqlite(path: Path) -> Address:
    from sqlalchemy import URL

    return Address(URL.create(SQLITE, database=str(path)), path)


def _refuse(reason: str) -> Address:
    raise ConfigError(f"--store: {reason}; {FORMS}")


def _without_password(url: URL) -> str:
    query = {name: HIDDEN if "password" in name else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True).replace(quote(HIDDEN), HIDDEN)


def _secrets(url: URL) -> list[str]:
    """The passwords of a URL, as written there and as meant."""
    words = [url.password, *(value for name, value in url.query.items() if "password" in name)]
    return [form for word in words if isinstance(word, str) and word for form in (word, quote(word, safe=""))]

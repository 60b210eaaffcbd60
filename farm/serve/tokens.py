"""Tokens, one a person, that allow changes: random texts of 256 bits, of which a file keeps the SHA-256 alone."""

import datetime
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

import filelock
from pydantic import Field, ValidationError

from farm import atomic_file, host_system
from farm.rows.record import Record
from runtime.errors import ConfigError, FormatError

PREFIX = "farm_"
TOKEN_BYTES = 32
LOCK_TIMEOUT_S = 10.0
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,39}")


class KeptToken(Record):
    """What is kept of a token: its digest, and when it was made (ISO 8601, UTC)."""

    sha256: str
    added: str


class _TokenFile(Record):
    tokens: dict[str, KeptToken] = Field(default_factory=dict)


def default_file() -> Path:
    """The user's own file, which no other user can read."""
    config = os.environ.get("XDG_CONFIG_HOME") or host_system.home_folder() / ".config"
    return Path(config, "farm", "serve-tokens.json")


class Tokens:
    """The tokens of a file, which is read anew each time, so that a revoked one ends at once."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or default_file()

    def add(self, name: str) -> str:
        """Makes a person's token and returns it; nothing can show it again. ConfigError where there is one already."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot name a person; use letters, digits and _ . @ -, at most 40 characters")
        token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        with self._locked():
            kept = self.all()
            if name in kept:
                raise ConfigError(f"{name} has a token; `farm serve token revoke {name}` ends it")
            added = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self._write({**kept, name: KeptToken(sha256=token_digest(token), added=added)})
        return token

    def revoke(self, name: str) -> None:
        """Ends a person's token; ConfigError where there is none."""
        with self._locked():
            kept = self.all()
            if name not in kept:
                raise ConfigError(f"{name} has no token; `farm serve token list` names those who have one")
            self._write({person: token for person, token in kept.items() if person != name})

    def all(self) -> dict[str, KeptToken]:
        """Person -> what is kept of the token; FormatError where the file is damaged."""
        try:
            return _TokenFile.model_validate_json(self._path.read_bytes()).tokens
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be read: {error.strerror}") from None
        except ValidationError:
            raise FormatError(f"{self._path}: damaged; delete it, and give everybody a new token") from None

    def person(self, token: str) -> str:
        """Whose token it is; empty where it is nobody's."""
        return self.person_of_digest(token_digest(token))

    def person_of_digest(self, sha256: str) -> str:
        """Whose token has this digest now; empty where nobody's has. Takes as long whichever it is."""
        found = [name for name, kept in self.all().items() if hmac.compare_digest(kept.sha256, sha256)]
        return found[0] if found else ""

    def _locked(self) -> filelock.BaseFileLock:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return filelock.FileLock(f"{self._path}.lock", timeout=LOCK_TIMEOUT_S)
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written: {error.strerror}") from None

    def _write(self, tokens: dict[str, KeptToken]) -> None:
        with atomic_file.replacing(self._path, mode=0o600) as file:
            file.write(_TokenFile(tokens=tokens).model_dump_json(indent=1).encode())


def token_digest(token: str) -> str:
    """SHA-256 suffices for random texts of 256 bits: there is nothing to guess, and so nothing to slow down."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()

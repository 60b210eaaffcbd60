"""A place that several hosts reach: a folder, or whatever else fsspec opens by its URL, an S3 bucket among them.

    PLACE/objects/<SHA-256>    a file of one host or several; never changed
    PLACE/hosts/<host>.json    what a host has: path below its working directory -> SHA-256

An object comes before the host's file that names it, and no host writes another's, so that there is no lock: who reads
finds all or nothing of what a host says it has. What is read is hashed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from farm.safe_text import one_line
from runtime import extras
from runtime.errors import ConfigError, FarmError, FormatError

_HASH = re.compile(r"[0-9a-f]{64}")
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class SharedPlace:
    """One place; every method raises FarmError, in one line that names it, where it cannot be reached.

    Args:
        address: a folder or a URL that fsspec knows. Raises ConfigError where it needs a package that is missing.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            self._files, self._root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            missing = extras.needed(address, "s3fs") if "s3fs" in str(error) else f"{address}: {one_line(str(error))}"
            raise ConfigError(missing) from None
        except ValueError as error:
            raise ConfigError(f"{address}: cannot be opened: {one_line(str(error))}") from None

    def hosts(self) -> list[str]:
        """The names of all hosts that have shared something."""
        with self._reached():
            self._files.invalidate_cache()
            folder = self._path("hosts")
            found = self._files.ls(folder, detail=False) if self._files.exists(folder) else []
        names = (posixpath.basename(path.rstrip("/")) for path in found)
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def files_of(self, host: str) -> dict[str, str]:
        """What a host has, path -> SHA-256: nothing where it is not there. Raises FormatError for a damaged file."""
        path = self._path("hosts", f"{host}.json")
        with self._reached():
            content = self._files.cat_file(path) if self._files.exists(path) else b"{}"
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(_HASH.fullmatch(str(digest)) for digest in found.values()):
            raise FormatError(f"{self._address}: hosts/{one_line(host)}.json is damaged")
        return found

    def read(self, digest: str) -> bytes | None:
        """An object; None where it is gone. Raises FormatError where its content is another."""
        path = self._path("objects", digest)
        with self._reached():
            content: bytes | None = self._files.cat_file(path) if self._files.exists(path) else None
        if content is not None and hashlib.sha256(content).hexdigest() != digest:
            raise FormatError(f"{self._address}: objects/{digest} is damaged")
        return content

    def publish(self, host: str, files: Mapping[str, Path]) -> int:
        """Puts a host's files in the place of what it had; how many bytes were sent.

        What nobody names any more goes.
        """
        if not _HOST.fullmatch(host):
            raise ConfigError(f"{host!r} names no host")
        before = set(self.files_of(host).values())
        contents = {name: path.read_bytes() for name, path in files.items()}
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        sent = 0
        for name, digest in hashes.items():
            if not self._has("objects", digest):
                self._write(self._path("objects", digest), contents[name])
                sent += len(contents[name])
        if set(hashes.values()) != before or not self._has("hosts", f"{host}.json"):
            self._write(self._path("hosts", f"{host}.json"), json.dumps(hashes, indent=1, sort_keys=True).encode())
            self._remove(before - set(hashes.values()))
        return sent

    def _remove(self, digests: set[str]) -> None:
        """Removes objects that no host names."""
        named = {digest for host in self.hosts() for digest in self._readable(host).values()}
        for digest in digests - named:
            with self._reached(), contextlib.suppress(FileNotFoundError):
                self._files.rm_file(self._path("objects", digest))

    def _readable(self, host: str) -> dict[str, str]:
        with contextlib.suppress(FormatError):
            return self.files_of(host)
        return {}

    def _has(self, *parts: str) -> bool:
        with self._reached():
            return bool(self._files.exists(self._path(*parts)))

    def _write(self, path: str, content: bytes) -> None:
        """Makes a file appear whole; object stores do so by themselves, a folder by renaming."""
        with self._reached():
            if not isinstance(self._files, LocalFileSystem):
                self._files.pipe_file(path, content)
                return
            self._files.makedirs(posixpath.dirname(path), exist_ok=True)
            part = f"{path}.{secrets.token_hex(4)}.part"
            self._files.pipe_file(part, content)
            Path(part).replace(path)

    def _path(self, *parts: str) -> str:
        return posixpath.join(self._root, *parts)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except FarmError:
            raise
        except Exception as error:  # each kind of place has errors of its own
            raise FarmError(f"{self._address}: {one_line(str(error)) or type(error).__name__}") from None
